// spec.capacity and status.capacity of a TrainingJob: which of its workers may run on spot machines
// (cheap, and taken back at any time), and what spot was like; and the table by which nodes are
// known as spot. Used by the codec, by pod_scheduling.cpp and by operator/core. Values; any thread.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/api/meta.h"

namespace pawl::api {

enum class SpotUse { kNever, kAllow, kPrefer };

struct Capacity {
  SpotUse spot = SpotUse::kNever;
  int on_demand_min = 0;  // workers in the lowest slots that are never on spot
  bool operator==(const Capacity&) const = default;
};

struct CapacityStatus {
  bool is_spot_avoided = false;           // until then, by pods that are made
  std::optional<TimePoint> since, until;  // of the newest fall-back to on-demand machines
  int times = 0;                          // in a row
  std::optional<TimePoint> lost_since;    // when the first of these was taken
  std::vector<std::string> lost_pods;     // that may have been on spot, and were taken
  bool operator==(const CapacityStatus&) const = default;
};

// How the nodes of one cloud's spot pools are known: by a label, and mostly by a taint beside it.
struct SpotRow {
  std::string label, value;
  std::string taint;  // its key; "": none
  bool operator==(const SpotRow&) const = default;
};
using SpotTable = std::vector<SpotRow>;

}  // namespace pawl::api
