// Makes a bucket of a rank's gradient into a frame of fewer bytes, with error feedback: what a
// frame does not say is added to the next gradient (Seide et al., "1-bit stochastic gradient
// descent", 2014; Karimireddy et al., "Error feedback fixes SignSGD", 2019). The caller gives
// every rank's frame to every rank, and each adds all of them in rank order, so that all hold equal
// bits, whatever their processors. Who sends the frames and keeps the residuals is not here.
//
// A compressor belongs to one thread; encoding and decoding allocate nothing.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "common/base/result.h"
#include "trainer-runtime/compress/kernels.h"

namespace pawl::compress {

// The frames of n elements. Numbers are little-endian, without gaps; nothing is aligned.
enum class Kind {
  // n × bf16, rounded to nearest even. 2 n bytes.
  kBf16,
  // Blocks of 256 elements, the last may be shorter: a fp32 scale for each block, then n × int8.
  // An element is int8 · scale, and scale the block's largest size / 127 (Dettmers, "8-bit
  // approximations for parallelism in deep learning", 2015, with linear steps). Blocks below 2^-100
  // are sent as 0. 4 ⌈n / 256⌉ + n bytes.
  kInt8,
  // Blocks of 512 elements: a bf16 scale for each block, then 16 × u32 for each block; bit b of
  // word w is the sign of the block's element 16 b + w, and 0 where there is none. An element is
  // ± scale, and scale the mean of the block's sizes (Seide 2014; Tang et al., "1-bit Adam", 2021,
  // which compresses the momentum so). 66 ⌈n / 512⌉ bytes.
  kSign,
  // u32 m, then m × u32 index, rising, then m × fp32 (Aji and Heafield, "Sparse communication for
  // distributed gradient descent", 2017; the threshold from a sample as in Lin et al., "Deep
  // gradient compression", 2018). 4 + 8 m bytes; m is at most share · n, and 1 at least. Zeros are
  // not sent.
  kTopK,
};

// What holds of c = values + residual, each rounded to fp32:
// - bf16, int8, top-k: decoded + new residual = c, up to the last bit for int8.
// - sign: the same for elements of half the scale or more; a smaller one is right to 2^-24 of the
//   scale, as ± scale + residual has no more bits.
// - An element that is not finite decodes to one that is not, in int8 and sign with its whole
//   block; in top-k at least one does. A residual that was finite stays so: such a step is to be
//   given up, and training may go on.
class Compressor {
 public:
  virtual ~Compressor() = default;
  // Of `count` elements, which are at most the planned ones.
  virtual std::size_t frame_bytes_max(Index count) const = 0;
  // Returns how many bytes the frame has. `frame` has frame_bytes_max, residual as many elements as
  // values.
  virtual std::size_t encode(std::span<const float> values, std::span<float> residual,
                             std::span<std::byte> frame) = 0;
  // sum += what the frame says. Corrupt: it is no frame of as many elements, and sum is as before.
  virtual Status decode_add(std::span<const std::byte> frame, std::span<float> sum) const = 0;
};

struct Options {
  Kind kind = Kind::kBf16;
  Index count_max = 0;  // elements of the largest bucket, below 2^32
  double share = 0.01;  // top-k: of the elements, above 0 and up to 1
  const KernelTable* kernels = &kernel_table();
};
std::unique_ptr<Compressor> make_compressor(const Options& options);

// The one of kind kTopK.
std::unique_ptr<Compressor> make_top_k(const Options& options);

}  // namespace pawl::compress
