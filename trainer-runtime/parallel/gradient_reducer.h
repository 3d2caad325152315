// Sums the gradients of all ranks while backward still computes: the flat array is cut into buckets
// from its end to its start, the order in which gradients become final, and a bucket goes to the
// network as soon as it is final. One thread.
#pragma once

#include <cstdint>
#include <memory>
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
  virtual ~GradientReducer() = default;

  // A micro-batch of this rank is done, and not its last: `gradients` are what it has added.
  virtual void end_micro_batch() {}
  // Gradients at and behind `first` are final on this rank.
  void ready(models::Index first);
  // Returns when all buckets are sums over all ranks. Then the next step may begin, with gradients
  // set to zero. Corrupt: a gradient of this rank cannot be summed.
  virtual Status finish();

 protected:
  virtual collective::Ticket start(models::Index begin, models::Index end, int bucket);

  collective::Collective& ring_;
  std::span<float> gradients_;

 private:
  models::Index bucket_elements_;
  models::Index started_from_;  // everything at and behind it is on its way
  std::vector<collective::Ticket> tickets_;
};

// Sums that do not depend on how the micro-batches are dealt, bit by bit: the gradients of each
// micro-batch are rounded to multiples of kFixedUnit and summed as 64-bit integers, in whatever
// order (determinism: exact; cf. Collange et al., "Numerical reproducibility for the parallel
// reduction on multi- and many-core architectures", 2015). Costs 8 bytes more a parameter, and
// twice the bytes on the wire. `micro_batches`: of a step, on all ranks.
std::unique_ptr<GradientReducer> make_exact_reducer(
    collective::Collective& ring, std::span<float> gradients, std::int64_t micro_batches,
    models::Index bucket_elements = kBucketElements);

// 3.6e-15. The gradient of a step is below 2^14, or it is not trained on.
inline constexpr double kFixedUnit = 1.0 / static_cast<double>(std::int64_t{1} << 48);

}  // namespace pawl::parallel
