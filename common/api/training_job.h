// TrainingJob as a value: what crds/trainingjobs.yaml describes, decoded. Absent optionals mean
// "not set"; defaults are applied by decode_training_job, so that code below never sees an
// undefaulted job. The JSON codec is in codec.h. Any thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/api/meta.h"
#include "common/api/report.h"

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
inline constexpr char kCheckpointHealthy[] = "CheckpointHealthy";
inline constexpr char kStalled[] = "Stalled";
inline constexpr char kSuccessCriteriaMet[] = "SuccessCriteriaMet";
inline constexpr char kFailureTarget[] = "FailureTarget";
inline constexpr char kComplete[] = "Complete";
inline constexpr char kFailed[] = "Failed";
}  // namespace condition

// Phases, derived from the conditions for columns.
namespace phase {
inline constexpr char kQueued[] = "Queued";
inline constexpr char kStarting[] = "Starting";
inline constexpr char kRunning[] = "Running";
inline constexpr char kRestarting[] = "Restarting";
inline constexpr char kSuspended[] = "Suspended";
inline constexpr char kComplete[] = "Complete";
inline constexpr char kFailed[] = "Failed";
inline constexpr char kStalled[] = "Stalled";
}  // namespace phase

enum class RuntimeKind { kNative, kTorch, kCustom };

struct CheckpointSpec {
  std::string uri;                   // file:///absolute/path
  std::optional<int> every_seconds;  // absent = auto (60 s in this version)
  int keep = 3;
  bool operator==(const CheckpointSpec&) const = default;
};

struct TrainingJobSpec {
  bool is_suspended = false;
  int replicas = 1;
  std::optional<int> processes_per_worker;  // absent = auto: GPUs of the worker container, else 1
  std::string template_json;  // PodTemplateSpec as compact JSON, "" if absent (Native only)
  int max_restarts = 6;       // failurePolicy.maxRestarts; strategy is RecreateAll
  std::optional<CheckpointSpec> checkpoint;
  RuntimeKind runtime_kind = RuntimeKind::kCustom;
  std::string runtime_config_json;  // runtime.config as compact JSON, "" if absent
  std::optional<std::int64_t> ttl_seconds_after_finished;
  bool operator==(const TrainingJobSpec&) const = default;
};

struct Restarts {
  int counted = 0, free = 0;
  std::map<std::string, int> by_cause;
  int without_progress = 0;        // attempts in a row that failed without new progress
  std::int64_t progress_step = 0;  // the newest step known when the last of them failed
  bool operator==(const Restarts&) const = default;
};

struct TrainingJobStatus {
  std::int64_t observed_generation = 0;
  std::string phase, reason, message;
  std::int64_t attempt = 0;  // 0: nothing was ever started
  std::optional<TimePoint> start_time, completion_time;
  std::vector<Condition> conditions;
  int replicas = 0, ready_replicas = 0;
  std::string ready;     // "2/4"
  std::string selector;  // label selector of the pods, for /scale
  std::optional<Progress> progress;
  std::optional<CheckpointStatus> checkpoint;
  Restarts restarts;
  std::optional<Failure> last_failure;
  bool operator==(const TrainingJobStatus&) const = default;
};

struct TrainingJob {
  ObjectMeta meta;
  TrainingJobSpec spec;
  TrainingJobStatus status;
  bool operator==(const TrainingJob&) const = default;
};

}  // namespace pawl::api
