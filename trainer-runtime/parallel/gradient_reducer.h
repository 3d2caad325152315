// Sums the gradients of all ranks while backward still computes: a bucket (sharding.h) goes to the
// network as soon as it is final. One thread.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "trainer-runtime/collective/collective.h"
#include "trainer-runtime/models/model.h"
#include "trainer-runtime/parallel/sharding.h"

namespace pawl::parallel {

struct ReducerOptions {
  models::Index bucket_elements = 0;  // 0: as many as the ranks want (sharding.h)
  // Each rank gets the sums of its own chunks alone; of the others nothing is to be expected.
  bool is_sharded = false;
};

class GradientReducer {
 public:
  GradientReducer(collective::Collective& ring, std::span<float> gradients,
                  ReducerOptions options = {});
  virtual ~GradientReducer() = default;

  // A micro-batch of this rank is done, and not its last: `gradients` are what it has added.
  virtual void end_micro_batch() {}
  const std::vector<Bucket>& buckets() const { return buckets_; }
  // Gradients at and behind `first` are final on this rank.
  void ready(models::Index first);
  // Returns when all buckets, or chunks, are sums over all ranks. Then the next step may begin,
  // with gradients set to zero. Corrupt: a gradient of this rank cannot be summed.
  // Unavailable: a rank is gone, or sent no gradient; the gang has to be formed again.
  virtual Status finish();
  // The step of the last finish() is applied. Without it, it was given up.
  virtual void commit() {}
  // On all ranks, before a checkpoint: makes what each rank keeps from step to step, if anything,
  // their sum.
  virtual Status sum_residuals() { return {}; }

 protected:
  virtual collective::Ticket start(const Bucket& bucket, int index);
  // Its ticket is done.
  virtual Status arrived(const Bucket& /*bucket*/, int /*index*/) { return {}; }

  collective::Collective& ring_;
  std::span<float> gradients_;
  const bool is_sharded_;

 private:
  std::vector<Bucket> buckets_;
  std::vector<collective::Ticket> tickets_;  // of the first buckets
};

// Sums that do not depend on how the micro-batches are dealt, bit by bit: the gradients of each
// micro-batch are rounded to multiples of kFixedUnit and summed as 64-bit integers, in whatever
// order (determinism: exact; cf. Collange et al., "Numerical reproducibility for the parallel
// reduction on multi- and many-core architectures", 2015). Costs 8 bytes more a parameter, and
// twice the bytes on the wire. `micro_batches`: of a step, on all ranks.
std::unique_ptr<GradientReducer> make_exact_reducer(collective::Collective& ring,
                                                    std::span<float> gradients,
                                                    std::int64_t micro_batches,
                                                    ReducerOptions options = {});

// 3.6e-15. The gradient of a step is below 2^14, or it is not trained on.
inline constexpr double kFixedUnit = 1.0 / static_cast<double>(std::int64_t{1} << 48);

}  // namespace pawl::parallel
