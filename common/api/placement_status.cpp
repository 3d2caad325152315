#include "common/api/placement_status.h"

#include <algorithm>

namespace pawl::api {

int workers_of(const PlacementStatus& placement) {
  int sum = 0;
  for (const PlacedNode& node : placement.nodes) sum += node.workers;
  return sum;
}

bool is_anywhere(const PlacementStatus& placement) {
  return std::ranges::find(placement.nodes, kAnyNode, &PlacedNode::name) != placement.nodes.end();
}

namespace {

const PlacedPod* find_later(const PlacementStatus& placement, int slot, int n) {
  const auto at = std::ranges::lower_bound(placement.later, slot, {}, &PlacedPod::slot);
  const bool is_there = at != placement.later.end() && at->slot == slot && at->n == n;
  return is_there ? &*at : nullptr;
}

}  // namespace

bool is_given_up(const PlacementStatus& placement, std::int64_t attempt, int slot, int n) {
  const PlacedPod* pod = find_later(placement, slot, n);
  return placement.attempt == attempt && pod != nullptr && pod->node == kGivenUp;
}

bool gave_room(const PlacementStatus& placement, std::int64_t attempt, int slot, int n) {
  return is_given_up(placement, attempt, slot, n) &&
         find_later(placement, slot, n)->cause == kCausePreempted;
}

std::string node_of(const PlacementStatus& placement, std::int64_t attempt, int slot, int n) {
  if (placement.attempt != attempt) return "";
  if (const PlacedPod* pod = find_later(placement, slot, n)) return pod->node;
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
