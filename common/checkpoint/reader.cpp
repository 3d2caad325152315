#include "common/checkpoint/reader.h"

#include <algorithm>
#include <array>
#include <map>

namespace pawl::checkpoint {
namespace {

Result<Header> read_header(const store::Store& store, const std::string& key) {
  PAWL_TRY(entry, store.stat(key));
  std::array<std::byte, 8> prefix{};
  PAWL_TRY_VOID(store.read(key, 0, prefix));
  PAWL_TRY(bytes, header_bytes(prefix, entry.bytes));
  std::string text(bytes, '\0');
  PAWL_TRY_VOID(store.read(key, prefix.size(), std::as_writable_bytes(std::span{text})));
  return parse_header(text, entry.bytes);
}

}  // namespace

Result<Reader> Reader::open(const store::Store& store, const Found& found) {
  struct Gathered {
    Tensor tensor;
    std::vector<Place> places;
  };
  std::map<std::string, Gathered> gathered;
  for (const auto& shard : found.manifest.shards) {
    const std::string key = found.folder + "/" + shard.file;
    auto header = read_header(store, key);
    if (!header) return fail_with(header.error(), store.uri_of(key));
    for (const auto& stored : header->pieces) {
      const Piece& piece = stored.piece;
      auto& one = gathered.try_emplace(piece.tensor.name, Gathered{piece.tensor, {}}).first->second;
      if (one.tensor != piece.tensor) {
        return fail(Code::kCorrupt,
                    "the shards disagree about tensor \"" + piece.tensor.name + "\"");
      }
      one.places.push_back({key, piece.offset, piece.elements, stored.begin});
    }
  }
  Reader reader;
  reader.store_ = &store;
  for (auto& [name, one] : gathered) {
    std::sort(one.places.begin(), one.places.end(),
              [](const Place& a, const Place& b) { return a.offset < b.offset; });
    PAWL_TRY_VOID(check_cover(one.tensor, one.places));
    reader.tensors_.push_back(std::move(one.tensor));
    reader.places_.push_back(std::move(one.places));
  }
  return reader;
}

Status Reader::check_cover(const Tensor& tensor, const std::vector<Place>& places) {
  std::uint64_t end = 0;
  bool is_gapless = true;
  for (const auto& place : places) {
    is_gapless = is_gapless && place.offset == end;
    end += place.elements;
  }
  if (is_gapless && end == elements_of(tensor)) return {};
  return fail(Code::kCorrupt, "the pieces of tensor \"" + tensor.name + "\" do not cover it once");
}

const Tensor* Reader::find(const std::string& name) const {
  const auto found =
      std::lower_bound(tensors_.begin(), tensors_.end(), name,
                       [](const Tensor& tensor, const std::string& n) { return tensor.name < n; });
  return found != tensors_.end() && found->name == name ? &*found : nullptr;
}

Status Reader::read(const std::string& name, std::uint64_t first_element,
                    std::span<std::byte> into) const {
  const Tensor* tensor = find(name);
  if (tensor == nullptr)
    return fail(Code::kNotFound, "the checkpoint has no tensor \"" + name + "\"");
  const std::uint64_t size = dtype_bytes(tensor->dtype), total = elements_of(*tensor);
  if (into.size() % size != 0 || first_element > total ||
      into.size() / size > total - first_element) {
    return fail(Code::kInvalid, "a range outside of tensor \"" + name + "\", which has " +
                                    std::to_string(total) + " elements of " + std::to_string(size) +
                                    " bytes");
  }
  for (const auto& place : places_[static_cast<std::size_t>(tensor - tensors_.data())]) {
    if (into.empty()) break;
    if (first_element >= place.offset + place.elements) continue;
    const std::uint64_t skipped = first_element - place.offset;
    const std::uint64_t taken = std::min(into.size() / size, place.elements - skipped);
    PAWL_TRY_VOID(store_->read(place.key, place.begin + skipped * size, into.first(taken * size)));
    into = into.subspan(taken * size);
    first_element += taken;
  }
  return {};
}

Result<Opened> open_checkpoint(const std::string& uri) {
  const auto slash = uri.rfind('/', uri.find_last_not_of('/'));
  if (slash == std::string::npos)
    return fail(Code::kInvalid, "not the URI of a checkpoint: \"" + uri + "\"");
  const std::string folder = uri.substr(slash + 1, uri.find_last_not_of('/') - slash);
  const auto id = parse_folder(folder);
  if (!id) return fail(Code::kInvalid, "not the URI of a checkpoint folder: \"" + uri + "\"");
  PAWL_TRY(store, store::open_store(uri.substr(0, slash)));
  auto manifest = read_manifest(*store, folder);
  if (!manifest) return fail_with(manifest.error(), "checkpoint " + uri);
  Found found{*id, folder, std::move(*manifest)};
  PAWL_TRY(reader, Reader::open(*store, found));
  return Opened{std::move(store), std::move(found), std::move(reader)};
}

}  // namespace pawl::checkpoint
