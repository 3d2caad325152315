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

// The node of a pod without which the gang goes on, and waits for none after it.
inline constexpr char kGivenUp[] = "";

// The node of pods that are made without one, so that an autoscaler adds some: the scheduler
// decides when there are any.
inline constexpr char kAnyNode[] = "*";

// Of a pod that comes into a gang that has begun: in place of another one, or as it grows.
struct PlacedPod {
  int slot = 0, n = 0;
  std::string node;
  std::string cause = {};  // why it was given up: Preempted; "": it could not be had
  bool operator==(const PlacedPod&) const = default;
};

struct PlacementStatus {
  std::int64_t attempt = 0;  // 0: none was ever placed
  std::string domain;        // the smallest that holds them all, "block-a/rack-3"; "": the cluster
  std::vector<PlacedNode> nodes;      // slots in their order: the first node has the lowest ones
  std::string level = {};             // of the domain: "host", or the level's name; "": the cluster
  std::vector<PlacedPod> later = {};  // by slot; of each the newest pod
  bool operator==(const PlacementStatus&) const = default;
};

int workers_of(const PlacementStatus& placement);  // that the attempt begins with
// The attempt begins on nodes that nobody has decided on.
bool is_anywhere(const PlacementStatus& placement);
// Of this pod; "": nobody has decided, the scheduler does; kAnyNode: it was decided that it does.
std::string node_of(const PlacementStatus& placement, std::int64_t attempt, int slot, int n);
bool is_given_up(const PlacementStatus& placement, std::int64_t attempt, int slot, int n);
// … so that another job gets its room.
bool gave_room(const PlacementStatus& placement, std::int64_t attempt, int slot, int n);
inline constexpr char kCausePreempted[] = "Preempted";
// Notes it in `later`, in place of a pod before it in its slot.
void place_later(PlacementStatus& placement, const PlacedPod& pod);

}  // namespace pawl::api
