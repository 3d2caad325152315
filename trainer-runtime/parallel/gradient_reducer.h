// Sums the gradients of all ranks while backward still computes: the flat array is cut into buckets
// from its end to its start, the order in which gradients become final, and a bucket goes to the
// network as soon as it is final. One thread.
#pragma once

#include <span>
#include <vector>

#include "trainer-runtime/collective/collective.h"
#include "trainer-runtime/models/model.h"

namespace pawl::parallel {

// 1 MB: a ring's chunks then stay in the cache.
inline constexpr models::Index kBucketElements = models::Index{1} << 18;

class GradientReducer {
 public:
  GradientReducer(collective::Collective& ring, std::span<float> gradients,
                  models::Index bucket_elements = kBucketElements);
  // Gradients at and behind `first` are final on this rank.
  void ready(models::Index first);
  // Returns when all buckets are sums over all ranks. Then the next step may begin.
  Status finish();

 private:
  collective::Collective& ring_;
  std::span<float> gradients_;
  models::Index bucket_elements_;
  models::Index started_from_;  // everything at and behind it is on its way
  std::vector<collective::Ticket> tickets_;
};

// Which of `count` items a rank works on: contiguous runs whose lengths differ by one at most.
struct Share {
  std::int64_t first = 0, last = 0;  // [first, last)
};
constexpr Share share_of(std::int64_t count, int rank, int world_size) {
  return {count * rank / world_size, count * (rank + 1) / world_size};
}

}  // namespace pawl::parallel
