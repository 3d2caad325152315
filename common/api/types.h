// TrainingJob and WorkerGroup as values: what crds/ describes, decoded. The JSON codecs are in codec.h.
// Quantities in status that are not integers are strings, as in the API. Absent optionals mean "not set"; defaults
// are applied by decode_training_job, so that code below never sees an undefaulted job.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/base/clock.h"

namespace pawl::api {

struct OwnerReference {
  std::string api_version, kind, name, uid;
  bool is_controller = false;
  bool operator==(const OwnerReference&) const = default;
};

struct ObjectMeta {
  std::string name, ns, uid, resource_version;
  std::int64_t generation = 0;
  std::optional<TimePoint> creation_time, deletion_time;
  std::map<std::string, std::string> labels, annotations;
  std::vector<OwnerReference> owners;
  bool operator==(const ObjectMeta&) const = default;
};

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
  std::string uri;                    // file:///absolute/path
  std::optional<int> every_seconds;   // absent = auto (60 s in this version)
  int keep = 3;
  bool operator==(const CheckpointSpec&) const = default;
};

struct TrainingJobSpec {
  bool is_suspended = false;
  int replicas = 1;
  std::optional<int> processes_per_worker;  // absent = auto: GPUs of the worker container, else 1
  std::string template_json;                // PodTemplateSpec as compact JSON, "" if absent (Native only)
  int max_restarts = 6;                     // failurePolicy.maxRestarts; strategy is RecreateAll
  std::optional<CheckpointSpec> checkpoint;
  RuntimeKind runtime_kind = RuntimeKind::kCustom;
  std::string runtime_config_json;  // runtime.config as compact JSON, "" if absent
  std::optional<std::int64_t> ttl_seconds_after_finished;
  bool operator==(const TrainingJobSpec&) const = default;
};

struct Progress {
  std::int64_t step = 0, total_steps = 0;
  int percent = 0;
  std::optional<std::int64_t> eta_seconds;
  std::string loss, samples_per_second, tokens_per_second;  // decimal numbers, "" if unknown
  std::int64_t epoch = 0;
  std::optional<TimePoint> time;
  bool operator==(const Progress&) const = default;
};

struct CheckpointStatus {
  std::int64_t step = 0;
  std::string uri;  // of the checkpoint's directory
  std::optional<TimePoint> time;
  std::int64_t size_bytes = 0;
  std::string digest;      // "sha256:…" of the manifest
  std::int64_t count = 0;  // published by this job, ever
  bool operator==(const CheckpointStatus&) const = default;
};

struct Failure {
  int rank = -1;  // -1: not known
  std::string pod, node;
  std::string pod_uid;
  std::optional<int> exit_code, signal;
  std::string cause;  // Error, Signal, OOM, Evicted, NodeLost, Victim, Unknown
  std::string message;
  std::string log_tail;
  std::int64_t attempt = 0;
  std::optional<TimePoint> time;
  bool operator==(const Failure&) const = default;
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

// ---- WorkerGroup: the channel between operator and launchers (design: spec is the operator's, status the launchers').

struct EligiblePod {
  int slot = 0;
  std::string name, uid;  // uid is empty between the persisted intent and the creation
  int n = 0;              // incarnation of the slot
  int order = 0;          // who claims first; lowest stands first
  bool operator==(const EligiblePod&) const = default;
};

struct WorkerGroupSpec {
  std::int64_t attempt = 0;
  int min_members = 0, target_members = 0;
  std::vector<EligiblePod> pods;
  std::int64_t checkpoint_now = 0;  // a counter: each increase asks for one checkpoint, then the gang keeps running
  bool is_stopping = false;         // checkpoint, then leave with kExitDrained (suspend)
  int report_seconds = 10;
  bool operator==(const WorkerGroupSpec&) const = default;
};

struct MemberRef {
  std::string uid, start;  // start: random id of this launcher process; (uid, start) identifies it
  bool operator==(const MemberRef&) const = default;
};

struct Leader {
  MemberRef ref;
  std::string address;      // "10.0.0.1:41000", of the launcher's TLS listener
  std::string fingerprint;  // SHA-256 of its ephemeral certificate (DER), hex
  bool operator==(const Leader&) const = default;
};

struct Member {
  MemberRef ref;
  std::string address;
  int rank = 0;  // of the member in the gang (0 … members-1); process ranks follow from processesPerWorker
  bool operator==(const Member&) const = default;
};

struct LineageEntry {
  std::int64_t attempt = 0, generation = 0, start_step = 0;
  bool operator==(const LineageEntry&) const = default;
};

struct WorkerGroupStatus {
  std::int64_t attempt = 0, term = 0, generation = 0;
  std::optional<Leader> leader;
  std::vector<Member> members;
  std::int64_t start_step = 0;
  std::int64_t base_generation = 0;
  std::vector<MemberRef> base_members;
  std::vector<LineageEntry> lineage;  // oldest first, at most 32
  std::optional<Progress> progress;
  std::optional<CheckpointStatus> checkpoint;
  std::vector<Failure> failures;  // at most 16, newest last
  std::int64_t checkpoint_done = 0;  // the newest checkpointNow that is on storage
  bool is_finished = false;          // all ranks passed the closing barrier of the last step
  bool operator==(const WorkerGroupStatus&) const = default;
};

struct WorkerGroup {
  ObjectMeta meta;
  WorkerGroupSpec spec;
  WorkerGroupStatus status;
  bool operator==(const WorkerGroup&) const = default;
};

// ---- What the operator reads of a pod.

enum class PodPhase { kPending, kRunning, kSucceeded, kFailed, kUnknown };

struct PodView {
  ObjectMeta meta;
  PodPhase phase = PodPhase::kPending;
  std::string node, reason, message, ip;  // reason/message of status, e.g. Evicted
  bool is_ready = false;                  // the Ready condition
  bool has_disruption_target = false;     // condition DisruptionTarget=True
  std::string disruption_reason;          // of that condition, e.g. PreemptionByScheduler
  std::string worker_container;           // the container the launcher runs in
  std::optional<int> exit_code, signal;   // of that container, when terminated
  std::string terminated_reason;          // OOMKilled, Error, Completed
  std::string termination_message;        // what the launcher left (termination.h)
  std::string waiting_reason, waiting_message;  // ImagePullBackOff, CreateContainerConfigError, of any container
  std::string unschedulable_message;            // condition PodScheduled=False
  bool operator==(const PodView&) const = default;
};

}  // namespace pawl::api
