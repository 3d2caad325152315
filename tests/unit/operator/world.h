// A tiny world for tests of plan(): one job, its children, a kubelet that does what it is told, a
// clock that jumps. It applies actions as the API server would (resourceVersion and UID
// preconditions, graceful deletion) and passes every object through the codec, so that what does
// not survive JSON shows as a write that never ends. Leaves out: other jobs, garbage collection,
// admission, caches that lag.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "operator/core/plan.h"
#include "operator/core/pods.h"

namespace pawl::test {

class World {
 public:
  explicit World(int replicas = 2, api::RuntimeKind kind = api::RuntimeKind::kCustom);
  static World training(int replicas = 3);  // with the Native runtime, at step 10
  // Not begun yet, nor may it be smaller than `least`.
  static World elastic(int replicas, int least);

  api::TrainingJob job;
  std::optional<api::WorkerGroup> group;
  std::map<std::string, api::PodView> pods;
  std::set<std::string> children;              // kinds
  int least = 0;                               // pods that the disruption budget keeps
  std::optional<core::CreateChild> pod_group;  // as it was asked for last
  std::vector<std::string> dropped_groups;
  std::set<std::string> grouped;  // pods that belong to it
  std::set<std::string> pod_templates;
  std::map<std::string, api::NodeRequest> node_requests;
  std::vector<int> asked_for;                    // how many nodes, by request
  std::map<std::string, std::string> consuming;  // requests, by pod
  std::vector<std::string> events;               // "Reason", in the order of creation
  core::Policy policy;
  TimePoint now{std::chrono::seconds{1'800'000'000}};
  std::optional<core::Refusal> refusal;
  std::optional<TimePoint> status_written_at;
  std::optional<core::NodeSignals> signals = core::NodeSignals{};
  // Whoever decides on nodes; empty: the scheduler does. Asked once a plan.
  std::function<core::Seating(const core::Observed&)> seats;
  std::vector<int> rank_order;        // with these
  std::string leave_why;              // told with each plan, until the status says so
  std::vector<std::string> gives_up;  // pods; as well
  std::map<std::string, std::optional<std::chrono::seconds>> graces;  // of deleted pods
  bool is_job_gone = false;
  bool is_kubelet_on = true;

  // What happened.
  int status_writes = 0, group_writes = 0, pods_created = 0;
  std::vector<std::string> broken;  // what a correct operator never does

  void request_nodes(const core::CreateChild& request);  // as the API server would make it
  core::Observed observed() const;  // without seats; good until something changes
  core::Plan plan() const;
  // False: refused, as by a precondition that does not hold.
  bool apply(const core::Action& action);
  // Operator and kubelet until nothing moves, while `horizon` passes in jumps from wake-up to
  // wake-up.
  void settle(std::chrono::seconds horizon = std::chrono::seconds{0});
  // The operator dies after this many further actions, in the middle of a plan, once.
  std::optional<int> actions_until_crash;
  int actions_done = 0;

  // The environment. Slots are of the job's present attempt.
  api::PodView& pod(int slot);
  void run_all();
  void succeed(int slot);
  void succeed_all();
  void fail(int slot, int exit_code, const std::string& cause = "");
  void delete_pod(int slot);  // by a user: it starts to terminate
  void finish_terminating();  // the kubelet is done with them
  void report(std::int64_t step, std::optional<std::int64_t> checkpoint_step = std::nullopt);
  void remove_pod(int slot);  // by a user, and it is gone
  void lose_touch(int slot);  // so the gang reports
  // The gang goes on as its next generation, of those in group.spec.pods.
  void commit_next(std::int64_t start_step, int without_slot = -1);
  // Of those in group.spec.pods, the first leads; the generation is the caller's.
  void commit(int without_slot = -1);
  void set_spec(const std::function<void(api::TrainingJobSpec&)>& change);
  void set_suspended(bool is_suspended);

  std::string condition(const std::string& type) const;  // "True", "False" or ""
  std::string text() const;                              // status without times, for comparing ends
  int live_pods() const;                                 // not terminal

 private:
  void touch(api::ObjectMeta& meta) { meta.resource_version = std::to_string(++revision_); }
  void patch_status(const core::PatchStatus& patch);
  void check_pod_creation(const core::CreatePod& create);
  bool kubelet();
  api::PodView& named(const std::string& name) { return pods.at(name); }
  std::uint64_t revision_ = 100, uid_ = 0;
};

}  // namespace pawl::test
