// What a pod that is bound takes of its machine, and for how long. Pure; values.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "common/base/clock.h"
#include "operator/placement/resources.h"

namespace pawl::placement {

struct Booking {
  std::string host;
  Resources requests;
  bool is_fixture = false;  // of a DaemonSet, or a mirror pod: a machine that has no other is empty
  bool is_lasting = false;  // ends only when somebody ends it: of a Deployment, for example
  std::string owner = "";   // "namespace/name" of its job, of a worker
  std::optional<TimePoint> end = std::nullopt;  // by its own deadline, if it has one
  bool operator==(const Booking&) const = default;
};

// Of a pod that is bound and has not ended; else nothing.
std::optional<Booking> booking_of(const nlohmann::json& pod);

}  // namespace pawl::placement
