// Gives each bucket of this rank's gradients, made smaller (compress/compressor.h), to all ranks in
// place of summing it; every rank adds the frames of all in rank order, so that all hold equal
// bits. What the frames do not say is added to the next gradient: it is kept in a second residual,
// which takes the place of the first with commit() alone. A step that is given up changes nothing.
//
// On the wire a rank sends (world size - 1) slots a bucket. One thread.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "trainer-runtime/compress/compressor.h"
#include "trainer-runtime/optim/optimizer.h"
#include "trainer-runtime/parallel/gradient_reducer.h"

namespace pawl::parallel {

struct CompressionOptions {
  compress::Kind kind = compress::Kind::kBf16;
  double share = 0.01;                // top-k
  models::Index bucket_elements = 0;  // as in ReducerOptions
};

// A slot holds the bytes of its frame as u32, then the frame; what is behind it is zero.
inline constexpr std::size_t kSlotHead = 4;
// Of one rank, and what fills them.
struct Slots {
  std::unique_ptr<compress::Compressor> compressor;
  std::vector<std::size_t> of_bucket;
  std::size_t bytes = 0;  // of all
};
Slots slots_of(const CompressionOptions& options, const std::vector<Bucket>& buckets);

// `residual` has as many values as there are gradients, and outlives the reducer.
std::unique_ptr<GradientReducer> make_compressed_reducer(collective::Collective& ring,
                                                         std::span<float> gradients,
                                                         optim::Residual& residual,
                                                         const CompressionOptions& options);

}  // namespace pawl::parallel
