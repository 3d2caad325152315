// The arithmetic of the compressors, as one table of functions for each instruction set. All tables
// give equal bits, whatever the processor: no fused multiply-add, and the order of sums is fixed.
// Used by this folder alone; which bytes a frame has is written in compressor.h. Pure functions: no
// allocation, no locks, any thread. Frames lie at any address.
#pragma once

#include <cstddef>
#include <cstdint>

#include "trainer-runtime/kernels/kernels.h"

namespace pawl::compress {

using kernels::Index;

inline constexpr Index kInt8Block = 256;
inline constexpr Index kSignBlock = 512, kSignWords = 16;  // words of 32 signs each
// The bits of a float without its sign order floats by their size: NaN > infinity > all others.
using Key = std::int32_t;
inline constexpr Key kInfinity = 0x7f800000;

// The next elements whose key is at least `threshold`, in the order of their indices. Ends at the
// end, or where the indices of a further group of kSearchGroup might not fit.
inline constexpr Index kSearchGroup = 32;
struct Search {
  const float* values = nullptr;
  Index count = 0, next = 0;  // `next`: where it goes on
  Key threshold = 0;
  std::uint32_t* indices = nullptr;
  Index capacity = 0, found = 0;
};

// Σ over k < rank of left[k] · right[k]ᵀ, rows × columns. Vectors of one kind lie one behind the
// other.
struct LowRank {
  Index rows = 0, columns = 0;
  int rank = 0;
  const float* left = nullptr;   // rank × rows
  const float* right = nullptr;  // rank × columns
};

struct KernelTable {
  // Of c = values + residual: what c says goes to the frame, what it does not to the residual. A
  // residual is not changed where (int8, sign: in a block in which) c is not finite.
  void (*bf16_encode)(Index count, const float* values, float* residual, std::byte* frame);
  void (*int8_encode)(Index count, const float* values, float* residual, std::byte* frame);
  void (*sign_encode)(Index count, const float* values, float* residual, std::byte* frame);
  // sum += what the frame says.
  void (*bf16_add)(Index count, const std::byte* frame, float* sum);
  void (*int8_add)(Index count, const std::byte* frame, float* sum);
  void (*sign_add)(Index count, const std::byte* frame, float* sum);

  // to += from; returns the largest key of the sums.
  Key (*accumulate)(Index count, const float* from, float* to);
  Key (*largest_key)(Index count, const float* values);
  void (*search)(Search& search);
  // What is not finite becomes 0.
  void (*drop_not_finite)(Index count, float* values);

  // out[k] = matrix · right[k]; `out` is rank × rows.
  void (*times_right)(const LowRank& factors, const float* matrix, float* out);
  // out[k] = matrixᵀ · left[k]; `out` is rank × columns.
  void (*times_left)(const LowRank& factors, const float* matrix, float* out);
  // matrix += or -= the factors' product.
  void (*add_product)(const LowRank& factors, float* matrix);
  void (*subtract_product)(const LowRank& factors, float* matrix);
  // In fp64, as the factors of a small matrix would vanish in fp32.
  double (*dot)(Index count, const float* a, const float* b);
  // to += factor * from
  void (*add_scaled)(Index count, float factor, const float* from, float* to);
};

// The table for the processor that runs this program, and all that it can run: indices as of
// kernels::table_at.
const KernelTable& kernel_table();
const KernelTable& kernel_table_at(int index);

extern const KernelTable kCompressSse2, kCompressAvx2, kCompressAvx512;

}  // namespace pawl::compress
