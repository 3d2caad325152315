// What happens to nodes and pods: each fault tells the truth about itself, so that oracles can
// compare what the operator makes of it.
#include <algorithm>
#include <map>

#include "tests/sim/nodes.h"

namespace pawl::sim {

using kube::resources::kPods;
using nlohmann::json;

namespace {

// As in a cluster whose tolerations are short: NotReady, evicted, and at last the machine is gone.
constexpr seconds kNotReadyAfter{40}, kTaintAfter{30}, kRemovedAfter{60};

}  // namespace

json Nodes::random_pod() {
  std::vector<local::Object> pods;
  for (const local::Object& pod : place_.api.all(kPods)) {
    const bool is_live = !is_terminal_pod(*pod) && facts_of(*pod) &&
                         !pod->at("metadata").contains("deletionTimestamp");
    if (is_live) pods.push_back(pod);
  }
  if (pods.empty()) return nullptr;
  return *pods[place_.engine.random().below(pods.size())];
}

// What an eviction does: says why, then deletes.
void Nodes::disrupt(const json& pod, const std::string& reason) {
  const auto facts = facts_of(pod);
  if (facts) ++place_.truth.of(facts->job_uid, facts->attempt).disruptions;
  const std::string name = pod["metadata"]["name"];
  place_.engine.trace("pod " + name + " is disrupted: " + reason);
  if (reason != "Deleted") {
    json conditions = json::array();
    if (pod.contains("status")) conditions = pod["status"].value("conditions", json::array());
    conditions.push_back({{"type", "DisruptionTarget"}, {"status", "True"}, {"reason", reason}});
    place_.api.set_status(Actor::kCluster, kPods, name, {{"conditions", conditions}});
  }
  place_.api.handle(reason == "Deleted" ? Actor::kMonkey : Actor::kCluster,
                    kube::delete_request(kPods, kNamespace, name, {.uid = pod["metadata"]["uid"]}));
}

void Nodes::evict_pod(const std::string& reason) {
  const json pod = random_pod();
  if (pod.is_null()) return;
  place_.api.count_fault(reason);
  disrupt(pod, reason);
}

void Nodes::press_pod() {
  const json pod = random_pod();
  if (pod.is_null()) return;
  Node* node = find_node(text_at_pointer(pod, "/spec/nodeName"));
  if (node == nullptr || !is_reachable(*node)) return;
  place_.api.count_fault("node pressure");
  const auto facts = facts_of(pod);
  ++place_.truth.of(facts->job_uid, facts->attempt).disruptions;
  const std::string name = pod["metadata"]["name"];
  place_.engine.trace("node pressure evicts " + name);
  node->containers.erase(pod["metadata"]["uid"].get<std::string>());
  place_.api.set_status(Actor::kCluster, kPods, name,
                        {{"phase", "Failed"}, {"reason", "Evicted"}, {"message", kLowOnMemory}});
}

void Nodes::drain_one() {
  Node& node = *nodes_[place_.engine.random().below(nodes_.size())];
  place_.api.count_fault("node drain");
  place_.engine.trace(node.name + " is drained");
  node.is_cordoned = true;
  for (const local::Object& pod : place_.api.all(kPods)) {
    if (text_at_pointer(*pod, "/spec/nodeName") == node.name && !is_terminal_pod(*pod)) {
      disrupt(*pod, "EvictionByEvictionAPI");
    }
  }
  place_.engine.after(seconds{20}, [&node] { node.is_cordoned = false; });
}

void Nodes::announce_one(milliseconds notice, Told told) {
  Node& node = *nodes_[place_.engine.random().below(nodes_.size())];
  if (!is_reachable(node) || node.is_announced) return;
  announce(node, notice, told);
}

void Nodes::announce(Node& node, milliseconds notice, Told told) {
  node.is_announced = true;
  const bool is_told_inside = told != Told::kNode;
  place_.api.count_fault(is_told_inside ? "metadata notice" : "node signal");
  place_.engine.trace(node.name + " is to go in " + std::to_string(notice.count()) + " ms" +
                      (is_told_inside ? ", which its launchers hear" : ""));
  for (const local::Object& pod : place_.api.all(kPods)) {
    const auto facts = facts_of(*pod);
    if (facts && text_at_pointer(*pod, "/spec/nodeName") == node.name)
      ++place_.truth.of(facts->job_uid, facts->attempt).disruptions;
  }
  if (is_told_inside) {
    node.notice = "the cloud takes " + node.name + " back";
    for (const auto& [uid, container] : node.containers) {
      if (!container.worker || !container.is_started) continue;
      container.worker->hear(membership::TerminationAsked{node.notice},
                             place_.engine.between(milliseconds{1}, milliseconds{2'000}));
    }
  }
  if (told != Told::kLaunchers) {
    // By a taint; conditions do not.
    node.is_cordoned = node.is_bought || place_.engine.random().one_in(2);
    signals_[node.name] = {.what = "condition Going",
                           .deadline = place_.engine.clock().now() + notice};
    if (on_signal) on_signal(node.name);
  }
  const bool is_false_alarm = !node.is_bought && place_.engine.random().one_in(4);
  place_.engine.after(notice, [this, &node, is_false_alarm] {
    if (!node.is_announced) return;
    if (is_false_alarm || !may_fail || !is_reachable(node)) return withdraw(node);
    lose(node);
  });
}

void Nodes::break_gpu(milliseconds time) {
  Node& node = *nodes_[place_.engine.random().below(nodes_.size())];
  const bool is_for_good = place_.engine.random().one_in(2);
  const bool has_other = std::ranges::any_of(nodes_, [&](const auto& other) {
    return other.get() != &node && other->gpu_fault.empty() && !other->is_stranded &&
           !other->is_spot;
  });
  if (!is_reachable(node) || !node.gpu_fault.empty() || !has_other) return;
  node.gpu_fault = "GPU " + std::to_string(node.number) + " fell off the bus (XID 79)";
  place_.api.count_fault("GPU fault");
  place_.engine.trace(node.name + ": " + node.gpu_fault);
  for (const auto& [uid, container] : node.containers) {
    if (!container.worker || !container.is_started) continue;
    ++place_.truth.of(container.worker->job_uid(), container.worker->attempt()).disruptions;
    container.worker->hear(membership::NodeFault{node.gpu_fault},
                           place_.engine.between(milliseconds{1}, milliseconds{300}));
  }
  if (is_for_good) return;
  place_.engine.after(time, [this, &node] {
    if (!node.gpu_fault.empty()) place_.engine.trace(node.name + " is mended");
    node.gpu_fault.clear();
  });
}

void Nodes::hold_start(milliseconds time) {
  Node& node = *nodes_[place_.engine.random().below(nodes_.size())];
  place_.api.count_fault("late start");
  place_.engine.trace(node.name + " starts nothing for " + std::to_string(time.count()) + " ms");
  node.starts_from = place_.engine.elapsed() + time;
}

// What a launcher finds before it joins.
void Nodes::check_gpu(const Node& node, const std::string& pod_uid) {
  if (place_.knobs.break_gpu == 0) return;
  Worker& worker = *node.containers.at(pod_uid).worker;
  if (!node.gpu_fault.empty()) ++place_.truth.of(worker.job_uid(), worker.attempt()).disruptions;
  worker.hear(membership::NodeChecked{node.gpu_fault},
              place_.engine.between(milliseconds{1}, milliseconds{1'500}));
}

bool Nodes::is_announced(const std::string& node) const {
  const auto found = std::ranges::find(nodes_, node, [](const auto& one) { return one->name; });
  return found != nodes_.end() &&
         ((*found)->is_announced || place_.engine.elapsed() < (*found)->quiet_from);
}

void Nodes::withdraw(Node& node) {
  constexpr seconds kBehindMax{150};
  if (!node.is_announced) return;
  node.is_announced = node.is_cordoned = false;
  node.notice.clear();
  node.quiet_from = place_.engine.elapsed() + kBehindMax;
  if (signals_.erase(node.name) > 0 && on_signal) on_signal(node.name);
}

void Nodes::blip_one(milliseconds time) {
  Node& node = *nodes_[place_.engine.random().below(nodes_.size())];
  if (!is_reachable(node)) return;
  // A zombie: its kubelet is gone, its containers run on and have their network. They may train and
  // tell for as long after their attempt has ended.
  const bool is_zombie = place_.engine.random().one_in(3);
  place_.api.count_fault(is_zombie ? "node zombie" : "node blip");
  place_.truth.unheard += time;
  place_.engine.trace(node.name + (is_zombie ? " has no kubelet for " : " is cut off for ") +
                      std::to_string(time.count()) + " ms");
  node.is_cut = true;
  for (const auto& [uid, container] : node.containers) {
    if (!container.worker) continue;
    ++place_.truth.of(container.worker->job_uid(), container.worker->attempt()).noise;
    if (!is_zombie) container.worker->cut(true);
  }
  place_.engine.after(kNotReadyAfter, [&node] { node.is_ready = node.is_alive && !node.is_cut; });
  place_.engine.after(time, [this, &node] {
    if (!node.is_stranded) reconnect(node);
  });
}

void Nodes::reconnect(Node& node) {
  node.is_cut = node.is_stranded = false;
  node.is_ready = node.is_alive;
  for (const auto& [uid, container] : node.containers) {
    if (container.worker) container.worker->cut(false);
  }
  // The kubelet finds its way back later than the containers do.
  place_.engine.after(place_.engine.between(milliseconds{0}, milliseconds{15'000}), [this, &node] {
    if (!is_reachable(node)) return;
    sync_all(node);
    for (const auto& [uid, container] : node.containers) {
      if (container.is_started) report(node, uid);
    }
  });
}

void Nodes::strand_one(milliseconds time) {
  constexpr std::size_t kNodesMax = 8;
  Node& node = *nodes_[place_.engine.random().below(nodes_.size())];
  if (!is_reachable(node) || nodes_.size() >= kNodesMax) return;
  place_.api.count_fault("node stranded");
  place_.truth.unheard += time;
  place_.engine.trace(node.name + " is stranded for " + std::to_string(time.count()) + " ms");
  node.is_cut = node.is_stranded = true;
  for (const auto& [uid, container] : node.containers) {
    if (!container.worker) continue;
    ++place_.truth.of(container.worker->job_uid(), container.worker->attempt()).noise;
    container.worker->cut(true);
  }
  // Those that are reached have room for any gang, also for one that has to lie in one rack: they
  // may stay away until all is over.
  do add_node(node.is_spot);
  while (!has_whole_rack());
  place_.engine.after(kNotReadyAfter, [this, &node] {
    if (!node.is_stranded) return;
    node.is_ready = false;
    schedule_soon(milliseconds{10});
  });
  place_.engine.after(kNotReadyAfter + kTaintAfter, [this, &node] {
    if (node.is_stranded) taint(node);
  });
  place_.engine.after(time, [this, &node] {
    if (node.is_stranded && may_fail) reconnect(node);
  });
}

bool Nodes::has_whole_rack() const {
  std::map<int, int> reached;  // by rack
  for (const auto& node : nodes_) reached[node->number / 2] += node->is_stranded ? 0 : 1;
  return std::ranges::any_of(reached, [](const auto& rack) { return rack.second == 2; });
}

void Nodes::unstrand() {
  for (const auto& node : nodes_) {
    if (!node->is_stranded) continue;
    place_.engine.trace(node->name + " comes back");
    reconnect(*node);
  }
}

void Nodes::kill_one() {
  Node& node = *nodes_[place_.engine.random().below(nodes_.size())];
  if (!is_reachable(node)) return;
  place_.api.count_fault("node death");
  lose(node);
}

void Nodes::lose(Node& node) {
  place_.engine.trace(node.name + " dies");
  node.is_alive = false;
  for (auto& [uid, container] : node.containers) {
    if (!container.worker) continue;
    ++place_.truth.of(container.worker->job_uid(), container.worker->attempt()).disruptions;
    container.worker->lose_node();
  }
  node.containers.clear();
  // Pods that were bound and not started yet are lost with it, too.
  for (const local::Object& pod : place_.api.all(kPods)) {
    const auto facts = facts_of(*pod);
    const bool is_here =
        text_at_pointer(*pod, "/spec/nodeName") == node.name && !is_terminal_pod(*pod);
    if (facts && is_here) ++place_.truth.of(facts->job_uid, facts->attempt).disruptions;
  }
  place_.engine.after(kNotReadyAfter, [this, &node] {
    if (node.is_alive) return;
    node.is_ready = false;
    place_.engine.after(kTaintAfter, [this, &node] {
      if (!node.is_alive) taint(node);
    });
    place_.engine.after(kTaintAfter + kRemovedAfter, [this, &node] {
      if (!node.is_alive) collect(node);
    });
  });
}

void Nodes::taint(Node& node) {
  for (const local::Object& pod : place_.api.all(kPods)) {
    if (text_at_pointer(*pod, "/spec/nodeName") == node.name && !is_terminal_pod(*pod)) {
      disrupt(*pod, "DeletionByTaintManager");
    }
  }
}

// The node object is gone: the pod garbage collector ends its pods; a new machine takes its place.
void Nodes::collect(Node& node) {
  for (const local::Object& pod : place_.api.all(kPods)) {
    if (text_at_pointer(*pod, "/spec/nodeName") != node.name) continue;
    if (const auto facts = facts_of(*pod)) {
      ++place_.truth.of(facts->job_uid, facts->attempt).disruptions;
    }
    if (!is_terminal_pod(*pod)) {
      place_.api.set_status(Actor::kCluster, kPods, (*pod)["metadata"]["name"],
                            {{"phase", "Failed"}});
    }
    confirm_deletion(*pod);
  }
  withdraw(node);
  node.is_gone = node.is_bought;
  if (node.is_gone) return;
  node.is_alive = node.is_ready = true;
  node.is_cut = node.is_cordoned = false;
  node.gpu_fault.clear();
  schedule_soon(milliseconds{10});
}

void Nodes::heal() {
  for (const auto& node : nodes_) {
    withdraw(*node);
    node->is_cordoned = false;
    node->starts_from = milliseconds{0};
    if (!node->is_alive) {
      taint(*node);
      collect(*node);
    }
    if (!node->is_stranded) reconnect(*node);
  }
  schedule_soon(milliseconds{10});
}

}  // namespace pawl::sim
