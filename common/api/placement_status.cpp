#include "common/api/placement_status.h"

#include <algorithm>

namespace pawl::api {

int workers_of(const PlacementStatus& placement) {
  int sum = 0;
  for (const PlacedNode& node : placement.nodes) sum += node.workers;
  return sum;
}

std::string node_of(const PlacementStatus& placement, std::int64_t attempt, int slot, int n) {
  if (placement.attempt != attempt) return "";
  for (const PlacedPod& pod : placement.later) {
    if (pod.slot == slot && pod.n == n) return pod.node;
  }
  if (n > 0) return "";
  for (const PlacedNode& node : placement.nodes) {
    if (slot < node.workers) return node.name;
    slot -= node.workers;
  }
  return "";
}

void place_later(PlacementStatus& placement, const PlacedPod& pod) {
  const auto at = std::ranges::lower_bound(placement.later, pod.slot, {}, &PlacedPod::slot);
  if (at != placement.later.end() && at->slot == pod.slot) {
    *at = pod;
  } else {
    placement.later.insert(at, pod);
  }
}

}  // namespace pawl::api
