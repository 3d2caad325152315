// What a plan may ask for: one struct an action, small and comparable. The executor
// (operator/controller) turns each into requests and decides nothing. Bodies of pods and children
// are built when they are sent, from the job and the numbers here, because api/children.h is
// deterministic. Pure values; any thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "common/api/types.h"

namespace pawl::core {

enum class ObjectKind {
  kTrainingJob,
  kWorkerGroup,
  kPod,
  kServiceAccount,
  kRole,
  kRoleBinding,
  kDisruptionBudget,
  kPodGroup,
  kPodTemplate,
  kProvisioningRequest,
  kService
};
const char* kind_name(ObjectKind kind);

// Any of the job's but its WorkerGroup and its pods. AlreadyExists with our owner UID is success; a
// budget or group with another number of pods gets this one.
struct CreateChild {
  ObjectKind kind = ObjectKind::kServiceAccount;
  // Of a disruption budget, as api::disruption_budget_of() takes it; of a pod group how many pods
  // are scheduled together, of a request for how many there are to be nodes.
  int least = 0;
  bool is_indivisible = false;  // a pod group: whoever preempts one of its pods preempts all
  std::int64_t attempt = 0;     // of a pod group, or a pod template
  std::string name = {};        // of a pod template, or a provisioning request
  bool operator==(const CreateChild&) const = default;
};

struct CreateGroup {
  api::WorkerGroupSpec spec;
  bool operator==(const CreateGroup&) const = default;
};

struct PatchGroup {
  std::string uid, resource_version;
  api::WorkerGroupSpec before, after;
  bool operator==(const PatchGroup&) const = default;
};

// AlreadyExists with our owner UID, not terminating, is success: the name carries attempt, slot and
// n.
struct CreatePod {
  std::int64_t attempt = 0;
  int slot = 0, n = 0;
  std::string name;
  std::string pod_group = {};     // that it belongs to; empty: none
  std::string node_request = {};  // whose nodes it is to be on; empty: of none
  bool operator==(const CreatePod&) const = default;
};

// A pod group of an attempt before, or a request for nodes that is over and its template. It is
// read first, and left alone where it is not ours; that it is gone already, or that we may not look
// for it any more, is success.
struct DeleteChild {
  ObjectKind kind = ObjectKind::kPodGroup;
  std::string name;
  bool operator==(const DeleteChild&) const = default;
};

struct DeletePod {
  std::string name, uid;
  std::optional<std::chrono::seconds> grace = {};  // the pod's own
  bool operator==(const DeletePod&) const = default;
};

// The only write to the TrainingJob besides its deletion.
struct PatchStatus {
  std::string resource_version;
  api::TrainingJobStatus before, after;
  bool operator==(const PatchStatus&) const = default;
};

struct DeleteJob {
  std::string uid, resource_version;
  bool operator==(const DeleteJob&) const = default;
};

// Best effort: an event that cannot be written never stops a plan.
struct EmitEvent {
  bool is_warning = false;
  std::string reason, message;
  std::int64_t attempt = 0;
  std::string regarding_uid;  // the job's, also when the job is gone
  std::string which = {};     // where one attempt may see the same again
  bool operator==(const EmitEvent&) const = default;
};

// A quorum read before something is believed lost: found with this uid → the plan stops, the cache
// was behind.
struct ConfirmGone {
  ObjectKind kind = ObjectKind::kPod;
  std::string name, uid;  // uid empty: no object of that name at all
  bool operator==(const ConfirmGone&) const = default;
};

// A quorum read of the WorkerGroup before a loss is judged: with another resourceVersion the plan
// stops, the cache was behind.
struct ConfirmRecord {
  std::string resource_version;
  bool operator==(const ConfirmRecord&) const = default;
};

// A child left by --cascade=orphan. Read first: deleted (with the UID that was read) only if its
// job-uid label is `job_uid` and no owner reference is left.
struct DeleteOrphan {
  ObjectKind kind = ObjectKind::kServiceAccount;
  std::string name, job_uid;
  std::string uid = {};  // of the WorkerGroup that is seen
  bool operator==(const DeleteOrphan&) const = default;
};

using Action =
    std::variant<ConfirmGone, ConfirmRecord, PatchStatus, CreateChild, CreateGroup, PatchGroup,
                 CreatePod, DeletePod, DeleteChild, DeleteOrphan, DeleteJob, EmitEvent>;

bool is_creation(const Action& action);  // of an object

// "patch TrainingJob status", "create Pod a-1-0-0", for logs and messages.
std::string describe(const Action& action);

struct Plan {
  std::vector<Action> actions;       // run in order, stopped by the first error
  std::optional<TimePoint> wake_up;  // plan again then, if nothing else happens
  std::string why;                   // one sentence, for the log
  bool asks_for_seats = false;       // planned again with an answer, it goes on
  // For which pods, where the gang has begun; of one that has not all of it.
  std::vector<api::PlacedPod> seats_wanted = {};
  // With how many workers it does, where no more can be had now, and ever.
  int seats_least = 0, members_least = 0;
  int pods_wanted = 0;  // with its spares
};

}  // namespace pawl::core
