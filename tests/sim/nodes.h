// Nodes, kubelets, scheduler, node lifecycle and pod garbage collector of the simulated cluster.
// Kubelets run the workers' containers (worker.h), tell the API what became of them, and obey
// deletion with its grace. Leaves out: probes other than readiness, restarts of containers
// (workers have restartPolicy Never), resources other than a number of pods, and priorities.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "operator/core/plan.h"
#include "operator/placement/host.h"
#include "tests/sim/worker.h"

namespace pawl::sim {

// Whose pod this is, read from its name and environment (labels can be edited).
struct PodFacts {
  std::string job_uid;
  std::int64_t attempt = 0;
  int slot = 0, n = 0;
};
std::optional<PodFacts> facts_of(const nlohmann::json& pod);
std::string text_at_pointer(const nlohmann::json& object, const char* pointer);
inline constexpr const char* kTerminationMessage =
    "/status/containerStatuses/0/state/terminated/message";
bool is_terminal_pod(const nlohmann::json& pod);
// The weights of what the operator writes (common/api/pod_scheduling.h), summed; 0: it is not
// avoided.
int dislike(const nlohmann::json& pod, const std::string& node);

// What a pod's affinity says of a node that is spot, or is not: whether it may be there, and the
// weights of what it prefers (spot.cpp). Nodes carry Karpenter's label, and may have its taint.
bool may_run(const nlohmann::json& pod, bool is_spot);
std::string bound_for(const nlohmann::json& pod);  // the one node that it may run on; "": others
int liking(const nlohmann::json& pod, bool is_spot);
bool tolerates_spot(const nlohmann::json& pod);
inline constexpr const char* kLowOnMemory = "low on memory";  // a kubelet that evicts
inline constexpr const char* kSpotLabel = "karpenter.sh/capacity-type";
inline constexpr const char* kRackLabel = "sim.pawl.dev/rack";  // two nodes each

class Nodes final : public ApiObserver {
 public:
  Nodes(WorkerPlace place, int nodes);
  ~Nodes() override;
  void on_change(Actor, const local::Change& change) override;

  // Faults. Each picks at random, and tells the truth about it.
  void kill_one();
  void blip_one(milliseconds time);
  void drain_one();
  void evict_pod(const std::string& reason);  // of the DisruptionTarget condition
  // For a while, or until unstrand(): nobody reaches it, its containers run on, and nobody says
  // that it is gone, so that its pods terminate without an end. Another node takes its place.
  void strand_one(milliseconds time);
  void unstrand();
  // The cloud says that a machine goes after `notice`: in the node's object, to the launchers on
  // it, or both. One in four is not taken away after all.
  enum class Told { kNode, kLaunchers, kBoth };
  void announce_one(milliseconds notice, Told told);
  const core::NodeSignals& signals() const { return signals_; }
  std::map<std::string, placement::Host> hosts() const;  // as their objects tell
  bool is_announced(const std::string& node) const;      // or was a moment ago
  // Spot machines are taken back, several at once or one, with notice or without; others come.
  void reclaim_spot();
  // What runs on a machine fails, and what comes there is not let in, for a while or for good;
  // there is always another one that is well.
  void break_gpu(milliseconds time);
  void hold_start(milliseconds time);  // images cannot be pulled on a machine
  // Machines of a market (machines.cpp): they are bought, and go for good.
  void add_machine(const std::string& name, bool is_spot);
  void interrupt(const std::string& name, milliseconds notice);  // 0: without a word
  void give_back(const std::string& name);
  std::function<void(const std::string& node)> on_signal;  // another one, or none any more
  void press_pod();                                        // node pressure: the kubelet fails it
  void heal();                                             // all nodes are well from now on
  bool may_fail = false;

  // Pods whose containers run, and those whose node was lost while they did.
  bool runs(const std::string& pod_uid) const;
  const std::set<std::string>& abandoned() const { return abandoned_; }

 private:
  struct Container {
    std::unique_ptr<Worker> worker;  // null: it has ended
    std::string name;
    bool is_started = false, is_terminating = false, is_ready = false;
    std::optional<int> exit_code;
    std::string termination;
  };
  struct Node {
    std::string name;
    int number = 0;
    bool is_alive = true, is_cut = false, is_ready = true, is_cordoned = false;
    bool is_stranded = false;
    bool is_announced = false;
    bool is_bought = false, is_spot = false, is_gone = false;
    std::string notice;                           // what its launchers hear
    std::string gpu_fault;                        // "": its GPUs are well
    milliseconds starts_from{0};                  // its images can be pulled again
    milliseconds quiet_from{0};                   // when nobody acts on the announcement any more
    std::map<std::string, Container> containers;  // by pod UID
  };

  void schedule_soon(milliseconds delay);
  void schedule_pending();
  Node* place_for(const nlohmann::json& pod, const std::map<std::string, int>& load);
  Node* find_node(const std::string& name);
  void sync_later(Node& node, const std::string& pod_name);
  void sync(Node& node, const std::string& pod_name);
  void sync_all(Node& node);
  void admit(Node& node, const nlohmann::json& pod);
  void start(Node& node, const std::string& uid);
  void say_waiting(const std::string& name);
  void end_gracefully(Node& node, const nlohmann::json& pod, Container& container);
  void on_exit(Node& node, const std::string& uid, int code, const std::string& termination);
  void on_ready(Node& node, const std::string& uid, bool is_ready);
  void report(Node& node, const std::string& uid);
  void confirm_deletion(const nlohmann::json& pod);
  void disrupt(const nlohmann::json& pod, const std::string& reason);
  void lose(Node& node);
  void add_node(bool is_spot);
  bool has_whole_rack() const;
  void reconnect(Node& node);
  void taint(Node& node);
  void collect(Node& node);
  void announce(Node& node, milliseconds notice, Told told);
  void withdraw(Node& node);
  nlohmann::json random_pod();
  void check_gpu(const Node& node, const std::string& pod_uid);
  bool is_reachable(const Node& node) const { return node.is_alive && !node.is_cut; }

  WorkerPlace place_;
  std::vector<std::unique_ptr<Node>> nodes_;
  std::set<std::string> abandoned_;
  core::NodeSignals signals_;
  bool is_scheduling_ = false;
};

}  // namespace pawl::sim
