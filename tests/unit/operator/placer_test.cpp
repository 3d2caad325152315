// Room is given away once, by whichever operator leads, and taken back when nobody uses it.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>

#include "tests/unit/operator/placed_world.h"

using namespace pawl;
using namespace pawl::test;
using nlohmann::json;
using std::chrono::seconds;

namespace {

// Two machines with 8 GPUs each.
struct Placed : PlacedWorld {
  Placed() : PlacedWorld({"node-a", "node-b"}) {}
  // Of pods that have not ended: no machine has more than it has.
  bool is_overbooked() {
    std::map<std::string, int> taken;
    for (const json& pod : cluster.all(kube::resources::kPods)) {
      const auto booking = placement::booking_of(pod);
      if (booking) taken[booking->host] += static_cast<int>(booking->requests.at("nvidia.com/gpu"));
    }
    return std::ranges::any_of(taken, [](const auto& entry) { return entry.second > 8; });
  }
  int pods_of(const std::string& job) {
    const auto pods = cluster.all(kube::resources::kPods);
    return static_cast<int>(std::ranges::count_if(pods, [&](const json& pod) {
      return pod["metadata"]["name"].get<std::string>().starts_with(job + "-");
    }));
  }
};

}  // namespace

TEST_CASE("placer: pods are created on the nodes that the status names", "[controller][I43]") {
  Placed world;
  world.cluster.create_job("train", 4, "Custom", 4);
  world.cluster.settle(seconds{30});
  CHECK(world.phase("train") == "Running");
  const json nodes = {{{"name", "node-a"}, {"workers", 2}}, {{"name", "node-b"}, {"workers", 2}}};
  CHECK(status_of(world.cluster, "train")["placement"]["nodes"] == nodes);
  std::map<std::string, int> pods;
  for (const json& pod : world.cluster.all(kube::resources::kPods))
    ++pods[pod["spec"]["nodeName"].get<std::string>()];
  CHECK(pods == std::map<std::string, int>{{"node-a", 2}, {"node-b", 2}});
}

TEST_CASE("placer: of two gangs that fit alone one runs, the other follows",
          "[controller][I43][A44]") {
  Placed world;
  world.cluster.create_job("one", 3, "Custom", 4);
  world.cluster.create_job("two", 3, "Custom", 4);
  world.cluster.settle(seconds{30});
  const bool is_one_first = world.phase("one") == "Running";
  const std::string first = is_one_first ? "one" : "two", second = is_one_first ? "two" : "one";
  CHECK(world.phase(first) == "Running");
  CHECK(world.reason(second) == "WaitingForRoom");
  CHECK(status_of(world.cluster, second)["message"] ==
        "no room for 3 workers of nvidia.com/gpu 4 each: 1 would fit, on 1 of 2 nodes; it starts "
        "when pods end or nodes are added");
  CHECK(world.pods_of(second) == 0);
  CHECK_FALSE(world.is_overbooked());
  world.cluster.finish_pods();
  world.cluster.settle(seconds{60});
  CHECK(world.phase(first) == "Complete");
  CHECK(world.phase(second) == "Running");
}

TEST_CASE("placer: room is kept for who has waited for long", "[controller][I43]") {
  Placed world;
  world.cluster.create_job("a", 1, "Custom", 8);
  world.cluster.settle(seconds{5});
  world.cluster.create_job("large", 2, "Custom", 8);
  world.cluster.settle(seconds{250});
  world.cluster.create_job("passes", 1, "Custom", 4);
  world.cluster.settle(seconds{60});
  CHECK(world.phase("passes") == "Running");
  world.cluster.create_job("waits", 1, "Custom", 4);
  world.cluster.settle(seconds{60});
  CHECK(
      status_of(world.cluster, "waits")["message"] ==
      "no room for 1 worker of nvidia.com/gpu 4 each: 1 would fit, on 1 of 2 nodes; 1 job before "
      "it in line; the room is kept for jobs that have waited for longer; it starts when pods end "
      "or nodes are added");
  CHECK(status_of(world.cluster, "large")["message"] ==
        "no room for 2 workers of nvidia.com/gpu 8 each: 0 would fit, on 0 of 2 nodes; 2 nodes are "
        "kept for it, with room for 0 of its workers now; it starts when pods end or nodes are "
        "added");
  world.cluster.finish_pods();
  world.cluster.settle(seconds{60});
  CHECK(world.phase("large") == "Running");
  CHECK(world.reason("waits") == "WaitingForRoom");
}

TEST_CASE("placer: activeSeconds counts from when there are nodes", "[controller][B4]") {
  Placed world;
  world.cluster.create_job("a", 2, "Custom", 8);
  world.cluster.settle(seconds{5});
  world.cluster.create_job("b", 2, "Custom", 8);
  world.cluster.patch_job("b", {{"spec", {{"deadlines", {{"activeSeconds", 100}}}}}});
  world.cluster.settle(seconds{300});
  CHECK(world.reason("b") == "WaitingForRoom");
  world.cluster.finish_pods();
  world.cluster.settle(seconds{60});
  CHECK(world.phase("b") == "Running");
  world.cluster.settle(seconds{120});
  CHECK(world.phase("b") == "Failed");
}

TEST_CASE("placer: a new machine is room for who waits", "[controller][I43]") {
  Placed world;
  world.cluster.take("node-a", 8);
  world.cluster.create_job("large", 3, "Custom", 4);
  world.cluster.settle(seconds{30});
  CHECK(world.reason("large") == "WaitingForRoom");
  world.cluster.set_machine("node-c", 4);
  world.cluster.settle(seconds{30});
  CHECK(world.phase("large") == "Running");
}

TEST_CASE("placer: room that a deleted or suspended job was promised is free again",
          "[controller][I43]") {
  Placed world;
  world.cluster.is_kubelet_on = false;
  world.cluster.create_job("one", 4, "Custom", 4);
  world.cluster.settle(seconds{5});
  REQUIRE(world.pods_of("one") == 4);
  world.cluster.create_job("two", 4, "Custom", 4);
  world.cluster.settle(seconds{5});
  REQUIRE(world.reason("two") == "WaitingForRoom");
  world.cluster.is_kubelet_on = true;
  SECTION("deleted") {
    const json job = world.cluster.get(kube::resources::kTrainingJobs, "one");
    world.cluster.call(kube::delete_request(kube::resources::kTrainingJobs, "team", "one",
                                            {.uid = job["metadata"]["uid"]}));
  }
  SECTION("suspended") { world.cluster.patch_job("one", {{"spec", {{"suspend", true}}}}); }
  world.cluster.settle(seconds{120});
  CHECK(world.phase("two") == "Running");
  CHECK_FALSE(world.is_overbooked());
}

// Whatever of it was written, the next one knows it.
TEST_CASE("placer: an operator that dies anywhere leaves nothing given away twice",
          "[controller][I43]") {
  for (int round = 0; round < kDeaths; ++round) {
    Placed world;
    check_given_once(world.cluster, round, "WaitingForRoom",
                     [&](const char* job) { world.cluster.create_job(job, 3, "Custom", 4); });
    CHECK_FALSE(world.is_overbooked());
  }
}

// Not known to have been written: it may have been.
TEST_CASE("placer: an offer stands while its write may have taken effect", "[controller][I43]") {
  Placed world;
  int lost = 0;
  world.cluster.fault = [&](const kube::HttpRequest& request) {
    const bool is_offer = request.body.find("placement") != std::string::npos;
    return is_offer && lost++ < 2 ? Fault::kLoseReply : Fault::kNone;
  };
  world.cluster.lagging.insert(controller::Kind::kJob);
  world.cluster.create_job("one", 3, "Custom", 4);
  world.cluster.create_job("two", 3, "Custom", 4);
  for (int i = 0; i < 200; ++i) {
    world.cluster.lagging.clear();
    if (i % 7 != 0) world.cluster.lagging.insert(controller::Kind::kJob);
    world.cluster.step();
    world.cluster.clock.advance(std::chrono::milliseconds{100});
    CHECK_FALSE(world.is_overbooked());
  }
  world.cluster.lagging.clear();
  world.cluster.settle(seconds{60});
  const bool is_one_first = world.phase("one") == "Running";
  CHECK(world.phase(is_one_first ? "one" : "two") == "Running");
  CHECK(world.pods_of(is_one_first ? "two" : "one") == 0);
  CHECK(lost >= 1);
}

TEST_CASE("placer: a machine that is taken, or gone, before there are pods is left",
          "[controller][I43]") {
  for (const bool is_gone : {true, false}) {
    Placed world;
    std::string node;
    world.cluster.fault = [&](const kube::HttpRequest& request) {
      const json::json_pointer first{"/status/placement/nodes/0/name"};
      const json body = parse_json(request.body);
      if (!node.empty() || !body.is_object() || !body.contains(first)) return Fault::kNone;
      node = body.at(first);
      is_gone ? world.cluster.set_machine(node, 0) : world.cluster.take(node, 8);
      return Fault::kNone;
    };
    world.cluster.create_job("train", 2, "Custom", 4);
    INFO(node << (is_gone ? " is gone" : " is taken"));
    world.cluster.settle(seconds{60});
    CHECK(world.phase("train") == "Running");
    const json placement = status_of(world.cluster, "train")["placement"];
    CHECK(placement["attempt"] == 1);
    CHECK(placement["nodes"].size() == 1);
    CHECK(placement["nodes"][0]["name"] != node);
  }
}

TEST_CASE("placer: room goes by priority, then by age", "[controller][I43]") {
  Placed world;
  world.cluster.set_class("urgent", 100, false);
  world.cluster.create_job("first", 4, "Custom", 4);
  world.cluster.settle(seconds{30});
  REQUIRE(world.phase("first") == "Running");
  for (const char* name : {"older", "newer", "urgent"}) {
    const json scheduling = {{"priorityClassName", "urgent"}};
    world.cluster.clock.advance(seconds{5});
    world.cluster.create_job(name, 3, "Custom", 4,
                             name == std::string("urgent") ? scheduling : json{});
    world.cluster.settle(seconds{5});
  }
  world.cluster.settle(seconds{60});
  const auto line_of = [&](const char* name) {
    const std::string message = status_of(world.cluster, name)["message"];
    const auto line = message.find(" job");
    return line == std::string::npos ? "0" : message.substr(line - 1, 1);
  };
  CHECK(line_of("urgent") == "0");
  CHECK(line_of("older") == "1");
  CHECK(line_of("newer") == "2");
  for (const char* name : {"urgent", "older", "newer"}) {
    INFO(name);
    world.cluster.finish_pods();
    world.cluster.settle(seconds{60});
    CHECK(world.phase(name) == "Running");
  }
}

TEST_CASE("placer: a required level is kept, or waited for", "[controller][I43][A45][F6]") {
  Placed world;
  world.cluster.options.placement = placement::Levels::parse("rack=example.com/rack").value();
  world.cluster.start_operator();
  world.cluster.set_machine("node-a", 8, "one");
  world.cluster.set_machine("node-b", 8, "two");
  world.cluster.set_machine("node-c", 4, "one");
  world.cluster.take("node-c", 4);
  const json rack = {{"topology", {{{"level", "rack"}}}}};
  world.cluster.create_job("train", 3, "Custom", 4, rack);
  world.cluster.settle(seconds{30});
  CHECK(world.reason("train") == "WaitingForRoom");
  CHECK(status_of(world.cluster, "train")["message"] ==
        "no room for 3 workers of nvidia.com/gpu 4 each within one rack: rack one would hold 2, in "
        "all 4 would fit, on 2 of 3 nodes; it starts when pods end or nodes are added");
  world.cluster.set_machine("node-d", 4, "two");
  world.cluster.settle(seconds{30});
  CHECK(world.phase("train") == "Running");
  const json placement = status_of(world.cluster, "train")["placement"];
  CHECK(placement["domain"] == "two");
  CHECK(placement["level"] == "rack");
}

TEST_CASE("placer: a pod that takes another one's place goes near the others",
          "[controller][I43]") {
  Placed world;
  world.cluster.options.placement = placement::Levels::parse("rack=example.com/rack").value();
  world.cluster.start_operator();
  world.cluster.set_machine("node-a", 8, "one");
  world.cluster.set_machine("node-b", 8, "two");
  world.cluster.set_machine("node-c", 4, "one");
  world.cluster.create_job("train", 2, "Native", 4);
  world.cluster.settle(seconds{30});
  REQUIRE(world.phase("train") == "Running");
  const json nodes = {{{"name", "node-a"}, {"workers", 2}}};
  REQUIRE(status_of(world.cluster, "train")["placement"]["nodes"] == nodes);
  world.cluster.take("node-a", 4);  // sooner than the other pod can be made
  world.cluster.commit_generation("train");
  world.cluster.delete_pod("train-1-1-0");
  world.cluster.settle(seconds{60});
  const json placement = status_of(world.cluster, "train")["placement"];
  CHECK(placement["attempt"] == 1);
  const json later = {{{"slot", 1}, {"n", 1}, {"node", "node-c"}}};
  CHECK(placement["later"] == later);
  CHECK(world.cluster.get(kube::resources::kPods, "train-1-1-1")["spec"]["nodeName"] == "node-c");
  CHECK_FALSE(world.is_overbooked());
}

TEST_CASE("placer: with a pod that comes in, ranks go rack by rack again", "[controller][I51]") {
  Placed world;
  world.cluster.options.placement = placement::Levels::parse("rack=example.com/rack").value();
  world.cluster.start_operator();
  for (const auto& [name, rack] :
       {std::pair{"node-a", "one"}, {"node-b", "one"}, {"node-c", "two"}, {"node-d", "two"}})
    world.cluster.set_machine(name, 8, rack);
  world.cluster.create_job("train", 3, "Native", 8);
  world.cluster.settle(seconds{30});
  REQUIRE(world.phase("train") == "Running");
  const json nodes = {{{"name", "node-a"}, {"workers", 1}},
                      {{"name", "node-b"}, {"workers", 1}},
                      {{"name", "node-c"}, {"workers", 1}}};
  REQUIRE(status_of(world.cluster, "train")["placement"]["nodes"] == nodes);
  world.cluster.take("node-a", 8);  // sooner than the other pod can be made
  world.cluster.commit_generation("train");
  world.cluster.delete_pod("train-1-0-0");
  world.cluster.settle(seconds{60});
  REQUIRE(world.cluster.get(kube::resources::kPods, "train-1-0-1")["spec"]["nodeName"] == "node-d");
  const json group = world.cluster.get(kube::resources::kWorkerGroups, "train");
  std::vector<int> orders;
  for (const json& pod : group["spec"]["pods"]) orders.push_back(pod.value("rankOrder", -1));
  CHECK(orders == std::vector<int>{-1, 2, 1});  // node-d, node-c, then the other rack
}

TEST_CASE("placer: what no room can help against is said at once", "[controller][I43]") {
  Placed world;
  const auto message = [&] { return status_of(world.cluster, "train")["message"]; };
  SECTION("no such level") {
    const json block = {{"topology", {{{"level", "block"}}}}};
    world.cluster.create_job("train", 1, "Custom", 4, block);
    world.cluster.settle(seconds{30});
    CHECK(world.phase("train") == "Stalled");
    CHECK(world.reason("train") == "InvalidScheduling");
    CHECK(message() ==
          "spec.scheduling.topology: this cluster has no level \"block\" (it has host): name one "
          "of these, or have the level added to placement.levels of the chart");
    world.cluster.patch_job("train", {{"spec", {{"scheduling", nullptr}}}});
  }
  SECTION("no such class") {
    world.cluster.create_job("train", 1, "Custom", 4, {{"priorityClassName", "urgent"}});
    world.cluster.settle(seconds{30});
    CHECK(world.phase("train") == "Stalled");
    CHECK(message() ==
          "spec.scheduling.priorityClassName: there is no PriorityClass \"urgent\": create it, or "
          "name another one");
    world.cluster.set_class("urgent", 5);
  }
  world.cluster.settle(seconds{30});
  CHECK(world.phase("train") == "Running");
}

TEST_CASE("placer: nobody keeps a required level where the scheduler decides",
          "[controller][I43]") {
  Cluster cluster;
  const json host = {{"topology", {{{"level", "host"}}}}};
  cluster.create_job("train", 2, "Custom", 4, host);
  cluster.start_operator();
  cluster.settle(seconds{30});
  CHECK(status_of(cluster, "train")["phase"] == "Stalled");
  CHECK(status_of(cluster, "train")["message"] ==
        "spec.scheduling.topology with mode Required cannot be kept, because here the scheduler "
        "decides on nodes (the chart's placement.enabled is not set): change that, or make it "
        "Preferred");
  cluster.patch_job(
      "train",
      {{"spec", {{"scheduling", {{"topology", {{{"level", "host"}, {"mode", "Preferred"}}}}}}}}});
  cluster.settle(seconds{30});
  CHECK(status_of(cluster, "train")["phase"] == "Running");
}

TEST_CASE("placer: a job says who decides on its nodes", "[controller][I43]") {
  CHECK(controller::Placer::placed_by({}, "") == "Pawl");
  api::TrainingJob job;
  job.spec.capacity = api::Capacity{.spot = api::SpotUse::kPrefer};
  CHECK(controller::Placer::placed_by(job, controller::Placer::left_out(job)) ==
        "kube-scheduler: spec.capacity leaves its nodes to the scheduler");
  job.meta.labels["kueue.x-k8s.io/queue-name"] = "team";
  CHECK(controller::Placer::placed_by(job, controller::Placer::left_out(job)) ==
        "Kueue, whose queue the job's label names");
}

TEST_CASE("placer: what the scheduler's preferences decide on is left to it", "[controller][I43]") {
  api::TrainingJob job;
  CHECK(controller::Placer::left_out(job).empty());
  job.spec.capacity = api::Capacity{.spot = api::SpotUse::kPrefer};
  CHECK_FALSE(controller::Placer::left_out(job).empty());
  job.spec.capacity = api::Capacity{};
  job.spec.replicas = 4;
  job.spec.elastic = api::Elastic{.min_replicas = 2};
  CHECK(controller::Placer::left_out(job).empty());
  for (
      const char* spec :
      {R"({"topologySpreadConstraints":[{"maxSkew":1,"whenUnsatisfiable":"DoNotSchedule"}]})",
       R"({"affinity":{"podAntiAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":[{"topologyKey":"a"}]}}})",
       R"({"affinity":{"podAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":[{"topologyKey":"a"}]}}})",
       R"({"containers":[{"ports":[{"containerPort":1,"hostPort":29500}]}]})",
       R"({"hostNetwork":true,"containers":[{"ports":[{"containerPort":1}]}]})",
       R"({"resourceClaims":[{"name":"gpu"}]})", R"({"nodeName":"node-a"})"}) {
    job.spec.template_json = R"({"spec":)" + std::string(spec) + "}";
    CHECK_FALSE(controller::Placer::left_out(job).empty());
  }
  job.spec.template_json =
      R"({"spec":{"topologySpreadConstraints":[{"whenUnsatisfiable":"ScheduleAnyway"}],)"
      R"("affinity":{"podAntiAffinity":{"preferredDuringSchedulingIgnoredDuringExecution":[{}]}}}})";
  CHECK(controller::Placer::left_out(job).empty());
  job.meta.labels["kueue.x-k8s.io/queue-name"] = "team";
  CHECK_FALSE(controller::Placer::left_out(job).empty());
}
