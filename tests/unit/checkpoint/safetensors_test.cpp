#include "common/checkpoint/safetensors.h"

#include <array>
#include <catch2/catch_test_macros.hpp>

#include "common/base/random.h"

namespace pawl::checkpoint {
namespace {

const std::vector<Tensor> kModel = {{"wte", Dtype::kF32, {7, 5}},
                                    {"scalar", Dtype::kF64, {}},
                                    {"empty", Dtype::kF32, {0, 3}},
                                    {"bias", Dtype::kBF16, {11}},
                                    {"mask", Dtype::kBool, {3, 1, 2}}};

std::uint64_t bytes_of_piece(const Piece& piece) {
  return piece.elements * dtype_bytes(piece.tensor.dtype);
}

std::string json_of(const std::string& file) { return file.substr(8); }

// `json` padded, in front of `data_bytes` bytes of data.
std::string problem_of(std::string json, std::uint64_t data_bytes) {
  json.append((8 - json.size() % 8) % 8, ' ');
  const auto header = parse_header(json, 8 + json.size() + data_bytes);
  if (header) return "";
  REQUIRE(header.error().code == Code::kCorrupt);
  return header.error().message;
}

}  // namespace

TEST_CASE("safetensors: the shards of any count cover every tensor once, in order",
          "[checkpoint]") {
  for (int count = 1; count <= 60; ++count) {
    std::map<std::string, std::uint64_t> next;
    std::uint64_t largest = 0, smallest = ~std::uint64_t{0};
    for (int index = 0; index < count; ++index) {
      std::uint64_t bytes = 0;
      for (const auto& piece : plan_shard(kModel, index, count)) {
        REQUIRE(piece.offset == next[piece.tensor.name]);
        next[piece.tensor.name] += piece.elements;
        bytes += bytes_of_piece(piece);
      }
      largest = std::max(largest, bytes), smallest = std::min(smallest, bytes);
    }
    for (const auto& tensor : kModel) REQUIRE(next.at(tensor.name) == elements_of(tensor));
    REQUIRE(largest - smallest <= 16);  // even, but for the cuts between elements
  }
  CHECK(plan_shard({}, 0, 1).empty());
}

TEST_CASE("safetensors: a header is read back as it was built", "[checkpoint]") {
  for (int count = 1; count <= 9; ++count) {
    for (int index = 0; index < count; ++index) {
      const auto pieces = plan_shard(kModel, index, count);
      const auto built = build_header(pieces, {{"format", "pt"}, {"note", "a \"quoted\" line\n"}});
      REQUIRE(built.has_value());
      REQUIRE(built->size() % 8 == 0);
      std::uint64_t data = 0;
      for (const auto& piece : pieces) data += bytes_of_piece(piece);
      std::array<std::byte, 8> prefix{};
      std::copy_n(std::as_bytes(std::span{*built}).begin(), 8, prefix.begin());
      REQUIRE(header_bytes(prefix, built->size() + data).value() == built->size() - 8);
      const auto header = parse_header(json_of(*built), built->size() + data);
      if (!header) FAIL(header.error().message);
      CHECK(header->metadata == Metadata{{"format", "pt"}, {"note", "a \"quoted\" line\n"}});
      CHECK(header->data_begin == built->size());
      REQUIRE(header->pieces.size() == pieces.size());
      std::uint64_t begin = built->size();
      for (std::size_t i = 0; i < pieces.size(); ++i) {
        CHECK(header->pieces[i].piece == pieces[i]);
        CHECK(header->pieces[i].begin == begin);
        begin += bytes_of_piece(pieces[i]);
      }
    }
  }
}

TEST_CASE("safetensors: several pieces of one tensor are told apart and put together",
          "[checkpoint]") {
  const Tensor wide{"wte", Dtype::kF32, {7, 5}}, other{"b", Dtype::kU8, {3}};
  const std::vector<Piece> pieces = {{wide, 3, 4}, {wide, 7, 1}, {other, 0, 3}, {wide, 20, 15}};
  const auto built = build_header(pieces);
  REQUIRE(built);
  for (const char* key : {"\"wte\":{", "\"wte#7\":{", "\"wte#20\":{"})
    CHECK(built->find(key) != std::string::npos);
  const auto header = parse_header(json_of(*built), built->size() + 20 * 4 + 3);
  if (!header) FAIL(header.error().message);
  REQUIRE(header->pieces.size() == pieces.size());
  for (std::size_t i = 0; i < pieces.size(); ++i) CHECK(header->pieces[i].piece == pieces[i]);
}

TEST_CASE("safetensors: one shard is the file that other libraries write", "[checkpoint]") {
  const std::vector<Tensor> model = {{"a", Dtype::kF32, {2, 3}}, {"b", Dtype::kI64, {}}};
  const auto built = build_header(plan_shard(model, 0, 1), {{"format", "pt"}});
  CHECK(json_of(*built) ==
        "{\"__metadata__\":{\"format\":\"pt\"},\"a\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_"
        "offsets\":[0,24]},"
        "\"b\":{\"dtype\":\"I64\",\"shape\":[],\"data_offsets\":[24,32]}}  ");
  CHECK(std::string_view{*built}.substr(0, 8) == std::string_view("\x90\0\0\0\0\0\0\0", 8));
}

TEST_CASE("safetensors: what cannot be read back is not built", "[checkpoint]") {
  const Tensor tensor{"a", Dtype::kF32, {4}};
  const auto code = [](const std::vector<Piece>& pieces, const Metadata& metadata = {}) {
    const auto built = build_header(pieces, metadata);
    return built ? std::string{"built"} : code_name(built.error().code);
  };
  CHECK(code({{tensor, 0, 4}}) == "built");
  CHECK(code({{tensor, 0, 2}, {tensor, 2, 2}}) == "built");
  CHECK(code({{tensor, 0, 3}, {tensor, 2, 2}}) == "Invalid");
  CHECK(code({{tensor, 2, 2}, {tensor, 0, 2}}) == "Invalid");
  CHECK(code({{tensor, 0, 2}, {tensor, 2, 0}}) == "Invalid");
  CHECK(code({{tensor, 0, 4}, {tensor, 0, 4}}) == "Invalid");
  CHECK(code({{tensor, 0, 2}, {{"a", Dtype::kF32, {5}}, 2, 2}}) == "Invalid");
  CHECK(code({{tensor, 0, 2}, {tensor, 2, 2}, {{"a#2", Dtype::kF32, {1}}, 0, 1}}) == "Invalid");
  CHECK(code({{tensor, 1, 4}}) == "Invalid");
  CHECK(code({{tensor, 5, 0}}) == "Invalid");
  CHECK(code({{{"\xff", Dtype::kF32, {4}}, 0, 4}}) == "Invalid");
  CHECK(code({{{"__metadata__", Dtype::kF32, {4}}, 0, 4}}) == "Invalid");
  CHECK(code({{{"a", Dtype::kF32, {1ULL << 32, 1ULL << 32}}, 0, 0}}) == "Invalid");
  CHECK(code({{tensor, 0, 4}}, {{"pawl.pieces", "{}"}}) == "Invalid");
  CHECK(code({{tensor, 0, 4}}, {{"note", "\xff"}}) == "Invalid");
}

TEST_CASE("safetensors: a header that breaks a rule is refused", "[checkpoint]") {
  const std::string a = R"("a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]})";
  const std::string b = R"("b":{"dtype":"U8","shape":[4],"data_offsets":[8,12]})";
  REQUIRE(problem_of("{" + a + "," + b + "}", 12).empty());
  REQUIRE(problem_of("{" + b + "," + a + "}", 12).empty());
  REQUIRE(problem_of("{}", 0).empty());
  const std::vector<std::pair<std::string, std::uint64_t>> cases = {
      {"{" + a + "," + b + "}", 11},
      {"{" + a + "," + b + "}", 13},
      {"{" + a + "}", 12},
      {"{" + b + "}", 12},
      {"{" + a + "," + a + "}", 8},
      {"{" + a + ",\"c\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[4,8]}}", 8},
      {"{\"a\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[0,8]}}", 8},
      {"{\"a\":{\"dtype\":\"F31\",\"shape\":[2],\"data_offsets\":[0,8]}}", 8},
      {"{\"a\":{\"dtype\":4,\"shape\":[2],\"data_offsets\":[0,8]}}", 8},
      {"{\"a\":{\"dtype\":\"F32\",\"shape\":[-2],\"data_offsets\":[0,8]}}", 8},
      {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2.0],\"data_offsets\":[0,8]}}", 8},
      {"{\"a\":{\"dtype\":\"F32\",\"shape\":2,\"data_offsets\":[0,8]}}", 8},
      {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[8,0]}}", 8},
      {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8,9]}}", 8},
      {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8],\"x\":1}}", 8},
      {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2]}}", 8},
      {"{\"a\":{\"dtype\":\"U8\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,0]}}", 0},
      {"{\"a\":3}", 0},
      {"{\"__metadata__\":{\"a\":1}}", 0},
      {"{\"__metadata__\":[]}", 0},
      {"{\"__metadata__\":{\"a\":\"1\",\"a\":\"2\"}}", 0},
      {"{\"__metadata__\":{\"a\":{\"b\":{\"c\":1}}}}", 0},
      {"{\"__metadata__\":{\"pawl.pieces\":\"nonsense\"}}", 0},
      {"{\"__metadata__\":{\"pawl.pieces\":\"{\\\"a\\\":{\\\"offset\\\":1,\\\"shape\\\":[2]}}\"}," +
           a + "}",
       8},
      {"{\"__metadata__\":{\"pawl.pieces\":\"{\\\"a\\\":{\\\"offset\\\":0}}\"}," + a + "}", 8},
      {"{\"__metadata__\":{\"pawl.pieces\":\"{\\\"z\\\":{\\\"offset\\\":0,\\\"shape\\\":[2]}}\"}," +
           a + "}",
       8},
      {"{\"__metadata__\":{\"pawl.pieces\":\"{\\\"a\\\":{\\\"offset\\\":0,\\\"shape\\\":[2],"
       "\\\"tensor\\\":1}}\"}," +
           a + "}",
       8},
      {"{\"__metadata__\":{\"pawl.pieces\":\"{\\\"a\\\":{\\\"offset\\\":0,\\\"shape\\\":[2],"
       "\\\"more\\\":1}}\"}," +
           a + "}",
       8},
      {" {" + a + "}", 8},
      {"[]", 0},
      {"{" + a, 8},
      {"{" + a + "} x", 8},
      {"", 0},
  };
  for (const auto& [json, data] : cases) {
    INFO(json);
    CHECK(problem_of(json, data).starts_with("safetensors header: "));
  }
}

TEST_CASE("safetensors: the length of a header is bounded", "[checkpoint]") {
  const auto bytes_of_length = [](std::uint64_t length) {
    std::array<std::byte, 8> prefix{};
    for (std::size_t i = 0; i < 8; ++i)
      prefix[i] = static_cast<std::byte>((length >> (8 * i)) & 0xff);
    return prefix;
  };
  CHECK(header_bytes(bytes_of_length(100), 108).value() == 100);
  CHECK_FALSE(header_bytes(bytes_of_length(100), 107).has_value());
  CHECK_FALSE(header_bytes(bytes_of_length(0), 7).has_value());
  CHECK(header_bytes(bytes_of_length(100'000'000), ~std::uint64_t{0}).has_value());
  CHECK_FALSE(header_bytes(bytes_of_length(100'000'001), ~std::uint64_t{0}).has_value());
  CHECK_FALSE(header_bytes(bytes_of_length(~std::uint64_t{0}), ~std::uint64_t{0}).has_value());
}

TEST_CASE("safetensors: random damage never crashes the parser", "[checkpoint]") {
  const std::string good = json_of(*build_header(plan_shard(kModel, 1, 3), {{"format", "pt"}}));
  Random random{11};
  int refused = 0;
  for (int round = 0; round < 5000; ++round) {
    std::string json = good;
    for (std::uint64_t flips = 1 + random.below(3); flips > 0; --flips) {
      json[random.below(json.size())] = static_cast<char>(random.below(256));
    }
    refused += parse_header(json, 8 + json.size() + 58) ? 0 : 1;
  }
  CHECK(refused > 4000);
}

}  // namespace pawl::checkpoint
