// Gangs that the nodes will never hold, however much ends: told at once, and asked again when nodes
// come or become others.
#include <catch2/catch_test_macros.hpp>

#include "tests/unit/operator/placed_world.h"

using namespace pawl;
using namespace pawl::test;
using nlohmann::json;
using std::chrono::seconds;

namespace {

// Two machines with 8 GPUs each.
struct Small : PlacedWorld {
  Small() : PlacedWorld({"node-a", "node-b"}) { cluster.settle(seconds{1}); }
  void want(int replicas, int gpus, const json& scheduling = {}) {
    cluster.create_job("train", replicas, "Custom", gpus, scheduling);
    cluster.settle(seconds{5});
  }
  std::string reason() { return PlacedWorld::reason("train"); }
  bool has_pods() { return !cluster.all(kube::resources::kPods).empty(); }
  void edit(const char* machine, const std::function<void(placement::Host&)>& change) {
    cluster.edit_machine(machine, change);
    cluster.settle(seconds{5});
  }
};

constexpr char kNeverFits[] = "NeverFits";

}  // namespace

TEST_CASE("hopeless: who is larger than the cluster is told at once, and how much larger",
          "[controller][I48][F3]") {
  Small world;
  world.want(5, 4);
  CHECK(world.phase("train") == "Stalled");
  CHECK(world.reason() == kNeverFits);
  CHECK(world.message("train") ==
        "this cluster will never hold 5 workers of nvidia.com/gpu 4 each: with nothing else on the "
        "2 nodes that it may use, 4 would fit; lower spec.replicas or what a worker asks for, or "
        "add nodes");
  CHECK_FALSE(world.has_pods());
  const int writes = world.cluster.writes;
  world.cluster.settle(seconds{600});
  CHECK(world.cluster.writes == writes);
}

TEST_CASE("hopeless: a node that comes or grows, or another spec, is tried at once",
          "[controller][I48]") {
  Small world;
  world.want(5, 4);
  REQUIRE(world.reason() == kNeverFits);
  SECTION("a node comes") { world.cluster.set_machine("node-c", 4); }
  SECTION("a node grows") { world.cluster.set_machine("node-b", 12); }
  SECTION("a smaller gang") { world.cluster.patch_job("train", {{"spec", {{"replicas", 4}}}}); }
  world.cluster.settle(seconds{30});
  CHECK(world.phase("train") == "Running");
}

TEST_CASE("hopeless: with more nodes that are taken it waits, and is Stalled no more",
          "[controller][I48]") {
  Small world;
  world.want(5, 4);
  world.cluster.take("node-c", 8);
  world.cluster.set_machine("node-c", 8);
  world.cluster.settle(seconds{5});
  CHECK(world.reason() == "WaitingForRoom");
  CHECK(world.phase("train") == "Starting");
  // And the numbers are those of now.
  world.cluster.patch_job("train", {{"spec", {{"replicas", 9}}}});
  world.cluster.settle(seconds{5});
  CHECK(world.message("train").find("6 would fit") != std::string::npos);
  world.cluster.set_machine("node-d", 8);
  world.cluster.settle(seconds{60});
  CHECK(world.message("train").find("8 would fit") != std::string::npos);
}

TEST_CASE("hopeless: a worker that is larger than any node", "[controller][I48]") {
  Small world;
  world.want(1, 16);
  CHECK(world.reason() == kNeverFits);
  CHECK(world.message("train") ==
        "no node of this cluster is large enough for a worker, which asks for nvidia.com/gpu 16: "
        "of each of these the most that one of 2 nodes has for it is nvidia.com/gpu 8; ask for "
        "less, or add larger nodes");
}

TEST_CASE("hopeless: nodes that the template does not allow do not count", "[controller][I48]") {
  Small world;
  world.edit("node-a", [](auto& host) { host.taints = {{"team", "a", "NoSchedule"}}; });
  SECTION("some") {
    world.want(3, 4);
    CHECK(world.reason() == kNeverFits);
    CHECK(world.message("train").find("on the 1 node that it may use, 2 would fit") !=
          std::string::npos);
  }
  SECTION("all") {
    world.edit("node-b", [](auto& host) { host.taints = {{"team", "b", "NoExecute"}}; });
    world.want(1, 4);
    CHECK(world.reason() == kNeverFits);
    CHECK(world.message("train") ==
          "its workers may be on none of the 2 nodes of this cluster: change what the template "
          "demands of nodes (nodeSelector, affinity, tolerations), or add nodes that it allows");
  }
  world.edit("node-a", [](auto& host) { host.taints.clear(); });
  world.cluster.settle(seconds{30});
  CHECK(world.phase("train") == "Running");
}

TEST_CASE("hopeless: what no domain of the required level holds", "[controller][I48][F6]") {
  Small world;
  world.cluster.options.placement = placement::Levels::parse("rack=example.com/rack").value();
  world.cluster.start_operator();
  world.cluster.set_machine("node-a", 8, "one");
  world.cluster.set_machine("node-b", 8, "two");
  world.want(3, 4, {{"topology", {{{"level", "rack"}}}}});
  CHECK(world.reason() == kNeverFits);
  CHECK(world.message("train") ==
        "no rack will ever hold 3 workers of nvidia.com/gpu 4 each: with nothing else on the 2 "
        "nodes that it may use, rack one would hold 2, and no other more; lower spec.replicas or "
        "what a worker asks for, require a wider level, or add nodes");
  world.edit("node-a", [](auto& host) { host.labels["example.com/rack"] = "two"; });
  world.cluster.settle(seconds{30});
  CHECK(world.phase("train") == "Running");
}

TEST_CASE("hopeless: what may go, or come back, is no reason", "[controller][I48]") {
  Small world;
  SECTION("pods that only somebody ends") {
    world.cluster.take("node-a", 8, true);
    world.cluster.take("node-b", 8, true);
  }
  SECTION("every node is cordoned, and not ready") {
    for (const char* name : {"node-a", "node-b"}) {
      world.edit(name, [](auto& host) {
        host.is_ready = false;
        host.taints = {{"node.kubernetes.io/unschedulable", "", "NoSchedule"},
                       {"node.kubernetes.io/unreachable", "", "NoExecute"}};
      });
    }
  }
  SECTION("a kubelet that starts anew has no devices for a while") {
    for (const char* name : {"node-a", "node-b"})
      world.edit(name, [](auto& host) { host.allocatable["nvidia.com/gpu"] = 0; });
  }
  world.want(4, 4);
  CHECK(world.reason() == "WaitingForRoom");
}

TEST_CASE("hopeless: nobody is, as long as no node has been seen", "[controller][I48]") {
  PlacedWorld world({});
  world.cluster.create_job("train", 2, "Custom", 4);
  world.cluster.settle(seconds{30});
  CHECK(world.reason("train") == "WaitingForRoom");
  world.cluster.set_machine("node-a", 4);
  world.cluster.settle(seconds{40});
  CHECK(world.reason("train") == kNeverFits);
}

TEST_CASE("hopeless: an elastic job that may begin smaller is not", "[controller][I48][I35]") {
  Small world;
  const json elastic = {{"minReplicas", 4}, {"shortageSeconds", 20}, {"onShortage", "Shrink"}};
  world.cluster.create_job("train", 6, "Native", 4);
  world.cluster.patch_job("train", {{"spec", {{"elastic", elastic}}}});
  world.cluster.settle(seconds{10});
  CHECK(world.reason() == "WaitingForRoom");
  world.cluster.settle(seconds{60});
  CHECK(world.reason() != kNeverFits);
  CHECK(world.cluster.all(kube::resources::kPods).size() == 4);
}

TEST_CASE("hopeless: a gang that has begun, and lacks a worker, is not", "[controller][I48][I33]") {
  Small world;
  world.cluster.create_job("train", 2, "Native", 8);
  world.cluster.settle(seconds{30});
  REQUIRE(world.phase("train") == "Running");
  world.cluster.commit_generation("train");
  world.cluster.set_machine("node-b", 0);
  world.cluster.delete_pod("train-1-1-0");
  world.cluster.settle(seconds{60});
  CHECK(world.phase("train") != "Stalled");
  CHECK(status_of(world.cluster, "train")["attempt"] == 1);
}

TEST_CASE("hopeless: it holds up nobody, not in a FIFO queue either", "[controller][I48][I44]") {
  Small world;
  world.cluster.set_queue("team", 1000, true);
  world.want(5, 4, {{"queueName", "team"}});
  REQUIRE(world.reason() == kNeverFits);
  world.cluster.create_job("next", 4, "Custom", 4, {{"queueName", "team"}});
  world.cluster.settle(seconds{30});
  CHECK(world.phase("next") == "Running");
}

TEST_CASE("hopeless: another operator says the same, and writes nothing",
          "[controller][I48][I15]") {
  Small world;
  world.want(5, 4);
  const int writes = world.cluster.writes;
  world.cluster.start_operator();
  world.cluster.settle(seconds{60});
  CHECK(world.reason() == kNeverFits);
  CHECK(world.cluster.writes == writes);
}
