#include "trainer-runtime/parallel/gradient_reducer.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "trainer-runtime/device/arena.h"

namespace pawl::parallel {
namespace {

class ExactReducer final : public GradientReducer {
 public:
  ExactReducer(collective::Collective& ring, std::span<float> gradients, std::int64_t micro_batches,
               ReducerOptions options)
      : GradientReducer(ring, gradients, options),
        sums_(gradients.size()),
        limit_(static_cast<double>(std::numeric_limits<std::int64_t>::max()) / 2 /
               static_cast<double>(std::max<std::int64_t>(micro_batches, 1))) {}

  void end_micro_batch() override { take(0, static_cast<models::Index>(gradients_.size())); }

  Status finish() override {
    PAWL_TRY_VOID(GradientReducer::finish());
    for (std::size_t i = 0; i < gradients_.size(); ++i)
      gradients_[i] = static_cast<float>(static_cast<double>(sums_.span()[i]) * kFixedUnit);
    std::ranges::fill(sums_.span(), 0);
    const bool was_too_large = std::exchange(is_too_large_, false);
    if (was_too_large) return fail(Code::kCorrupt, "a gradient is too large, or not finite");
    return {};
  }

 private:
  collective::Ticket start(const Bucket& bucket, int index) override {
    take(bucket.first, bucket.last);
    const auto part = part_of(sums_.span(), bucket);
    return is_sharded_ ? ring_.start_reduce_scatter(part, index)
                       : ring_.start_all_reduce(part, index);
  }

  // Moves what one micro-batch has given to the sums.
  void take(models::Index begin, models::Index end) {
    for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i) {
      const double scaled = static_cast<double>(gradients_[i]) / kFixedUnit;
      if (std::abs(scaled) < limit_) {
        sums_.span()[i] += static_cast<std::int64_t>(scaled + (scaled < 0 ? -0.5 : 0.5));
      } else {
        is_too_large_ = true;
      }
      gradients_[i] = 0;
    }
  }

  device::Buffer<std::int64_t> sums_;
  const double limit_;  // so that no sum overflows
  bool is_too_large_ = false;
};

}  // namespace

GradientReducer::GradientReducer(collective::Collective& ring, std::span<float> gradients,
                                 ReducerOptions options)
    : ring_(ring),
      gradients_(gradients),
      is_sharded_(options.is_sharded),
      buckets_(buckets_of(static_cast<models::Index>(gradients.size()),
                          options.bucket_elements > 0 ? options.bucket_elements
                                                      : bucket_elements(ring.world_size()))) {
  tickets_.reserve(buckets_.size());
}

void GradientReducer::ready(models::Index first) {
  while (tickets_.size() < buckets_.size() && buckets_[tickets_.size()].first >= first)
    tickets_.push_back(start(buckets_[tickets_.size()], static_cast<int>(tickets_.size())));
}

collective::Ticket GradientReducer::start(const Bucket& bucket, int index) {
  const auto part = part_of(gradients_, bucket);
  return is_sharded_ ? ring_.start_reduce_scatter(part, index)
                     : ring_.start_all_reduce(part, index);
}

Status GradientReducer::finish() {
  ready(0);
  Status status;
  for (std::size_t i = 0; i < tickets_.size(); ++i) {
    // Also behind a bucket that is wrong: the ring writes to the others until they are done.
    if (const Status waited = ring_.wait(tickets_[i]); !waited) {
      if (status) status = waited;
      break;
    }
    if (status) status = arrived(buckets_[i], static_cast<int>(i));
  }
  tickets_.clear();
  return status;
}

std::unique_ptr<GradientReducer> make_exact_reducer(collective::Collective& ring,
                                                    std::span<float> gradients,
                                                    std::int64_t micro_batches,
                                                    ReducerOptions options) {
  return std::make_unique<ExactReducer>(ring, gradients, micro_batches, options);
}

}  // namespace pawl::parallel
