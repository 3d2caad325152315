// What the scheduler, kubelets and launchers of the tests' cluster do with its pods.
#include <set>

#include "tests/unit/operator/cluster.h"

namespace pawl::test {

using nlohmann::json;

// To the node that it is bound to by its required affinity, if it is.
bool Cluster::bind(const json& pod) {
  const json::json_pointer terms{
      "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/"
      "nodeSelectorTerms/0/matchFields/0/values/0"};
  if (pod["spec"].contains("nodeName")) return true;
  const std::string name = pod["metadata"]["name"];
  std::string node;
  if (pod.contains(terms)) {
    node = pod.at(terms);
  } else if (!options.policy.asks_by_pods) {
    return true;
  } else if (!added.empty()) {
    node = added.front();
    added.erase(added.begin());
  } else {
    return false;
  }
  const json target = {{"metadata", {{"name", name}}}, {"target", {{"name", node}}}};
  call({.method = kube::Method::kPost,
        .target = kube::path_of(kube::resources::kPods, kNamespace, name, "binding"),
        .content_type = "application/json",
        .body = target.dump()});
  return true;
}

void Cluster::run_pods() {
  std::set<std::string> eligible;
  for (const json& group : all(kube::resources::kWorkerGroups)) {
    for (const json& pod : group["spec"]["pods"]) eligible.insert(pod.value("uid", ""));
  }
  for (const json& pod : all(kube::resources::kPods)) {
    const std::string name = pod["metadata"]["name"], uid = pod["metadata"]["uid"];
    const std::string phase =
        pod.contains("status") ? pod["status"].value("phase", "Pending") : "Pending";
    if (pod["metadata"].contains("deletionTimestamp")) {
      if (!lingering.empty() && name.starts_with(lingering)) continue;
      call(kube::delete_request(kube::resources::kPods, kNamespace, name,
                                {.uid = uid, .grace_seconds = 0}));
    } else if (phase == "Pending" && !stuck.empty() && name.starts_with(stuck)) {
      if (pod["spec"].contains("nodeName")) continue;
      bind(pod);
      const json bound = {{"type", "PodScheduled"},
                          {"status", "True"},
                          {"lastTransitionTime", format_time(clock.now())}};
      set_pod_status(name, {{"phase", "Pending"}, {"conditions", json::array({bound})}});
    } else if (phase == "Pending" && eligible.contains(uid)) {
      if (!bind(pod)) continue;
      set_pod_status(name,
                     {{"phase", "Running"},
                      {"conditions", json::array({{{"type", "Ready"}, {"status", "True"}}})}});
    }
  }
}

void Cluster::fail_pod(const std::string& name) {
  const json exit = {{"terminated", {{"exitCode", 3}, {"reason", "Error"}}}};
  set_pod_status(name,
                 {{"phase", "Failed"},
                  {"conditions", json::array({{{"type", "Ready"}, {"status", "False"}}})},
                  {"containerStatuses", json::array({{{"name", "worker"}, {"state", exit}}})}});
}

void Cluster::delete_pod(const std::string& name) {
  const json pod = get(kube::resources::kPods, name);
  call(kube::delete_request(kube::resources::kPods, kNamespace, name,
                            {.uid = pod["metadata"]["uid"]}));
}

void Cluster::commit_generation(const std::string& job, std::int64_t generation) {
  const json group = get(kube::resources::kWorkerGroups, job);
  std::set<std::string> staying;
  for (const json& pod : all(kube::resources::kPods)) {
    if (!pod["metadata"].contains("deletionTimestamp")) staying.insert(pod["metadata"]["uid"]);
  }
  json members = json::array();
  for (const json& pod : group["spec"]["pods"]) {
    const bool is_wanted = pod["slot"] < group["spec"]["targetMembers"];
    if (!is_wanted || !staying.contains(pod.value("uid", ""))) continue;
    members.push_back({{"uid", pod["uid"]},
                       {"start", "s"},
                       {"address", "10.0.0.1:4"},
                       {"rank", members.size()},
                       {"slot", pod["slot"]}});
  }
  const std::int64_t attempt = group["spec"]["attempt"];
  const json leader = {
      {"uid", members[0]["uid"]}, {"start", "s"}, {"address", "10.0.0.1:4"}, {"fingerprint", "00"}};
  json lineage = json::array();
  for (std::int64_t one = 1; one <= generation; ++one)
    lineage.push_back({{"attempt", attempt}, {"generation", one}, {"startStep", one - 1}});
  const json status = {{"attempt", attempt},       {"term", 1},
                       {"generation", generation}, {"startStep", generation - 1},
                       {"leader", leader},         {"members", members},
                       {"lineage", lineage}};
  auto request = kube::merge_patch_request(kube::resources::kWorkerGroups, kNamespace, job,
                                           {{"status", status}});
  request.target += "/status";
  call(request);
}

void Cluster::finish_pods() {
  for (const json& pod : all(kube::resources::kPods)) {
    const json exit = {{"terminated", {{"exitCode", 0}}}};
    set_pod_status(pod["metadata"]["name"],
                   {{"phase", "Succeeded"},
                    {"conditions", json::array({{{"type", "Ready"}, {"status", "False"}}})},
                    {"containerStatuses", json::array({{{"name", "worker"}, {"state", exit}}})}});
  }
}

}  // namespace pawl::test
