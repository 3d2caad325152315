// Machines that are about to go: their workers leave them in time, and nothing is counted.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include "operator/core/failures.h"
#include "tests/unit/operator/world.h"

using namespace pawl;
using namespace pawl::test;
using std::chrono::seconds;

namespace {

// Each worker on a node of its own.
World spread(int replicas = 3) {
  World world = World::training(replicas);
  for (int slot = 0; slot < replicas; ++slot) world.pod(slot).node = "node-" + std::to_string(slot);
  return world;
}

void announce(World& world, const std::string& node, std::optional<seconds> left = std::nullopt) {
  core::NodeSignal& signal = (*world.signals)[node];
  signal = {.what = "taint going", .seen_at = world.now};
  if (left) signal.deadline = world.now + *left;
}

int how_often(const World& world, const std::string& event) {
  return static_cast<int>(std::ranges::count(world.events, event));
}

bool is_leaving(World& world, int slot) { return world.pod(slot).meta.deletion_time.has_value(); }

}  // namespace

TEST_CASE("interrupt: a worker leaves a machine that goes, and another pod takes its place",
          "[core][I36]") {
  World world = spread();
  world.is_kubelet_on = false;
  announce(world, "node-1", seconds{120});
  world.settle();
  CHECK_FALSE(is_leaving(world, 1));  // who else has to is known a moment later
  world.settle(seconds{1});
  REQUIRE(is_leaving(world, 1));
  CHECK_FALSE(is_leaving(world, 0));
  CHECK(how_often(world, "Interrupted") == 1);
  REQUIRE(world.job.status.excluded_nodes.size() == 1);
  CHECK(world.job.status.excluded_nodes[0].name == "node-1");
  CHECK(world.job.status.excluded_nodes[0].message == "taint going");
  CHECK(world.job.status.excluded_nodes[0].pods == std::vector<std::string>{"gpt-1-1-0"});
  CHECK(world.graces["gpt-1-1-0"] == std::nullopt);  // two minutes are more than it needs

  world.pods.erase("gpt-1-1-0");
  world.settle(seconds{5});
  CHECK(world.job.status.attempt == 1);
  CHECK(world.pod(1).meta.name == "gpt-1-1-1");
  const auto& failure = world.job.status.last_failure;
  REQUIRE(failure.has_value());
  CHECK(failure->cause == "Interrupted");
  CHECK(failure->node == "node-1");
  CHECK(failure->message == "taint going");
  CHECK(world.job.status.message.find("left a machine that goes: taint going") !=
        std::string::npos);
  CHECK(world.job.status.restarts.counted == 0);
  CHECK(world.job.status.restarts.free == 0);
  const int writes = world.status_writes;
  world.settle(seconds{5});
  CHECK(world.status_writes == writes);
  CHECK(world.broken.empty());
}

TEST_CASE("interrupt: no pod has longer than its machine", "[core][I36]") {
  World world = spread();
  world.is_kubelet_on = false;
  announce(world, "node-0", seconds{11});
  announce(world, "node-2", seconds{-5});
  world.settle(seconds{1});
  CHECK(world.graces["gpt-1-0-0"] == seconds{10});
  CHECK(world.graces["gpt-1-2-0"] == seconds{2});
}

TEST_CASE("interrupt: machines that go together are left together", "[core][I36]") {
  World world = spread(4);
  world.is_kubelet_on = false;
  announce(world, "node-1");
  world.now += std::chrono::milliseconds{600};
  announce(world, "node-3");
  world.settle();
  world.now += std::chrono::milliseconds{600};
  world.settle();
  CHECK_FALSE(is_leaving(world, 1));
  const int writes = world.status_writes;
  world.now += std::chrono::milliseconds{600};
  world.settle();
  CHECK(is_leaving(world, 1));
  CHECK(is_leaving(world, 3));
  CHECK(world.status_writes == writes + 1);
  CHECK(how_often(world, "Interrupted") == 1);
  // A storm does not put it off for ever.
  announce(world, "node-0");
  for (int i = 0; i < 4; ++i) {
    world.now += std::chrono::milliseconds{800};
    announce(world, "node-2");
    world.settle();
  }
  CHECK(is_leaving(world, 0));
}

TEST_CASE("interrupt: with all its machines gone a job begins again, free", "[core][I36]") {
  World world = spread(2);
  announce(world, "node-0");
  announce(world, "node-1");
  world.settle(seconds{2});
  world.finish_terminating();
  world.settle(seconds{10});
  CHECK(world.job.status.attempt == 2);
  CHECK(world.job.status.restarts.counted == 0);
  CHECK(world.job.status.restarts.by_cause.at("Interrupted") == 1);
  CHECK(world.job.status.excluded_nodes.size() == 2);
}

TEST_CASE("interrupt: who has ended is not told, nor who is being deleted", "[core][I36]") {
  World world = spread();
  world.is_kubelet_on = false;
  world.succeed(0);
  world.delete_pod(1);
  announce(world, "node-0");
  announce(world, "node-1");
  world.settle(seconds{5});
  CHECK(how_often(world, "Interrupted") == 0);
  CHECK_FALSE(is_leaving(world, 0));
  announce(world, "node-2");
  world.settle(seconds{5});
  CHECK(how_often(world, "Interrupted") == 1);
}

TEST_CASE("interrupt: a gang that ends by itself is not told to leave; its culprit is blamed",
          "[core][I36]") {
  World world = spread();
  world.is_kubelet_on = false;
  announce(world, "node-0");
  world.now += seconds{2};
  world.fail(2, 1);
  world.settle(seconds{20});
  CHECK(how_often(world, "Interrupted") == 0);
  CHECK(world.job.status.attempt == 2);
  CHECK(world.job.status.restarts.counted == 1);
}

TEST_CASE("interrupt: who had no other place works there until shortly before the end",
          "[core][I36]") {
  World world = spread();
  world.is_kubelet_on = false;
  announce(world, "node-1", seconds{300});
  world.settle(seconds{1});
  world.pods.erase("gpt-1-1-0");
  world.settle(seconds{5});
  REQUIRE(world.pod(1).meta.name == "gpt-1-1-1");
  world.pod(1).node = "node-1";
  world.pod(1).meta.creation_time = world.now;
  const int writes = world.status_writes;
  world.settle(seconds{200});
  CHECK_FALSE(is_leaving(world, 1));
  CHECK(world.status_writes <= writes + 1);
  world.settle(seconds{80});
  CHECK(is_leaving(world, 1));
  CHECK(how_often(world, "Interrupted") == 2);
}

TEST_CASE("interrupt: the next pod of a slot that had to leave again and again waits longer",
          "[core][I36]") {
  World world = spread();
  world.is_kubelet_on = false;
  std::vector<seconds> waits;
  for (int n = 0; n < 5; ++n) {
    api::PodView& pod = world.pod(1);
    pod.node = "node-1";
    pod.phase = api::PodPhase::kFailed;
    pod.exit_code = 86;
    pod.termination_message = R"({"pawl":2,"failure":{"cause":"Interrupted","pod":")" +
                              pod.meta.name + R"(","podUid":")" + pod.meta.uid +
                              R"(","node":"node-1","attempt":1}})";
    const TimePoint begin = world.now;
    const std::string next = "gpt-1-1-" + std::to_string(n + 1);
    while (!world.pods.contains(next) && world.now < begin + std::chrono::minutes{3})
      world.settle(seconds{1});
    waits.push_back(std::chrono::duration_cast<seconds>(world.now - begin));
  }
  CHECK(waits[1] >= seconds{9});
  CHECK(waits[3] >= 3 * waits[1]);
  CHECK(waits[4] <= seconds{70});
}

TEST_CASE("interrupt: a rule that excludes nodes goes before what only avoids them",
          "[core][I24][I36]") {
  World world = spread();
  world.set_spec([](auto& spec) {
    spec.failure_rules = {
        {.name = "gpu", .action = api::RuleAction::kReplaceNode, .exit_codes = {41}}};
  });
  world.is_kubelet_on = false;
  world.job.status.excluded_nodes = {{.name = "node-1",
                                      .cause = "Interrupted",
                                      .time = world.now,
                                      .until = world.now + seconds{900}}};
  for (int i = 1; i < 32; ++i) {
    world.job.status.excluded_nodes.push_back({.name = "other-" + std::to_string(i),
                                               .cause = "Interrupted",
                                               .time = world.now,
                                               .until = world.now + seconds{900}});
  }
  world.fail(1, 41);
  world.settle(seconds{5});
  CHECK(world.job.status.restarts.counted == 0);
  const auto& nodes = world.job.status.excluded_nodes;
  const auto found = std::ranges::find(nodes, "node-1", &api::ExcludedNode::name);
  REQUIRE(found != nodes.end());
  CHECK(found->cause == "Error");
  CHECK_FALSE(found->until.has_value());
}

TEST_CASE("interrupt: a node that is left once more is the last of those that are avoided",
          "[core][I36]") {
  World world = spread();
  for (const char* name : {"node-2", "node-9"}) {
    world.job.status.excluded_nodes.push_back({.name = name,
                                               .cause = "Interrupted",
                                               .time = world.now,
                                               .until = world.now + seconds{900}});
  }
  const std::string uid = world.pod(2).meta.uid;
  world.fail(2, 86);
  world.pod(2).termination_message =
      R"({"pawl":2,"failure":{"cause":"Interrupted","message":"AWS takes it back","pod":"gpt-1-2-0",)"
      R"("podUid":")" +
      uid + R"(","node":"node-2","rank":2,"attempt":1}})";
  world.is_kubelet_on = false;
  world.settle(seconds{2});
  const auto& nodes = world.job.status.excluded_nodes;
  REQUIRE(nodes.size() == 2);
  CHECK(nodes[0].name == "node-9");
  CHECK(nodes[1].pods == std::vector<std::string>{"gpt-1-2-0"});
}

TEST_CASE("interrupt: as long as nodes are not listed, nothing is forgotten", "[core][I36]") {
  World world = spread();
  world.is_kubelet_on = false;
  announce(world, "node-1");
  world.settle(seconds{1});
  world.pods.erase("gpt-1-1-0");
  world.settle(seconds{3});
  world.signals.reset();
  world.settle(seconds{2});
  CHECK(world.job.status.excluded_nodes.size() == 1);
  world.signals.emplace();
  world.settle(seconds{2});
  CHECK(world.job.status.excluded_nodes.empty());
}

TEST_CASE("interrupt: a launcher that heard of it leaves by itself, and is replaced elsewhere",
          "[core][I36]") {
  World world = spread();
  api::PodView& pod = world.pod(2);
  pod.phase = api::PodPhase::kFailed;
  pod.is_ready = false;
  pod.exit_code = 86;
  pod.termination_message =
      R"({"pawl":2,"failure":{"cause":"Interrupted","message":"AWS takes it back","pod":"gpt-1-2-0",)"
      R"("podUid":")" +
      pod.meta.uid + R"(","node":"node-2","rank":2,"attempt":1}})";
  world.is_kubelet_on = false;
  world.settle(seconds{2});
  CHECK(world.job.status.attempt == 1);
  CHECK(world.pod(2).meta.name == "gpt-1-2-1");
  CHECK(world.job.status.last_failure->cause == "Interrupted");
  REQUIRE(world.job.status.excluded_nodes.size() == 1);
  CHECK(world.job.status.excluded_nodes[0].name == "node-2");
  CHECK(world.job.status.excluded_nodes[0].message == "AWS takes it back");
  CHECK(world.job.status.excluded_nodes[0].until.has_value());  // no node says when it is over
  world.settle(seconds{60});
  CHECK(world.job.status.excluded_nodes.size() == 1);
  world.settle(seconds{660});
  CHECK(world.job.status.excluded_nodes.empty());
  CHECK(world.job.status.restarts.counted == 0);
  CHECK(world.broken.empty());
}

TEST_CASE(
    "interrupt: who is told by its cloud, and deleted or killed on the way, is replaced all the "
    "same",
    "[core][I36]") {
  World world = spread();
  world.is_kubelet_on = false;
  const int code = GENERATE(86, 137, 75);
  api::PodView& pod = world.pod(2);
  SECTION("by itself") {}
  SECTION("while it is being deleted") { world.delete_pod(2); }
  SECTION("while it is evicted") {
    pod.has_disruption_target = true;
    pod.disruption_reason = "EvictionByEvictionAPI";
  }
  SECTION("while its node shuts down") { pod.reason = "NodeShutdown"; }
  pod.phase = api::PodPhase::kFailed;
  pod.is_ready = false;
  pod.exit_code = code;
  pod.termination_message =
      R"({"pawl":2,"failure":{"cause":"Interrupted","message":"AWS takes it back","pod":"gpt-1-2-0",)"
      R"("podUid":")" +
      pod.meta.uid + R"(","node":"node-2","rank":2,"attempt":1}})";
  world.settle(seconds{3});
  CHECK(world.job.status.last_failure->cause == "Interrupted");
  CHECK(world.job.status.restarts.counted == 0);
  REQUIRE(world.job.status.excluded_nodes.size() == 1);
  CHECK(world.job.status.excluded_nodes[0].name == "node-2");
  // By 75 its launcher says that the gang ends.
  CHECK(world.job.status.attempt == (code == 75 ? 2 : 1));
}

TEST_CASE("interrupt: a node is avoided until the loss of those it was left by is told",
          "[core][I36]") {
  World world = spread();
  world.is_kubelet_on = false;
  announce(world, "node-1");
  world.settle(seconds{1});
  REQUIRE(is_leaving(world, 1));
  world.signals->clear();  // with the node's object
  world.settle(seconds{1});
  CHECK(world.job.status.excluded_nodes.size() == 1);
  world.pods.erase("gpt-1-1-0");
  world.settle(seconds{3});
  CHECK(world.job.status.last_failure->cause == "Interrupted");
  world.settle(seconds{3});
  CHECK(world.job.status.excluded_nodes.empty());
}

TEST_CASE("interrupt: a machine that stays is used again", "[core][I36]") {
  World world = spread();
  world.is_kubelet_on = false;
  announce(world, "node-1");
  world.settle(seconds{1});
  REQUIRE(world.job.status.excluded_nodes.size() == 1);
  world.pods.erase("gpt-1-1-0");
  world.signals->clear();
  world.settle(seconds{5});
  CHECK(world.pod(1).meta.name == "gpt-1-1-1");
  CHECK(world.job.status.excluded_nodes.empty());
}

TEST_CASE("interrupt: a job that stops is not told to leave as well", "[core][I36]") {
  World world = spread();
  world.is_kubelet_on = false;
  world.set_suspended(true);
  world.settle();
  announce(world, "node-1");
  world.settle(seconds{5});
  CHECK(how_often(world, "Interrupted") == 0);
}
