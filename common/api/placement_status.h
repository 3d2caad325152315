// status.placement of a TrainingJob: on which nodes the pods of an attempt are created. Written by
// the operator before any of them exists. Used by the codec, by pod_scheduling.cpp and by
// operator/core. Values; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace pawl::api {

struct PlacedNode {
  std::string name;
  int workers = 0;
  bool operator==(const PlacedNode&) const = default;
};

struct PlacementStatus {
  std::int64_t attempt = 0;  // 0: none was ever placed
  std::string domain;        // the smallest that holds them all, "block-a/rack-3"; "": the cluster
  std::vector<PlacedNode> nodes;  // slots in their order: the first node has the lowest ones
  bool operator==(const PlacementStatus&) const = default;
};

int workers_of(const PlacementStatus& placement);
// Of the first pod of this slot in this attempt; "": nobody has decided, the scheduler does.
std::string node_of(const PlacementStatus& placement, std::int64_t attempt, int slot);

}  // namespace pawl::api
