// Conditions and phases of a TrainingJob: their values, and every type that there is. Values; any
// thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "common/base/clock.h"

namespace pawl::api {

struct Condition {
  std::string type;
  std::string status;  // True, False, Unknown
  std::string reason;  // CamelCase
  std::string message;
  std::int64_t observed_generation = 0;
  std::optional<TimePoint> last_transition_time;
  bool operator==(const Condition&) const = default;
};

// Condition types. There is none named Ready on purpose (Helm's --wait would block on it).
namespace condition {
inline constexpr char kRunning[] = "Running";
inline constexpr char kSuspended[] = "Suspended";
inline constexpr char kRestarting[] = "Restarting";
inline constexpr char kPreempted[] = "Preempted";  // it gives its room to another job
inline constexpr char kCheckpointHealthy[] = "CheckpointHealthy";
inline constexpr char kStalled[] = "Stalled";
inline constexpr char kSuccessCriteriaMet[] = "SuccessCriteriaMet";
inline constexpr char kFailureTarget[] = "FailureTarget";
inline constexpr char kComplete[] = "Complete";
inline constexpr char kFailed[] = "Failed";
}  // namespace condition

// Phases, derived from the conditions for columns.
namespace phase {
inline constexpr char kStarting[] = "Starting";
inline constexpr char kRunning[] = "Running";
inline constexpr char kRestarting[] = "Restarting";
inline constexpr char kSuspended[] = "Suspended";
inline constexpr char kComplete[] = "Complete";
inline constexpr char kFailed[] = "Failed";
inline constexpr char kStalled[] = "Stalled";
}  // namespace phase

}  // namespace pawl::api
