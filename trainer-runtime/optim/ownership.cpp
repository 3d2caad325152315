#include "trainer-runtime/optim/ownership.h"

#include <algorithm>

namespace pawl::optim {

using kernels::Index;

Ownership Ownership::of(std::vector<Owned> ranges) {
  Ownership owned;
  for (Owned& range : ranges) {
    range.at = owned.count_;
    owned.count_ += range.count();
    const bool is_touching = !owned.ranges_.empty() && owned.ranges_.back().last == range.first;
    if (is_touching) {
      owned.ranges_.back().last = range.last;
    } else {
      owned.ranges_.push_back(range);
    }
  }
  return owned;
}

std::vector<Owned> Ownership::within(Index first, Index last) const {
  std::vector<Owned> parts;
  auto range = std::ranges::partition_point(
      ranges_, [first](const Owned& one) { return one.last <= first; });
  for (; range != ranges_.end() && range->first < last; ++range) {
    const Index begin = std::max(first, range->first);
    parts.push_back({begin, std::min(last, range->last), range->at + begin - range->first});
  }
  return parts;
}

}  // namespace pawl::optim
