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
               models::Index bucket_elements)
      : GradientReducer(ring, gradients, bucket_elements),
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
  collective::Ticket start(models::Index begin, models::Index end, int bucket) override {
    take(begin, end);
    const auto count = static_cast<std::size_t>(end - begin);
    return ring_.start_all_reduce(sums_.span().subspan(static_cast<std::size_t>(begin), count),
                                  bucket);
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
                                 models::Index bucket_elements)
    : ring_(ring),
      gradients_(gradients),
      bucket_elements_(bucket_elements),
      started_from_(static_cast<models::Index>(gradients.size())) {
  tickets_.reserve(gradients.size() / static_cast<std::size_t>(bucket_elements) + 1);
}

void GradientReducer::ready(models::Index first) {
  while (started_from_ > first) {
    const models::Index begin = std::max<models::Index>(0, started_from_ - bucket_elements_);
    if (begin < first) return;  // a part of this bucket is still computed
    tickets_.push_back(start(begin, started_from_, static_cast<int>(tickets_.size())));
    started_from_ = begin;
  }
}

collective::Ticket GradientReducer::start(models::Index begin, models::Index end, int bucket) {
  const auto count = static_cast<std::size_t>(end - begin);
  return ring_.start_all_reduce(gradients_.subspan(static_cast<std::size_t>(begin), count), bucket);
}

Status GradientReducer::finish() {
  ready(0);
  Status status;
  for (const collective::Ticket ticket : tickets_) {
    status = ring_.wait(ticket);
    if (!status) break;
  }
  tickets_.clear();
  started_from_ = static_cast<models::Index>(gradients_.size());
  return status;
}

std::unique_ptr<GradientReducer> make_exact_reducer(collective::Collective& ring,
                                                    std::span<float> gradients,
                                                    std::int64_t micro_batches,
                                                    models::Index bucket_elements) {
  return std::make_unique<ExactReducer>(ring, gradients, micro_batches, bucket_elements);
}

}  // namespace pawl::parallel
