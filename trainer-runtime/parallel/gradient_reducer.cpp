#include "trainer-runtime/parallel/gradient_reducer.h"

#include <algorithm>

namespace pawl::parallel {

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
    const auto bucket = gradients_.subspan(static_cast<std::size_t>(begin),
                                           static_cast<std::size_t>(started_from_ - begin));
    tickets_.push_back(ring_.start_all_reduce(bucket, static_cast<int>(tickets_.size())));
    started_from_ = begin;
  }
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

}  // namespace pawl::parallel
