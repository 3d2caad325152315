#include "tests/sim/nodes.h"

#include <algorithm>

#include "common/api/contract.h"
#include "common/api/worker_facts.h"
#include "operator/core/pods.h"

namespace pawl::sim {

using kube::resources::kPods;
using nlohmann::json;

std::string text_at_pointer(const json& object, const char* pointer) {
  const json::json_pointer at{pointer};
  if (!object.contains(at) || !object.at(at).is_string()) return "";
  return object.at(at).get<std::string>();
}

bool is_terminal_pod(const json& pod) {
  const std::string phase = text_at_pointer(pod, "/status/phase");
  return phase == "Succeeded" || phase == "Failed";
}

std::optional<PodFacts> facts_of(const json& pod) {
  const std::string name = text_at_pointer(pod, "/metadata/name");
  const auto job = core::job_of_pod_name(name);
  if (!job) return std::nullopt;
  const auto identity = core::parse_pod_name(*job, name);
  PodFacts facts{"", identity->attempt, identity->slot, identity->n};
  const json::json_pointer env{"/spec/containers/0/env"};
  if (!pod.contains(env)) return std::nullopt;
  for (const json& item : pod.at(env)) {
    if (item.value("name", "") != api::kEnvWorker) continue;
    const auto worker = api::decode_worker_facts(item.value("value", ""));
    if (worker) facts.job_uid = worker->job_uid;
  }
  return facts.job_uid.empty() ? std::nullopt : std::optional{facts};
}

Nodes::Nodes(WorkerPlace place, int nodes) : place_(place) {
  // The first is on demand, so that there is one in every world.
  for (int i = 0; i < nodes; ++i) add_node(i > 0 && i <= place.knobs.spot_nodes);
  place_.api.observe(*this);
}

void Nodes::add_node(bool is_spot) {
  auto node = std::make_unique<Node>();
  node->number = static_cast<int>(nodes_.size());
  node->name = (is_spot ? "spot-" : "node-") + std::to_string(node->number);
  node->is_spot = is_spot;
  nodes_.push_back(std::move(node));
}

Nodes::~Nodes() { place_.api.forget(*this); }

Nodes::Node* Nodes::find_node(const std::string& name) {
  // Of many that were bought and are gone the newest are asked for.
  const auto found =
      std::find_if(nodes_.rbegin(), nodes_.rend(), [&](const auto& n) { return n->name == name; });
  return found == nodes_.rend() ? nullptr : found->get();
}

bool Nodes::runs(const std::string& pod_uid) const {
  return std::ranges::any_of(nodes_, [&](const auto& node) {
    const auto found = node->containers.find(pod_uid);
    return found != node->containers.end() && found->second.worker != nullptr;
  });
}

void Nodes::on_change(Actor, const local::Change& change) {
  if (change.key.plural != "pods") return;
  const std::string node = text_at_pointer(*change.after, "/spec/nodeName");
  if (!node.empty()) {
    if (Node* found = find_node(node)) sync_later(*found, change.key.name);
  } else if (!change.is_deletion) {
    // In a market a wave is looked at as a whole, as a queue in the order of creation would.
    const bool is_market = place_.knobs.pace.calm_tick.count() > 0;
    schedule_soon(is_market ? seconds{2}
                            : place_.engine.between(milliseconds{1}, milliseconds{200}));
  }
}

std::map<std::string, placement::Host> Nodes::hosts() const {
  std::map<std::string, placement::Host> hosts;
  for (const auto& node : nodes_) {
    if (node->is_gone) continue;
    placement::Host host{.name = node->name,
                         .allocatable = {{placement::kPods, place_.knobs.pods_per_node}},
                         .is_ready = node->is_ready};
    if (node->is_cordoned)
      host.taints.push_back({"node.kubernetes.io/unschedulable", "", "NoSchedule"});
    if (node->is_spot) host.labels[kSpotLabel] = "spot";
    host.labels[kRackLabel] = std::to_string(node->number / 2);
    if (node->is_spot && place_.knobs.taints_spot)
      host.taints.push_back({kSpotLabel, "", "NoSchedule"});
    hosts.insert_or_assign(node->name, std::move(host));
  }
  return hosts;
}

// ---- the scheduler

void Nodes::schedule_soon(milliseconds delay) {
  if (is_scheduling_) return;
  is_scheduling_ = true;
  place_.engine.after(delay, [this] {
    is_scheduling_ = false;
    schedule_pending();
  });
}

int dislike(const json& pod, const std::string& node) {
  const json::json_pointer terms(
      "/spec/affinity/nodeAffinity/preferredDuringSchedulingIgnoredDuringExecution");
  if (!pod.contains(terms)) return 0;
  int sum = 0;
  for (const json& term : pod.at(terms)) {
    const bool is_named = std::ranges::any_of(
        term.at("preference").value("matchFields", json::array()), [&](const json& field) {
          return field["operator"] == "NotIn" && field["values"][0] == node;
        });
    if (is_named) sum += term.at("weight").get<int>();
  }
  return sum;
}

Nodes::Node* Nodes::place_for(const json& pod, const std::map<std::string, int>& load) {
  Node* best = nullptr;
  const std::string wanted = bound_for(pod);
  // A preference is a part of a score.
  const bool is_any_avoided =
      !signals_.empty() || place_.knobs.spot_nodes > 0 ||
      std::ranges::any_of(nodes_, [](const auto& node) { return !node->gpu_fault.empty(); });
  const bool is_lenient = may_fail && is_any_avoided && place_.engine.random().one_in(4);
  for (const auto& node : nodes_) {
    if (!node->is_ready || node->is_cordoned || !may_run(pod, node->is_spot)) continue;
    if (!wanted.empty() && node->name != wanted) continue;
    if (node->is_spot && place_.knobs.taints_spot && !tolerates_spot(pod)) continue;
    const auto count = [&](const Node& one) {
      const auto found = load.find(one.name);
      return found == load.end() ? 0 : found->second;
    };
    if (count(*node) >= place_.knobs.pods_per_node) continue;
    const auto rank = [&](const Node& one) {
      const int dislikes = dislike(pod, one.name) - liking(pod, one.is_spot);
      return std::pair{is_lenient ? 0 : dislikes, count(one)};
    };
    if (best == nullptr || rank(*node) < rank(*best)) best = node.get();
  }
  return best;
}

void Nodes::schedule_pending() {
  std::map<std::string, int> load;
  std::vector<json> pending;
  for (const local::Object& pod : place_.api.all(kPods)) {
    const std::string node = text_at_pointer(*pod, "/spec/nodeName");
    const bool is_deleting = pod->at("metadata").contains("deletionTimestamp");
    if (!facts_of(*pod)) continue;  // somebody else's: Pending for ever
    if (node.empty() && !is_terminal_pod(*pod) && !is_deleting) {
      pending.push_back(*pod);
    } else if (!node.empty() && !is_terminal_pod(*pod)) {
      ++load[node];
    }
  }
  const bool is_woken = place_.knobs.pace.calm_tick.count() > 0;  // by a machine that comes
  // In the order in which they were made: those that may not be on spot first.
  if (is_woken)
    std::ranges::stable_sort(pending, {}, [](const json& pod) { return facts_of(pod)->slot; });
  bool is_stuck = false;
  for (const json& pod : pending) {
    const std::string name = pod["metadata"]["name"];
    Node* node = place_for(pod, load);
    if (node != nullptr) {
      ++load[node->name];
      if (is_announced(node->name)) {
        const auto facts = facts_of(pod);
        ++place_.truth.of(facts->job_uid, facts->attempt).disruptions;
      }
      kube::HttpRequest bind;
      bind.method = kube::Method::kPost;
      bind.target = kube::path_of(kPods, kNamespace, name, "binding");
      bind.content_type = "application/json";
      bind.body = json{{"metadata", {{"name", name}}}, {"target", {{"name", node->name}}}}.dump();
      place_.api.handle(Actor::kCluster, bind);
      continue;
    }
    is_stuck = true;
    const json unschedulable = {{"type", "PodScheduled"},
                                {"status", "False"},
                                {"reason", "Unschedulable"},
                                {"message", "0 nodes are available"}};
    if (pod["status"].contains("conditions")) continue;
    if (!bound_for(pod).empty()) {  // what was decided on is not so: it may be decided on anew
      const auto facts = facts_of(pod);
      ++place_.truth.of(facts->job_uid, facts->attempt).disruptions;
    }
    place_.api.set_status(Actor::kCluster, kPods, name,
                          {{"conditions", json::array({unschedulable})}});
  }
  if (is_stuck) schedule_soon(is_woken ? seconds{60} : seconds{1});
}

// ---- the kubelet

void Nodes::sync_later(Node& node, const std::string& pod_name) {
  place_.engine.after(place_.engine.between(milliseconds{5}, milliseconds{100}),
                      [this, &node, pod_name] { sync(node, pod_name); });
}

void Nodes::sync_all(Node& node) {
  std::set<std::string> names;
  for (const local::Object& pod : place_.api.all(kPods)) {
    if (text_at_pointer(*pod, "/spec/nodeName") == node.name)
      names.insert((*pod)["metadata"]["name"]);
  }
  for (const auto& [uid, container] : node.containers) names.insert(container.name);
  for (const std::string& name : names) sync(node, name);
}

void Nodes::sync(Node& node, const std::string& pod_name) {
  if (!is_reachable(node)) return;
  const local::Object pod = place_.api.find(kPods, pod_name);
  const std::string uid = pod == nullptr ? "" : text_at_pointer(*pod, "/metadata/uid");
  // Containers of pods that are not there any more.
  std::erase_if(node.containers, [&](const auto& item) {
    return item.second.name == pod_name && item.first != uid;
  });
  if (pod == nullptr || text_at_pointer(*pod, "/spec/nodeName") != node.name) return;
  const bool is_deleting = pod->at("metadata").contains("deletionTimestamp");
  const auto found = node.containers.find(uid);
  if (is_terminal_pod(*pod)) {
    if (found != node.containers.end()) found->second.worker.reset();
    if (is_deleting) confirm_deletion(*pod);
  } else if (found == node.containers.end()) {
    is_deleting ? confirm_deletion(*pod) : admit(node, *pod);
  } else if (is_deleting) {
    end_gracefully(node, *pod, found->second);
  }
}

void Nodes::admit(Node& node, const json& pod) {
  const std::string uid = pod["metadata"]["uid"];
  const auto facts = facts_of(pod);
  if (!facts) return;  // somebody else's pod: it stays Pending
  Container& container = node.containers[uid];
  container.name = pod["metadata"]["name"];
  container.worker = std::make_unique<Worker>(
      place_, pod,
      WorkerEvents{[this, &node, uid](int code, const std::string& termination) {
                     place_.engine.after(milliseconds{0}, [this, &node, uid, code, termination] {
                       on_exit(node, uid, code, termination);
                     });
                   },
                   [this, &node, uid](bool is_ready) {
                     place_.engine.after(
                         place_.engine.between(milliseconds{10}, milliseconds{1'000}),
                         [this, &node, uid, is_ready] { on_ready(node, uid, is_ready); });
                   }});
  place_.engine.after(place_.engine.between(milliseconds{50}, milliseconds{3'000}),
                      [this, &node, uid] { start(node, uid); });
}

void Nodes::start(Node& node, const std::string& uid) {
  const auto found = node.containers.find(uid);
  if (found == node.containers.end() || !found->second.worker || found->second.is_terminating ||
      !node.is_alive) {
    return;
  }
  if (place_.engine.elapsed() < node.starts_from) {
    if (is_reachable(node)) say_waiting(found->second.name);
    return place_.engine.after(node.starts_from - place_.engine.elapsed(),
                               [this, &node, uid] { start(node, uid); });
  }
  found->second.is_started = true;
  found->second.worker->cut(node.is_cut);
  found->second.worker->start();
  if (!node.notice.empty())
    found->second.worker->hear(membership::TerminationAsked{node.notice}, seconds{2});
  check_gpu(node, uid);
  report(node, uid);
}

void Nodes::say_waiting(const std::string& name) {
  const json waiting = {{"reason", "ImagePullBackOff"}, {"message", "Back-off pulling image"}};
  place_.api.set_status(Actor::kCluster, kPods, name,
                        {{"containerStatuses",
                          json::array({{{"name", "worker"}, {"state", {{"waiting", waiting}}}}})}});
}

void Nodes::end_gracefully(Node& node, const json& pod, Container& container) {
  if (container.exit_code) return report(node, pod["metadata"]["uid"]);
  if (container.is_terminating || !container.worker) return;
  container.is_terminating = true;
  const std::string uid = pod["metadata"]["uid"];
  if (!container.is_started) return on_exit(node, uid, 137, "");
  container.worker->terminate();
  const seconds grace{pod["metadata"].value("deletionGracePeriodSeconds", 0)};
  place_.engine.after(grace, [this, &node, uid] {
    const auto found = node.containers.find(uid);
    if (found != node.containers.end() && found->second.worker && node.is_alive) {
      on_exit(node, uid, 137, "");
    }
  });
}

void Nodes::on_exit(Node& node, const std::string& uid, int code, const std::string& termination) {
  const auto found = node.containers.find(uid);
  if (found == node.containers.end() || found->second.exit_code) return;
  Container& container = found->second;
  container.worker.reset();
  container.exit_code = code;
  container.termination = termination;
  container.is_ready = false;
  place_.engine.after(place_.engine.between(milliseconds{10}, milliseconds{1'000}),
                      [this, &node, uid] { report(node, uid); });
}

void Nodes::on_ready(Node& node, const std::string& uid, bool is_ready) {
  const auto found = node.containers.find(uid);
  if (found == node.containers.end() || found->second.exit_code) return;
  found->second.is_ready = is_ready;
  report(node, uid);
}

// The pod's status as this kubelet knows it.
void Nodes::report(Node& node, const std::string& uid) {
  const auto found = node.containers.find(uid);
  if (found == node.containers.end() || !is_reachable(node)) return;
  const Container& container = found->second;
  const local::Object pod = place_.api.find(kPods, container.name);
  if (pod == nullptr || text_at_pointer(*pod, "/metadata/uid") != uid) return;
  if (!is_terminal_pod(*pod)) {
    json conditions = json::array();
    for (const json& item : pod->at("status").value("conditions", json::array())) {
      if (item["type"] != "Ready") conditions.push_back(item);
    }
    conditions.push_back({{"type", "Ready"}, {"status", container.is_ready ? "True" : "False"}});
    const json running = {{"name", "worker"}, {"state", {{"running", json::object()}}}};
    json status = {{"phase", "Running"},
                   {"conditions", conditions},
                   {"containerStatuses", json::array({running})}};
    if (container.exit_code) {
      const json ended = {{"exitCode", *container.exit_code},
                          {"message", container.termination},
                          {"reason", *container.exit_code == 0 ? "Completed" : "Error"}};
      status["phase"] = *container.exit_code == 0 ? "Succeeded" : "Failed";
      status["containerStatuses"] =
          json::array({{{"name", "worker"}, {"state", {{"terminated", ended}}}}});
    }
    place_.api.set_status(Actor::kCluster, kPods, container.name, status);
  }
  if (container.exit_code && pod->at("metadata").contains("deletionTimestamp")) {
    confirm_deletion(*pod);
  }
}

void Nodes::confirm_deletion(const json& pod) {
  place_.api.handle(Actor::kCluster,
                    kube::delete_request(kPods, kNamespace, pod["metadata"]["name"],
                                         {.uid = pod["metadata"]["uid"], .grace_seconds = 0}));
}

}  // namespace pawl::sim
