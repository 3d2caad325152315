// The controller above the embedded API store, stepped by hand in virtual time: the same
// ControllerLoop that runs in production, no thread, no socket. Requests wait until step() answers
// them; faults are put in by a hook; each view can be made to lag. A small kubelet runs pods.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "cli/local/api_store.h"
#include "common/base/json.h"
#include "common/kube/requests.h"
#include "operator/controller/loop.h"

namespace pawl::test {

inline constexpr char kNamespace[] = "team";

// kHold: not answered, and kept in `held`, to arrive when its sender is no longer the leader.
enum class Fault { kNone, kLoseReply, kUnavailable, kForbidden, kThrottled, kHold };

class Cluster final : public kube::Transport {
 public:
  Cluster();

  // kube::Transport, as the controller sees it.
  kube::RequestHandle send(kube::HttpRequest request, Done done) override;
  kube::RequestHandle stream(kube::HttpRequest request, OnBytes on_bytes, Done done) override;
  void cancel(kube::RequestHandle handle) override;

  void start_operator();  // also: the old one dies, a new one lists everything
  bool step();            // one burst of answers, events and one turn; false when nothing moved
  // Until nothing moves; time passes up to `horizon`.
  void settle(std::chrono::seconds horizon = std::chrono::seconds{0});

  // A request that arrives now, whoever sent it.
  kube::HttpResponse deliver(const kube::HttpRequest& request) { return store_.handle(request); }

  // The user and the kubelet, past every fault.
  nlohmann::json call(const kube::HttpRequest& request);
  // Each worker asks for so many GPUs.
  void create_job(const std::string& name, int replicas = 2, const std::string& kind = "Custom",
                  int gpus = 0, const nlohmann::json& scheduling = {});
  void patch_job(const std::string& name, const nlohmann::json& patch);
  nlohmann::json get(const kube::Resource& resource, const std::string& name);
  std::vector<nlohmann::json> all(const kube::Resource& resource);
  void set_pod_status(const std::string& name, const nlohmann::json& status);
  // With options.placement: the machines, PriorityClasses, and queues with a quota of GPUs. Each
  // change is seen with the next step.
  void set_machine(const std::string& name, int gpus, const std::string& rack = "");
  void remove_machine(const std::string& name);
  void edit_machine(const std::string& name, const std::function<void(placement::Host&)>& edit);
  void set_class(const std::string& name, std::int64_t value, bool preempts = true);
  void set_queue(const std::string& name, int gpus, bool is_fifo = false);
  void edit_queue(const std::string& name, const std::function<void(api::TrainingQueue&)>& edit);
  void set_queue_status(const std::string& name, const api::TrainingQueueStatus& status);
  void drop_queue(const std::string& name);
  // By a pod of somebody else's; a lasting one ends only when somebody ends it.
  void take(const std::string& machine, int gpus, bool is_lasting = false);
  void run_pods();  // eligible pods become ready, terminating ones go; placed ones are bound
  std::vector<std::string>
      added;              // machines for pods without a node (policy.asks_by_pods), one each
  std::string stuck;      // pods whose names begin so are bound, and do not start
  std::string lingering;  // of those whose names begin so, terminating ones stay
  void finish_pods();     // ready ones succeed
  void fail_pod(const std::string& name);    // by a fault of its own: exit code 3
  void delete_pod(const std::string& name);  // as whoever drains its node does
  // Its launchers' first generation, or a later one: all pods on record that are not to leave.
  void commit_generation(const std::string& job, std::int64_t generation = 1);

  std::function<Fault(const kube::HttpRequest&)> fault;
  // Answers what the store does not serve; nothing: the store answers.
  std::function<std::optional<kube::HttpResponse>(const kube::HttpRequest&)> other_server;
  const std::shared_ptr<controller::Inbox>& inbox() const { return inbox_; }  // of this operator
  std::vector<kube::HttpRequest> held;
  std::function<void(nlohmann::json& status)> kept;  // what is stored of a job's status
  std::function<void()> on_log;                      // after each line of the operator's log
  std::set<controller::Kind> lagging;                // views that show nothing new
  bool is_kubelet_on = true;
  std::map<std::string, int> requests;  // "POST pods", by the operator
  int writes = 0;
  std::size_t in_flight_max = 0;
  FakeClock clock;
  std::vector<std::string> log_lines;
  controller::LoopOptions options;
  std::unique_ptr<controller::ControllerLoop> loop;

 private:
  struct Waiting {
    kube::RequestHandle handle = 0;
    kube::HttpRequest request;
    Done done;
  };
  Result<kube::HttpResponse> answer(const kube::HttpRequest& request, Fault what);
  kube::HttpRequest stored_part(const kube::HttpRequest& request) const;
  bool pump_views();
  void post_events(controller::Kind kind, const std::string& lines);
  bool bind(const nlohmann::json& pod);  // false: there is no node for it

  Log log_;
  local::ApiStore store_;
  std::shared_ptr<controller::Inbox> inbox_;
  std::map<controller::Kind, local::Watch> watches_;
  std::map<std::string, placement::Host> machines_;
  std::map<std::string, controller::PriorityClass> classes_;
  std::map<std::string, api::TrainingQueue> queues_;
  std::vector<Waiting> waiting_;
  kube::RequestHandle next_handle_ = 1;
  std::optional<SteadyPoint> due_;
};

// Jobs "old" and "new" want what one of them can have, and the operator dies between: one of them
// runs, that one whose nodes were written, and the other one waits, for `reason`, without a pod.
// After a number of steps that `round` (0 to kDeaths) stands for.
inline constexpr int kDeaths = 60;
// So many steps; false: before that all has come to rest, until time passes.
inline bool step_often(Cluster& cluster, int steps) {
  bool moves = true;
  for (int i = 0; i < steps && moves; ++i) moves = cluster.step();
  return moves;
}
void check_given_once(Cluster& cluster, int round, const std::string& reason,
                      const std::function<void(const char* job)>& create);

// Of a TrainingJob.
inline nlohmann::json status_of(Cluster& cluster, const std::string& name) {
  return cluster.get(kube::resources::kTrainingJobs, name)["status"];
}

}  // namespace pawl::test
