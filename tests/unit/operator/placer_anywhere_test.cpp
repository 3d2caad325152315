// Clusters whose autoscaler hears of a gang by its pods alone (policy.asks_by_pods).
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <map>

#include "tests/unit/operator/placed_world.h"

using namespace pawl;
using namespace pawl::test;
using nlohmann::json;
using std::chrono::minutes;
using std::chrono::seconds;

namespace {

// Two machines with 8 GPUs each, in racks "a" and "b".
struct Growing : PlacedWorld {
  Growing() : PlacedWorld({}) {
    cluster.options.placement = placement::Levels::parse("rack=example.com/rack").value();
    cluster.options.policy.asks_by_pods = true;
    cluster.options.policy.children.levels = {{"rack", "example.com/rack"}};
    cluster.start_operator();
    cluster.set_machine("node-a", 8, "a");
    cluster.set_machine("node-b", 8, "b");
  }
  json placement(const std::string& job) {
    return status_of(cluster, job).value("placement", json::object());
  }
  // By slot, its newest pod.
  std::map<std::string, json> pods(const std::string& job) {
    std::map<std::string, json> found;
    for (const json& pod : cluster.all(kube::resources::kPods)) {
      const json& labels = pod["metadata"]["labels"];
      if (labels["pawl.dev/job"] == job) found[labels["pawl.dev/slot"]] = pod["spec"];
    }
    return found;
  }
  void add(const std::vector<std::string>& machines, const std::string& rack) {
    for (const std::string& name : machines) cluster.set_machine(name, 8, rack);
    cluster.added = machines;
  }
};

const json kAnywhere = {{{"name", "*"}, {"workers", 3}}};

}  // namespace

TEST_CASE("placer: who waits for room for a while gets pods without nodes", "[controller][I52]") {
  Growing world;
  world.cluster.create_job("large", 3, "Custom", 8);  // more than there is
  world.cluster.settle(seconds{9});
  CHECK(world.reason("large") == "WaitingForRoom");
  CHECK(world.pods("large").empty());
  world.cluster.settle(seconds{3});
  CHECK(world.placement("large")["nodes"] == kAnywhere);
  REQUIRE(world.pods("large").size() == 3);
  for (const auto& [slot, pod] : world.pods("large")) {
    CHECK_FALSE(pod["affinity"].contains("nodeAffinity"));
    const json& near = pod["affinity"]["podAffinity"];
    CHECK(near["preferredDuringSchedulingIgnoredDuringExecution"][0]["podAffinityTerm"]
              ["topologyKey"] == "example.com/rack");
  }
  CHECK(world.phase("large") == "Starting");
  CHECK(world.told("large", "placedBy") ==
        "kube-scheduler: there was no room, and an autoscaler adds nodes for pods without one");
  world.add({"new-1", "new-2", "new-3"}, "c");
  world.cluster.settle(seconds{30});
  CHECK(world.phase("large") == "Running");
  CHECK(status_of(world.cluster, "large")["attempt"] == 1);
}

TEST_CASE("placer: who gets room meanwhile has its nodes as ever", "[controller][I52]") {
  Growing world;
  world.cluster.create_job("first", 2, "Custom", 8);
  world.cluster.settle(seconds{5});
  world.cluster.create_job("second", 2, "Custom", 8);
  world.cluster.settle(seconds{5});
  world.cluster.finish_pods();
  world.cluster.settle(seconds{30});
  CHECK(world.phase("second") == "Running");
  CHECK(world.told("second", "placedBy") == "Pawl");
}

TEST_CASE("placer: pods without nodes need their quota, which the next operator knows of",
          "[controller][I44][I52]") {
  Growing world;
  world.cluster.set_queue("team", 24);
  const json team = {{"queueName", "team"}};
  world.cluster.create_job("one", 3, "Custom", 8, team);
  world.cluster.clock.advance(seconds{1});
  world.cluster.create_job("two", 3, "Custom", 8, team);
  world.cluster.settle(seconds{12});
  CHECK(world.pods("one").size() == 3);
  CHECK(world.pods("two").empty());
  world.cluster.start_operator();
  world.cluster.settle(minutes{2});
  CHECK(world.pods("two").empty());
  CHECK(world.reason("two") == "WaitingForQuota");
  world.add({"new-1", "new-2", "new-3"}, "c");
  world.cluster.settle(seconds{30});
  CHECK(world.phase("one") == "Running");
  world.cluster.finish_pods();
  world.cluster.settle(seconds{30});
  CHECK(world.pods("two").size() == 3);
}

TEST_CASE("placer: a required level goes to the pods", "[controller][I52]") {
  Growing world;
  world.cluster.create_job("large", 3, "Custom", 8,
                           {{"topology", {{{"level", "rack"}, {"mode", "Required"}}}}});
  world.cluster.settle(seconds{12});
  REQUIRE(world.pods("large").size() == 3);
  const json term = {{"topologyKey", "example.com/rack"},
                     {"labelSelector",
                      {{"matchLabels",
                        {{"pawl.dev/job-uid", world.cluster.get(kube::resources::kTrainingJobs,
                                                                "large")["metadata"]["uid"]},
                         {"pawl.dev/attempt", "1"}}}}}};
  for (const auto& [slot, pod] : world.pods("large"))
    CHECK(pod["affinity"]["podAffinity"] ==
          json{{"requiredDuringSchedulingIgnoredDuringExecution", json::array({term})}});
}

TEST_CASE("placer: what does not get all its nodes gives them back, and waits in line again",
          "[controller][I46][I52]") {
  Growing world;
  world.cluster.create_job("large", 3, "Custom", 8);
  world.cluster.settle(seconds{12});
  world.add({"new-1", "new-2"}, "c");
  world.cluster.settle(minutes{14});
  CHECK(status_of(world.cluster, "large")["attempt"] == 1);
  world.cluster.settle(minutes{1});
  CHECK(status_of(world.cluster, "large")["attempt"] == 2);
  CHECK(status_of(world.cluster, "large")["restarts"]["byCause"]["NodesTimeout"] == 1);
  world.cluster.settle(minutes{2});  // by then all that has room
  CHECK(world.phase("large") == "Running");
  CHECK(world.told("large", "placedBy") == "Pawl");
}

TEST_CASE("placer: a lost worker gets a pod without a node where there is no room",
          "[controller][I43][I52]") {
  Growing world;
  world.cluster.create_job("train", 2, "Native", 8);
  world.cluster.settle(seconds{10});
  world.cluster.commit_generation("train");
  world.cluster.settle(seconds{10});
  REQUIRE(world.phase("train") == "Running");
  const std::string lost = world.pods("train").at("1")["nodeName"];
  world.cluster.edit_machine(lost, [](placement::Host& host) { host.is_ready = false; });
  world.cluster.delete_pod("train-1-1-0");
  world.cluster.settle(seconds{8});
  CHECK(world.pods("train").size() == 1);
  world.cluster.settle(seconds{35});
  REQUIRE(world.pods("train").size() == 2);
  CHECK_FALSE(world.pods("train").at("1")["affinity"].contains("nodeAffinity"));
  CHECK(world.placement("train")["later"][0]["node"] == "*");
  world.add({"new-1"}, "a");
  world.cluster.settle(seconds{10});
  CHECK(world.pods("train").at("1")["nodeName"] == "new-1");
  CHECK(status_of(world.cluster, "train")["attempt"] == 1);
}

TEST_CASE("placer: who got no nodes asks later each time", "[controller][I52]") {
  Growing world;
  world.cluster.create_job("large", 3, "Custom", 8);
  const auto made = [&] { return world.pods("large").size(); };
  world.cluster.settle(minutes{15} + seconds{30});
  REQUIRE(status_of(world.cluster, "large")["attempt"] == 2);
  world.cluster.settle(seconds{90});  // it waits for a minute, and another one without room
  CHECK(made() == 0);
  world.cluster.settle(minutes{1});
  CHECK(made() == 3);
  world.cluster.settle(minutes{16});
  REQUIRE(status_of(world.cluster, "large")["attempt"] == 3);
  world.cluster.settle(minutes{1});
  CHECK(made() == 0);
  world.cluster.settle(minutes{1});
  CHECK(made() == 3);
}

TEST_CASE("placer: for no more than 16 gangs nodes are asked for at one time",
          "[controller][I52]") {
  Growing world;
  for (int i = 0; i < 20; ++i)
    world.cluster.create_job("large-" + std::to_string(i), 3, "Custom", 8);
  world.cluster.settle(minutes{5});
  CHECK(world.cluster.all(kube::resources::kPods).size() == 3 * 16);
  world.cluster.start_operator();
  world.cluster.settle(minutes{5});
  CHECK(world.cluster.all(kube::resources::kPods).size() == 3 * 16);
}

TEST_CASE("placer: with the setting taken back pods have nodes, or none are made",
          "[controller][I52]") {
  Growing world;
  world.cluster.is_kubelet_on = false;
  world.cluster.create_job("large", 3, "Custom", 8);
  bool is_stopped = false;
  world.cluster.fault = [&](const kube::HttpRequest& request) {
    is_stopped = is_stopped || request.target.ends_with("/serviceaccounts");
    return is_stopped ? Fault::kUnavailable : Fault::kNone;
  };
  world.cluster.settle(seconds{12});  // "*" is written, and no pod is made
  REQUIRE(world.placement("large")["nodes"] == kAnywhere);
  REQUIRE(world.pods("large").empty());
  world.cluster.fault = {};
  world.cluster.options.policy.asks_by_pods = false;
  world.cluster.start_operator();
  world.cluster.settle(minutes{2});
  CHECK(world.pods("large").empty());
  CHECK(world.reason("large") == "NeverFits");
}

TEST_CASE("placer: a member that found no node for long is placed where there is room by then",
          "[controller][I43][I52]") {
  Growing world;
  world.cluster.create_job("train", 2, "Native", 8,
                           {{"topology", {{{"level", "rack"}, {"mode", "Required"}}}}});
  world.cluster.set_machine("node-c", 8, "a");
  world.cluster.settle(seconds{10});
  world.cluster.commit_generation("train");
  world.cluster.settle(seconds{10});
  REQUIRE(world.phase("train") == "Running");
  const std::string lost = world.pods("train").at("1")["nodeName"];
  world.cluster.edit_machine(lost, [](placement::Host& host) { host.is_ready = false; });
  world.cluster.delete_pod("train-1-1-0");
  world.cluster.settle(seconds{45});
  REQUIRE(world.placement("train")["later"][0]["node"] == "*");
  const std::string waiting = "train-1-1-1";
  world.cluster.set_pod_status(waiting, {{"conditions", json::array({{{"type", "PodScheduled"},
                                                                      {"status", "False"},
                                                                      {"reason", "Unschedulable"},
                                                                      {"message", "none"}}})}});
  world.cluster.edit_machine(lost, [](placement::Host& host) { host.is_ready = true; });
  world.cluster.settle(minutes{16});
  CHECK(world.placement("train")["later"][0]["node"] == lost);
  CHECK(world.pods("train").at("1")["nodeName"] == lost);
  CHECK(status_of(world.cluster, "train")["attempt"] == 1);
}

TEST_CASE("placer: ranks are dealt when all pods have found their nodes",
          "[controller][I51][I52]") {
  Growing world;
  world.cluster.is_kubelet_on = false;
  world.cluster.create_job("large", 4, "Native", 8);
  world.cluster.settle(seconds{12});
  REQUIRE(world.pods("large").size() == 4);
  world.cluster.set_machine("new-1", 8, "a");
  world.cluster.set_machine("new-2", 8, "b");
  world.cluster.added = {"node-a", "node-b", "new-1", "new-2"};
  world.cluster.is_kubelet_on = true;
  world.cluster.settle(seconds{5});
  std::map<std::string, int> orders;  // by slot
  const json group = world.cluster.get(kube::resources::kWorkerGroups, "large");
  for (const json& pod : group["spec"]["pods"])
    orders[std::to_string(pod["slot"].get<int>())] = pod.value("rankOrder", pod["slot"].get<int>());
  const auto rack_of = [&](const std::string& slot) {
    const std::string node = world.pods("large").at(slot)["nodeName"];
    return node == "node-a" || node == "new-1" ? "a" : "b";
  };
  std::map<int, std::string> racks;  // by rank
  for (const auto& [slot, order] : orders) racks[order] = rack_of(slot);
  CHECK(racks[0] == racks[1]);
  CHECK(racks[2] == racks[3]);
  CHECK(racks[1] != racks[2]);
}
