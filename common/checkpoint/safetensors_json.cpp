// The JSON of safetensors headers; exceptions of the JSON library end here.
#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "common/base/json.h"
#include "common/checkpoint/safetensors.h"

namespace pawl::checkpoint {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::uint64_t kHeaderBytesMax = 100'000'000;
constexpr std::uint64_t kTensorBytesMax = std::uint64_t{1} << 63;
constexpr char kMetadataName[] = "__metadata__";
constexpr char kPiecesKey[] = "pawl.pieces";
constexpr int kDepthMax = 3;  // file, tensor, shape

tl::unexpected<Error> corrupt(const std::string& why) {
  return fail(Code::kCorrupt, "safetensors header: " + why);
}

std::optional<Dtype> dtype_of(const std::string& name) {
  for (int i = 0; i <= static_cast<int>(Dtype::kF64); ++i) {
    if (name == dtype_name(static_cast<Dtype>(i))) return static_cast<Dtype>(i);
  }
  return std::nullopt;
}

// Strict JSON: an object, no key twice, no more depth than the format has.
Result<Json> parse_strictly(const std::string& text, int depth_max) {
  std::vector<std::set<std::string>> keys;
  std::string problem;
  const auto check = [&](int depth, Json::parse_event_t event, Json& parsed) {
    if (event == Json::parse_event_t::object_start) keys.emplace_back();
    if (event == Json::parse_event_t::object_end) keys.pop_back();
    if (depth >= depth_max && problem.empty()) {
      const bool is_nested =
          event == Json::parse_event_t::object_start || event == Json::parse_event_t::array_start;
      if (is_nested) problem = "nested too deep";
    }
    if (event == Json::parse_event_t::key &&
        !keys.back().insert(parsed.get<std::string>()).second) {
      problem = "\"" + parsed.get<std::string>() + "\" stands there twice";
    }
    return problem.empty();
  };
  Json json = Json::parse(text, check, false);
  if (!problem.empty()) return corrupt(problem);
  if (json.is_discarded()) return corrupt("not JSON");
  if (!json.is_object()) return corrupt("not a JSON object");
  return json;
}

Result<std::vector<std::uint64_t>> numbers_of(const Json& json, const std::string& where) {
  std::vector<std::uint64_t> numbers;
  if (!json.is_array()) return corrupt(where + " is not an array");
  for (const auto& item : json) {
    if (!item.is_number_unsigned())
      return corrupt(where + " has something that is no whole number ≥ 0");
    numbers.push_back(item.get<std::uint64_t>());
  }
  return numbers;
}

Status check_size(const Tensor& tensor) {
  __uint128_t bytes = dtype_bytes(tensor.dtype);
  for (const std::uint64_t size : tensor.shape) {
    bytes *= size;
    if (bytes >= kTensorBytesMax) return corrupt("\"" + tensor.name + "\" is too large");
  }
  return {};
}

// `pieces` is the value of "pawl.pieces"; an entry there makes the flat tensor a part of a larger
// one, of another name perhaps.
Status place_piece(Piece& piece, const Json& pieces) {
  const std::string quoted = "\"" + piece.tensor.name + "\"";
  const auto entry = pieces.find(piece.tensor.name);
  if (entry == pieces.end()) return {};
  const bool has_tensor = entry->is_object() && entry->contains("tensor");
  const bool is_shaped = entry->is_object() && entry->size() == (has_tensor ? 3 : 2) &&
                         entry->contains("offset") && entry->contains("shape") &&
                         entry->at("offset").is_number_unsigned() &&
                         (!has_tensor || entry->at("tensor").is_string());
  if (!is_shaped) return corrupt("the place of the piece " + quoted + " is malformed");
  PAWL_TRY(shape, numbers_of(entry->at("shape"), "the logical shape of " + quoted));
  if (piece.tensor.shape.size() != 1) return corrupt("the piece " + quoted + " is not flat");
  piece.tensor.shape = std::move(shape);
  piece.offset = entry->at("offset").get<std::uint64_t>();
  if (has_tensor) piece.tensor.name = entry->at("tensor").get<std::string>();
  PAWL_TRY_VOID(check_size(piece.tensor));
  const std::uint64_t elements = elements_of(piece.tensor);
  if (piece.offset > elements || piece.elements > elements - piece.offset) {
    return corrupt("the piece " + quoted + " is outside its tensor");
  }
  return {};
}

Result<StoredPiece> stored_piece_of(const std::string& name, const Json& json, const Json& pieces) {
  const std::string quoted = "\"" + name + "\"";
  const bool is_shaped = json.is_object() && json.size() == 3 && json.contains("dtype") &&
                         json.contains("shape") && json.contains("data_offsets");
  if (!is_shaped || !json.at("dtype").is_string()) {
    return corrupt(quoted + " must have dtype, shape and data_offsets, and nothing else");
  }
  const auto dtype = dtype_of(json.at("dtype").get<std::string>());
  if (!dtype) return corrupt(quoted + " has an unknown dtype");
  StoredPiece stored;
  stored.piece.tensor = {name, *dtype, {}};
  PAWL_TRY(shape, numbers_of(json.at("shape"), "the shape of " + quoted));
  stored.piece.tensor.shape = std::move(shape);
  PAWL_TRY_VOID(check_size(stored.piece.tensor));
  stored.piece.elements = elements_of(stored.piece.tensor);
  PAWL_TRY(range, numbers_of(json.at("data_offsets"), "the range of " + quoted));
  const bool is_range = range.size() == 2 && range[1] >= range[0] &&
                        range[1] - range[0] == bytes_of(stored.piece.tensor);
  if (!is_range) return corrupt("the range of " + quoted + " does not fit its dtype and shape");
  stored.begin = range[0];
  PAWL_TRY_VOID(place_piece(stored.piece, pieces));
  return stored;
}

// Moves "pawl.pieces" out of the metadata and parses it.
Result<Json> take_metadata(const Json& header, Metadata& metadata) {
  const auto found = header.find(kMetadataName);
  if (found == header.end()) return Json::object();
  if (!found->is_object()) return corrupt("__metadata__ is not an object");
  for (const auto& [key, value] : found->items()) {
    if (!value.is_string()) return corrupt("__metadata__ has a value that is not a string");
    metadata.emplace(key, value.get<std::string>());
  }
  const auto node = metadata.extract(kPiecesKey);
  if (node.empty()) return Json::object();
  return parse_strictly(node.mapped(), kDepthMax);
}

std::uint64_t stored_bytes(const StoredPiece& stored) {
  return stored.piece.elements * dtype_bytes(stored.piece.tensor.dtype);
}

// The names of the pieces in the file.
Result<std::vector<std::string>> check_pieces(std::span<const Piece> pieces) {
  std::vector<std::string> keys;
  std::set<std::string> known;
  std::map<std::string, const Piece*> before;  // of the same tensor
  for (const auto& piece : pieces) {
    const std::string quoted = "tensor \"" + piece.tensor.name + "\"";
    if (piece.tensor.name == kMetadataName)
      return fail(Code::kInvalid, quoted + ": the name is reserved");
    const auto [last, is_first] = before.try_emplace(piece.tensor.name, &piece);
    const Piece& previous = *std::exchange(last->second, &piece);
    if (!is_first && (previous.tensor != piece.tensor ||
                      piece.offset < previous.offset + previous.elements || piece.elements == 0)) {
      return fail(Code::kInvalid, quoted + " is there twice");
    }
    keys.push_back(piece.tensor.name + (is_first ? "" : "#" + std::to_string(piece.offset)));
    if (!known.insert(keys.back()).second)
      return fail(Code::kInvalid, "tensor \"" + keys.back() + "\" is there twice");
    if (const Status size = check_size(piece.tensor); !size) {
      return fail(Code::kInvalid, size.error().message);
    }
    const std::uint64_t elements = elements_of(piece.tensor);
    if (piece.offset > elements || piece.elements > elements - piece.offset) {
      return fail(Code::kInvalid, quoted + ": the piece is outside the tensor");
    }
  }
  return keys;
}

}  // namespace

Result<std::string> build_header(std::span<const Piece> pieces, const Metadata& metadata) {
  PAWL_TRY(keys, check_pieces(pieces));
  if (metadata.contains(kPiecesKey))
    return fail(Code::kInvalid, "the metadata key pawl.pieces is reserved");
  Json tensors = Json::object(), places = Json::object();
  std::uint64_t begin = 0;
  std::string text;
  try {
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      const Piece& piece = pieces[i];
      const bool is_whole = piece.elements == elements_of(piece.tensor);
      const std::vector<std::uint64_t> flat = {piece.elements};
      const std::uint64_t end = begin + piece.elements * dtype_bytes(piece.tensor.dtype);
      tensors[keys[i]] = Json{{"dtype", dtype_name(piece.tensor.dtype)},
                              {"shape", is_whole ? piece.tensor.shape : flat},
                              {"data_offsets", {begin, end}}};
      begin = end;
      if (is_whole) continue;
      places[keys[i]] = Json{{"offset", piece.offset}, {"shape", piece.tensor.shape}};
      if (keys[i] != piece.tensor.name) places[keys[i]]["tensor"] = piece.tensor.name;
    }
    Json header = Json::object();
    if (!metadata.empty()) header[kMetadataName] = metadata;
    if (!places.empty()) header[kMetadataName][kPiecesKey] = places.dump();
    for (auto& [name, tensor] : tensors.items()) header[name] = std::move(tensor);
    text = header.dump();
  } catch (const Json::exception& error) {
    return fail(Code::kInvalid, std::string{"safetensors header: "} + error.what());
  }
  text.append((8 - text.size() % 8) % 8, ' ');
  if (text.size() > kHeaderBytesMax)
    return fail(Code::kInvalid, "a safetensors header would be over 100 MB");
  std::string prefix;
  for (int i = 0; i < 8; ++i) prefix += static_cast<char>((text.size() >> (8 * i)) & 0xff);
  return prefix + text;
}

Result<std::uint64_t> header_bytes(std::span<const std::byte, 8> prefix, std::uint64_t file_bytes) {
  std::uint64_t bytes = 0;
  for (std::size_t i = 8; i-- > 0;)
    bytes = (bytes << 8) | std::to_integer<std::uint64_t>(prefix[i]);
  if (bytes > kHeaderBytesMax) return corrupt("its length is over 100 MB");
  if (file_bytes < 8 || bytes > file_bytes - 8) return corrupt("it ends beyond the file");
  return bytes;
}

Result<Header> parse_header(const std::string& text, std::uint64_t file_bytes) {
  if (text.empty() || text.front() != '{') return corrupt("it does not begin with {");
  PAWL_TRY(json, parse_strictly(text, kDepthMax));
  Header header;
  header.data_begin = 8 + text.size();
  if (file_bytes < header.data_begin) return corrupt("it ends beyond the file");
  PAWL_TRY(places, take_metadata(json, header.metadata));
  for (const auto& [name, value] : json.items()) {
    if (name == kMetadataName) continue;
    PAWL_TRY(stored, stored_piece_of(name, value, places));
    header.pieces.push_back(std::move(stored));
  }
  for (const auto& [name, place] : places.items()) {
    if (!json.contains(name))
      return corrupt("pawl.pieces names \"" + name + "\", which is not there");
  }
  std::stable_sort(header.pieces.begin(), header.pieces.end(), [](const auto& a, const auto& b) {
    return std::pair{a.begin, a.begin + stored_bytes(a)} <
           std::pair{b.begin, b.begin + stored_bytes(b)};
  });
  std::uint64_t end = 0;
  for (auto& stored : header.pieces) {
    if (stored.begin != end) return corrupt("the ranges have a gap or an overlap");
    end += stored_bytes(stored);
    stored.begin += header.data_begin;
  }
  if (end != file_bytes - header.data_begin) return corrupt("the ranges do not cover the data");
  return header;
}

}  // namespace pawl::checkpoint
