// TrainingJob as a value: what crds/trainingjobs.yaml describes, decoded. Absent optionals mean
// "not set"; defaults are applied by decode_training_job, so that code below never sees an
// undefaulted job. The JSON codec is in codec.h. Any thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/api/capacity.h"
#include "common/api/condition.h"
#include "common/api/meta.h"
#include "common/api/placement_status.h"
#include "common/api/report.h"
#include "common/api/scheduling.h"
#include "common/api/tally.h"

namespace pawl::api {

enum class RuntimeKind { kNative, kTorch, kTensorFlow, kJax, kMpi, kRay, kCustom };

struct CheckpointSpec {
  std::string uri;                   // file:///absolute/path
  std::optional<int> every_seconds;  // absent = auto (60 s in this version)
  int keep = 3;
  bool operator==(const CheckpointSpec&) const = default;
};

enum class RuleAction { kFail, kRestart, kRestartFree, kReplaceNode };

// One of failurePolicy.rules: what is empty matches anything; a rule has at least one of the two.
struct FailureRule {
  std::string name;
  RuleAction action = RuleAction::kRestart;
  std::vector<int> exit_codes;
  bool is_not_in = false;  // none of exit_codes
  std::vector<std::string> causes;
  bool operator==(const FailureRule&) const = default;
};

struct Deadlines {
  std::optional<std::int64_t> active_seconds, start_seconds, progress_seconds;
  bool operator==(const Deadlines&) const = default;
};

enum class OnShortage { kWait, kShrink, kFail };

struct Elastic {  // absent: minReplicas and maxReplicas are replicas
  int min_replicas = 1;
  std::optional<int> max_replicas;
  int stabilization_seconds = 10;
  OnShortage on_shortage = OnShortage::kShrink;
  int shortage_seconds = 60;
  bool operator==(const Elastic&) const = default;
};

enum class Strategy { kInPlace, kRecreateAll };
enum class SuccessPolicy { kAllRanks, kRank0 };
enum class CleanPodPolicy { kRunning, kAll, kNone };

struct TrainingJobSpec {
  std::string managed_by;  // "": Pawl
  bool is_suspended = false;
  int replicas = 1;
  std::optional<Elastic> elastic;
  std::optional<Capacity> capacity;
  std::optional<Scheduling> scheduling;
  std::optional<int> processes_per_worker;  // absent = auto, see processes_per_worker()
  std::string template_json;  // PodTemplateSpec as compact JSON, "" if absent (Native only)
  Strategy strategy = Strategy::kInPlace;           // failurePolicy.strategy
  int max_restarts = 6;                             // failurePolicy.maxRestarts
  std::optional<std::int64_t> reset_after_seconds;  // failurePolicy.resetAfterSeconds
  std::int64_t pod_termination_timeout_seconds = 300;
  std::vector<FailureRule> failure_rules;
  SuccessPolicy success_policy = SuccessPolicy::kAllRanks;
  bool has_hostnames = false;  // hostnames
  Deadlines deadlines;
  CleanPodPolicy clean_pod_policy = CleanPodPolicy::kRunning;
  std::optional<CheckpointSpec> checkpoint;
  RuntimeKind runtime_kind = RuntimeKind::kCustom;
  std::string runtime_config_json;  // runtime.config as compact JSON, "" if absent
  bool is_in_place = false;         // runtime.inPlace
  int parameter_servers = 0;        // runtime.parameterServers: workers, the last ones (TensorFlow)
  std::optional<std::int64_t> ttl_seconds_after_finished;
  bool operator==(const TrainingJobSpec&) const = default;
};

struct Restarts {
  int counted = 0, free = 0;
  int spent = 0;  // of the budget: counted since it was last reset
  std::map<std::string, int> by_cause;
  int without_progress = 0;        // attempts in a row that failed without new progress
  std::int64_t progress_step = 0;  // the newest step known when the last of them failed
  bool operator==(const Restarts&) const = default;
};

struct ExcludedNode {
  std::string name, cause;
  std::optional<TimePoint> time;
  std::optional<TimePoint> until = {};  // used again from then on
  std::string message = {};             // what was said of its end
  std::vector<std::string> pods = {};   // that were told to leave it
  bool operator==(const ExcludedNode&) const = default;
};

struct TrainingJobStatus {
  std::int64_t observed_generation = 0;
  std::string phase, reason, message;
  std::int64_t attempt = 0;  // 0: nothing was ever started
  std::optional<TimePoint> start_time, completion_time;
  std::optional<TimePoint> attempt_time;   // when the attempt began
  std::optional<TimePoint> progress_time;  // when progress.step was first seen
  std::vector<Condition> conditions;
  int replicas = 0, ready_replicas = 0;
  std::string ready;     // "2/4"
  std::string selector;  // label selector of the pods, for /scale
  std::optional<Progress> progress;
  std::optional<CheckpointStatus> checkpoint;
  Restarts restarts;
  Recoveries recoveries;  // without a restart
  Goodput goodput;
  std::optional<Failure> last_failure;
  std::vector<ExcludedNode> excluded_nodes;  // oldest first
  CapacityStatus capacity;
  PlacementStatus placement;
  // Who decides on the pods' nodes: "Pawl", or who else and why; "": it is not Pawl's in this
  // cluster.
  std::string placed_by = {};
  std::optional<std::int64_t> micro_batch;  // Native: in place of config.batch.micro
  bool operator==(const TrainingJobStatus&) const = default;
};

struct TrainingJob {
  ObjectMeta meta;
  TrainingJobSpec spec;
  TrainingJobStatus status;
  bool operator==(const TrainingJob&) const = default;
};

}  // namespace pawl::api
