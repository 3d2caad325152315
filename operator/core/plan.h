// The operator's decision: from what is seen to what is to be done. Pure: no clock, no I/O, no
// unordered iteration, integers only. The controller calls plan() on its own thread for one job at
// a time; the simulator calls the same function in virtual time. The rules are numbered in SPEC.md;
// plan.cpp holds the protocol.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/api/children.h"
#include "common/api/provisioning.h"
#include "common/api/types.h"
#include "operator/core/actions.h"

namespace pawl::core {

// What not every cluster serves: not asked for, asked for of a cluster that does not serve it, or
// of one that does.
enum class OptionalApi { kOff, kMissing, kServed };

struct Policy {
  api::ChildOptions children;
  OptionalApi pod_groups = OptionalApi::kOff;    // for what the scheduler places
  OptionalApi provisioning = OptionalApi::kOff;  // an autoscaler is asked for nodes for who waits
  bool asks_by_pods = false;  // … by its pods, which are made without nodes (with `levels`)
  std::chrono::seconds provisioning_after{10};  // of waiting
  std::chrono::seconds anywhere_max{900};       // for all nodes of such a gang to come
  std::chrono::seconds provisioning_first{60}, provisioning_max{1800};  // until it is asked again
  int report_seconds = 10;                 // WorkerGroup.spec.reportSeconds
  std::chrono::seconds suspend_grace{30};  // for saving, before pods are deleted
  std::chrono::seconds culprit_wait{5};    // victims wait for the report that names the culprit
  std::chrono::seconds broken_wait{2};     // for others with broken GPUs, before an attempt ends
  std::chrono::seconds backoff_first{1};   // before a counted restart; doubles
  std::chrono::seconds backoff_max{60};
  std::chrono::seconds refused_backoff{5};  // after a node refused or evicted a pod
  std::chrono::seconds spot_window{600};    // losses of spot machines in it are counted together
  std::chrono::seconds spot_avoided_first{300}, spot_avoided_max{3600};  // after many; doubles
  std::chrono::seconds unscheduled_max{10};  // of a pod on the node that was decided on for it
  std::chrono::seconds reunited_after{30};   // a gang that lacks members near the others
  int moves_max = 3;      // of gangs whose pods the scheduler refuses; then it decides by itself
  int fruitless_max = 3;  // failed attempts in a row without new progress
  std::chrono::milliseconds numbers_every{2'000};  // ready counts and progress
  std::chrono::seconds message_every{30};          // numbers inside sentences
};

// What the API server last refused for this job, so that status can say it. Kept by the controller
// in memory.
struct Refusal {
  std::string action;   // "create Pod a-1-0-0"
  std::string message;  // the server's sentence
  bool is_leftover =
      false;  // the obstacle belongs to a deleted job of the same name and will be collected
  std::string reason;           // Rejected, Forbidden, NameConflict
  TimePoint retry_at;           // creations wait until then
  std::int64_t generation = 0;  // of the job it was refused for: a changed spec is tried at once
  bool operator==(const Refusal&) const = default;
};

bool is_of_node_request(const Refusal& refusal);  // provision.cpp; that stops nobody

// What a node's object says of its near end (controller/signal_table.h).
struct NodeSignal {
  std::string what;                   // "taint karpenter.sh/disrupted"
  std::optional<TimePoint> deadline;  // when the machine goes
  bool is_exact = false;              // the node says so; else it is counted from when it was seen
  TimePoint seen_at;                  // by this process
};
using NodeSignals = std::map<std::string, NodeSignal>;  // by node; the others say nothing

// Where the pods of a new attempt may go, decided for all jobs in one place (controller/placer.h).
// With none of these a plan says whether it asks for it.
struct Seating {
  std::optional<api::PlacementStatus> offer;  // booked for this plan
  std::string obstacle;                       // why there is none: a sentence
  bool lacks_quota = false;                   // is that why
  // Since when more nodes would help: it has quota, and nobody leaves for it.
  std::optional<TimePoint> lacks_nodes_since = std::nullopt;
  bool keeps_quota = false;  // with that: of the attempt before
  std::string defect;        // why there never is one, as the job and the cluster stand: a sentence
  bool never_fits = false;   // is that why: whatever ends, the nodes are too few, or too small
  // As an offer, where a gang has begun, of pods that come in later.
  std::vector<api::PlacedPod> later;
  bool is_room_elsewhere = false;  // with an obstacle to those: not near the others, for all
  bool is_void = false;   // of the nodes that are written one cannot take its workers any more
  std::string leave_why;  // for whom it has to leave the nodes that it has: a sentence
  // Pods that it has to do without, and for whom: a sentence.
  std::vector<std::string> gives_up = {};
  std::string give_up_why = {};
  // Where a pod has come in: the slots of all that have nodes, in the order of ranks that suits
  // these. Empty: it is not known.
  std::vector<int> rank_order = {};
};

// One view of one job. The pointers are borrowed for the call; pods come in any order.
struct Observed {
  const api::TrainingJob* job = nullptr;    // never null for plan()
  const api::WorkerGroup* group = nullptr;  // the WorkerGroup of the job's name, whoever owns it
  std::vector<const api::PodView*> pods;    // every pod with a name of the job's, whoever owns it
  std::optional<Refusal> refusal;
  std::optional<TimePoint> status_written_at;  // by this process; unknown after a restart
  const NodeSignals* signals = nullptr;        // null: nodes are not watched, or not listed yet
  const Seating* seating = nullptr;            // null: the cluster's scheduler decides
  std::string placed_by = {};                  // for status.placedBy
  std::vector<const api::NodeRequest*> node_requests = {};  // of the job's name, in any order
};

Plan plan(const Observed& seen, const Policy& policy, TimePoint now);

// What status.placement keeps for pods that are not bound yet, as far as this view goes.
struct HeldSeat {
  std::string pod, node;
  bool operator==(const HeldSeat&) const = default;
};
std::vector<HeldSeat> held_seats(const Observed& seen);
// Pods that an elastic gang can do without: those in its last slots, but for its leader; or, where
// others need their room, that it does without from now on. By slot.
struct SpareSeats {
  std::vector<HeldSeat> pods;
  bool are_given_up = false;
};
SpareSeats spare_seats(const Observed& seen, const Policy& policy, TimePoint now);
// Which workers need quota of the job's queue, as far as this view goes.
struct Staff {
  int size = 0;                    // of the gang; 0: it has no nodes
  std::set<int> slots;             // of workers that are there, or on their way to their nodes
  std::set<int> awaited;           // that have lost a worker, and are to have another one
  std::set<int> given_up;          // that are to have one when nobody else waits
  int pods = 0;                    // between attempts, and afterwards: those that have not ended
  bool is_between = false;         // two attempts: `slots` are all
  int kept = 0;                    // between attempts: workers that the one before had nodes for
  std::optional<TimePoint> until;  // when one of these is given up, if it does not end before
};
Staff staff_of(const Observed& seen, TimePoint now);

// What a TrainingJob that no longer exists left behind without an owner (--cascade=orphan).
struct Orphans {
  std::string job_name, job_uid;
  const api::WorkerGroup* group = nullptr;
  std::vector<const api::PodView*> pods;
};
Plan plan_orphans(const Orphans& orphans);
// Is this object (its metadata) left by a job other than the one with UID `job_uid` ("" = there is
// none), with no owner that the garbage collector would follow?
bool is_orphan(const api::ObjectMeta& meta, const std::string& job_uid);

}  // namespace pawl::core
