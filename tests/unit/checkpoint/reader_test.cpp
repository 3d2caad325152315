// Saved at one world size, loaded at another.
#include "common/checkpoint/reader.h"

#include <cstring>

#include "tests/unit/checkpoint/fixture.h"
#include "tests/unit/store/temporary_folder.h"

namespace pawl::checkpoint {
namespace {

const std::vector<Tensor> kManyTypes = {{"h.0.weight", Dtype::kF32, {37, 11}},
                                        {"empty", Dtype::kF32, {0}},
                                        {"step", Dtype::kI64, {}},
                                        {"h.0.bias", Dtype::kBF16, {101}},
                                        {"flags", Dtype::kU8, {3, 3}}};
const CheckpointId kId{1200, 2, 7};

using Values = std::map<std::string, std::string>;  // each tensor's bytes

Values random_values(std::uint64_t seed) {
  Random random{seed};
  Values values;
  for (const auto& tensor : kManyTypes) {
    std::string& bytes = values[tensor.name];
    while (bytes.size() < bytes_of(tensor)) bytes += static_cast<char>(random.below(256));
  }
  return values;
}

std::string shard_file(const Values& values, std::span<const Piece> pieces) {
  std::string file = build_header(pieces).value();
  for (const auto& piece : pieces) {
    const std::uint64_t size = dtype_bytes(piece.tensor.dtype);
    file += values.at(piece.tensor.name).substr(piece.offset * size, piece.elements * size);
  }
  return file;
}

Manifest save_files(store::Store& store, const std::vector<std::string>& files) {
  std::vector<ShardInfo> shards;
  const int count = static_cast<int>(files.size());
  for (int i = 0; i < count; ++i) {
    shards.push_back(
        *write_shard(store, kId, i, count, bytes_of(files[static_cast<std::size_t>(i)])));
  }
  const auto published = publish(store, manifest_for(kId, std::move(shards)));
  REQUIRE(published.has_value());
  return *published;
}

Manifest save_model(store::Store& store, const Values& values, int count) {
  std::vector<std::string> files;
  for (int i = 0; i < count; ++i)
    files.push_back(shard_file(values, plan_shard(kManyTypes, i, count)));
  return save_files(store, files);
}

std::string read_range(const Reader& reader, const Tensor& tensor, std::uint64_t first,
                       std::uint64_t elements) {
  std::string bytes(elements * dtype_bytes(tensor.dtype), '\0');
  const auto read = reader.read(tensor.name, first, std::as_writable_bytes(std::span{bytes}));
  if (!read) FAIL(read.error().message);
  return bytes;
}

}  // namespace

TEST_CASE("reader: what any world size saved, any world size loads, equal to the bit",
          "[checkpoint]") {
  for (const int saved_by : {1, 2, 3, 4, 8, 40}) {
    store::MemoryDisk disk;
    const auto process = start(disk);
    const Values values = random_values(static_cast<std::uint64_t>(saved_by));
    save_model(*process.store, values, saved_by);
    const auto selection = select(*process.store);
    REQUIRE(selection.newest.has_value());
    const auto reader = Reader::open(*process.store, *selection.newest);
    if (!reader) FAIL(reader.error().message);
    REQUIRE(reader->tensors().size() == kManyTypes.size());
    for (const auto& tensor : kManyTypes) {
      REQUIRE(*reader->find(tensor.name) == tensor);
      REQUIRE(read_range(*reader, tensor, 0, elements_of(tensor)) == values.at(tensor.name));
    }
    for (const int loaded_by : {1, 2, 3, 8}) {
      for (int rank = 0; rank < loaded_by; ++rank) {
        const auto pieces = plan_shard(kManyTypes, rank, loaded_by);
        std::string loaded = build_header(pieces).value();
        for (const auto& piece : pieces)
          loaded += read_range(*reader, piece.tensor, piece.offset, piece.elements);
        REQUIRE(loaded == shard_file(values, pieces));
      }
    }
  }
}

TEST_CASE("reader: ranges outside a tensor and unknown names are refused", "[checkpoint]") {
  store::MemoryDisk disk;
  const auto process = start(disk);
  save_model(*process.store, random_values(1), 3);
  const auto reader = Reader::open(*process.store, *select(*process.store).newest);
  std::array<std::byte, 8> room{};
  CHECK(reader->read("none", 0, room).error().code == Code::kNotFound);
  CHECK(reader->find("none") == nullptr);
  CHECK(reader->read("step", 0, room).has_value());
  CHECK(reader->read("step", 1, room).error().code == Code::kInvalid);
  CHECK(reader->read("step", 0, std::span{room}.first(4)).error().code == Code::kInvalid);
  CHECK(reader->read("h.0.weight", 37 * 11 - 1, room).error().code == Code::kInvalid);
  CHECK(reader->read("h.0.weight", ~std::uint64_t{0}, room).error().code == Code::kInvalid);
}

TEST_CASE("reader: pieces with a gap, an overlap or another shape are refused", "[checkpoint]") {
  const Tensor tensor{"t", Dtype::kU8, {10}}, other{"t", Dtype::kU8, {2, 5}};
  const Values values = {{"t", "0123456789"}};
  const std::vector<std::vector<Piece>> cases = {
      {{tensor, 0, 4}, {tensor, 5, 5}},   {{tensor, 0, 6}, {tensor, 5, 5}},
      {{tensor, 0, 4}, {tensor, 4, 5}},   {{tensor, 0, 5}, {other, 5, 5}},
      {{tensor, 0, 10}, {tensor, 0, 10}}, {{tensor, 1, 5}, {tensor, 6, 4}}};
  for (const auto& pieces : cases) {
    store::MemoryDisk disk;
    const auto process = start(disk);
    save_files(*process.store, {shard_file(values, std::span{pieces}.first(1)),
                                shard_file(values, std::span{pieces}.subspan(1))});
    const auto reader = Reader::open(*process.store, *select(*process.store).newest);
    REQUIRE_FALSE(reader.has_value());
    CHECK(reader.error().code == Code::kCorrupt);
  }
}

TEST_CASE("reader: a shard that is no safetensors file is refused with its name", "[checkpoint]") {
  store::MemoryDisk disk;
  const auto process = start(disk);
  for (const std::string& file :
       {std::string("short"), std::string(100, 'x'), std::string(100, '\0')}) {
    store::MemoryDisk own;
    const auto one = start(own);
    save_files(*one.store, {file});
    const auto reader = Reader::open(*one.store, *select(*one.store).newest);
    REQUIRE_FALSE(reader.has_value());
    CHECK(reader.error().code == Code::kCorrupt);
    CHECK(reader.error().message.find(shard_name(0, 1)) != std::string::npos);
  }
}

TEST_CASE("open_checkpoint: opens a folder by its URI on real files", "[checkpoint]") {
  const store::TemporaryFolder folder;
  const auto store = store::open_store("file://" + folder.path() + "/run");
  REQUIRE(store.has_value());
  const Values values = random_values(3);
  const Manifest manifest = save_model(**store, values, 2);
  for (const char* end : {"", "/"}) {
    const auto opened = open_checkpoint((*store)->uri_of(folder_of(kId)) + end);
    if (!opened) FAIL(opened.error().message);
    CHECK(opened->found.manifest == manifest);
    CHECK(verify(*opened->store, opened->found.folder, manifest).has_value());
    CHECK(read_range(opened->reader, kManyTypes[0], 0, 37 * 11) == values.at("h.0.weight"));
  }
  CHECK(open_checkpoint((*store)->uri_of("step-00000001-a01-g0001")).error().code ==
        Code::kNotFound);
  for (const char* uri : {"", "x", "file:///", "s3://bucket/step-00000001-a01-g0001"}) {
    INFO(uri);
    CHECK(open_checkpoint(uri).error().code == Code::kInvalid);
  }
  CHECK(open_checkpoint((*store)->uri_of("elsewhere")).error().code == Code::kInvalid);
}

}  // namespace pawl::checkpoint
