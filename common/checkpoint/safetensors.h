// The headers of safetensors files (https://github.com/huggingface/safetensors, format of 0.3 and
// later), strict both ways, and how logical tensors are cut into the shards of a checkpoint. Used
// by the trainer (writes), reader.h and the CLI. Pure.
//
// A file is: u64 little-endian length of the header · the header, JSON padded with spaces to 8
// bytes · the data. A shard names each piece as its logical tensor, and further pieces of the same
// one as "<tensor>#<offset>". A whole tensor has its own shape; a part of one is flat, and
// __metadata__["pawl.pieces"] says where it belongs: {"<name of the piece>": {"offset": elements,
// "shape": [logical shape], and of a further piece "tensor": "<tensor>"}}. So every shard opens in
// any safetensors reader, and a checkpoint of one shard is an ordinary model file.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "common/base/result.h"

namespace pawl::checkpoint {

enum class Dtype {
  kBool,
  kU8,
  kI8,
  kF8E5M2,
  kF8E4M3,
  kI16,
  kU16,
  kF16,
  kBF16,
  kI32,
  kU32,
  kF32,
  kI64,
  kU64,
  kF64
};

// "F32", "BF16", … as in the header.
const char* dtype_name(Dtype dtype);
std::uint64_t dtype_bytes(Dtype dtype);

// A tensor as the model knows it.
struct Tensor {
  std::string name;
  Dtype dtype = Dtype::kF32;
  std::vector<std::uint64_t> shape;  // empty: a scalar
  bool operator==(const Tensor&) const = default;
};
// 1 for a scalar. The shape's product must be below 2^63 / 8 (parse_header refuses others).
std::uint64_t elements_of(const Tensor& tensor);
std::uint64_t bytes_of(const Tensor& tensor);

// `elements` elements of a logical tensor, from `offset` on in row-major order.
struct Piece {
  Tensor tensor;
  std::uint64_t offset = 0, elements = 0;
  bool operator==(const Piece&) const = default;
};

// What shard `index` of `count` holds: slice index/count of all tensors laid end to end, cut
// between elements. The slices of all indices cover everything once. Tensors without elements are
// in shard 0.
std::vector<Piece> plan_shard(std::span<const Tensor> tensors, int index, int count);

using Metadata = std::map<std::string, std::string>;

// The file up to the data: length and header. The pieces' bytes follow in this order, without gaps.
// Invalid for pieces of one tensor that overlap or fall back, or disagree about it, for two of one
// name, a piece outside its tensor, names that are not UTF-8, or a header over 100 MB.
Result<std::string> build_header(std::span<const Piece> pieces, const Metadata& metadata = {});

struct StoredPiece {
  Piece piece;
  std::uint64_t begin = 0;  // in the file, in bytes
};
struct Header {
  std::vector<StoredPiece> pieces;  // in the order of the data
  Metadata metadata;                // without "pawl.pieces"
  std::uint64_t data_begin = 0;     // in the file
};

// Length of the header from the file's first 8 bytes; Corrupt when it is over 100 MB or over the
// file's end.
Result<std::uint64_t> header_bytes(std::span<const std::byte, 8> prefix, std::uint64_t file_bytes);
// `text` is the header without the length. Corrupt unless the ranges tile the data exactly, each as
// long as dtype and shape say, names are unique, and nothing unknown is there.
Result<Header> parse_header(const std::string& text, std::uint64_t file_bytes);

}  // namespace pawl::checkpoint
