#include "common/checkpoint/safetensors.h"

#include <algorithm>

#include "common/base/check.h"

namespace pawl::checkpoint {

const char* dtype_name(Dtype dtype) {
  switch (dtype) {
    case Dtype::kBool:
      return "BOOL";
    case Dtype::kU8:
      return "U8";
    case Dtype::kI8:
      return "I8";
    case Dtype::kF8E5M2:
      return "F8_E5M2";
    case Dtype::kF8E4M3:
      return "F8_E4M3";
    case Dtype::kI16:
      return "I16";
    case Dtype::kU16:
      return "U16";
    case Dtype::kF16:
      return "F16";
    case Dtype::kBF16:
      return "BF16";
    case Dtype::kI32:
      return "I32";
    case Dtype::kU32:
      return "U32";
    case Dtype::kF32:
      return "F32";
    case Dtype::kI64:
      return "I64";
    case Dtype::kU64:
      return "U64";
    case Dtype::kF64:
      return "F64";
  }
  return "";
}

std::uint64_t dtype_bytes(Dtype dtype) {
  if (dtype >= Dtype::kI64) return 8;
  if (dtype >= Dtype::kI32) return 4;
  return dtype >= Dtype::kI16 ? 2 : 1;
}

std::uint64_t elements_of(const Tensor& tensor) {
  std::uint64_t product = 1;
  for (const std::uint64_t size : tensor.shape) product *= size;
  return product;
}

std::uint64_t bytes_of(const Tensor& tensor) {
  return elements_of(tensor) * dtype_bytes(tensor.dtype);
}

std::vector<Piece> plan_shard(std::span<const Tensor> tensors, int index, int count) {
  PAWL_CHECK(count > 0 && index >= 0 && index < count, "a shard's index is below the count");
  __uint128_t total = 0;
  for (const auto& tensor : tensors) total += bytes_of(tensor);
  const auto cut = [&](int at) {
    return static_cast<std::uint64_t>(total * static_cast<unsigned>(at) /
                                      static_cast<unsigned>(count));
  };
  const std::uint64_t from = cut(index), to = cut(index + 1);
  std::vector<Piece> pieces;
  std::uint64_t start = 0;  // of the tensor, among all
  for (const auto& tensor : tensors) {
    const std::uint64_t size = dtype_bytes(tensor.dtype), elements = elements_of(tensor);
    // A cut in the middle of an element moves back to its start, in the same way for both
    // neighbours.
    const auto element_at = [&](std::uint64_t byte) {
      return byte <= start ? 0 : std::min((byte - start) / size, elements);
    };
    const std::uint64_t first = element_at(from), last = element_at(to);
    if (last > first || (elements == 0 && index == 0))
      pieces.push_back({tensor, first, last - first});
    start += elements * size;
  }
  return pieces;
}

}  // namespace pawl::checkpoint
