#include "common/api/placement_status.h"

namespace pawl::api {

int workers_of(const PlacementStatus& placement) {
  int sum = 0;
  for (const PlacedNode& node : placement.nodes) sum += node.workers;
  return sum;
}

std::string node_of(const PlacementStatus& placement, std::int64_t attempt, int slot) {
  if (placement.attempt != attempt) return "";
  for (const PlacedNode& node : placement.nodes) {
    if (slot < node.workers) return node.name;
    slot -= node.workers;
  }
  return "";
}

}  // namespace pawl::api
