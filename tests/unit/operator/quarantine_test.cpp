// Machines whose GPUs fail, or which others do not reach: their workers go elsewhere, nothing is
// counted, and the machine is avoided for a while that doubles.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include "common/api/codec.h"
#include "common/api/contract.h"
#include "operator/core/failures.h"
#include "tests/unit/operator/world.h"

using namespace pawl;
using namespace pawl::test;
using std::chrono::seconds;

namespace {

const char* const kLost = "GPU 3 fell off the bus (XID 79)";

// Each worker on a node of its own; the kubelet puts those that follow on node-a.
World on_own_nodes(int replicas = 3) {
  World world = World::training(replicas);
  for (int slot = 0; slot < replicas; ++slot) world.pod(slot).node = "node-" + std::to_string(slot);
  return world;
}

// As its launcher says it: 86 leaves a gang that goes on, 75 one that ends.
void break_gpu(World& world, int slot, int exit_code = api::kExitDrained) {
  api::PodView& pod = world.pod(slot);
  pod.phase = api::PodPhase::kFailed;
  pod.is_ready = false;
  pod.exit_code = exit_code;
  pod.termination_message = api::encode_termination({.rank = slot,
                                                     .pod = pod.meta.name,
                                                     .node = pod.node,
                                                     .pod_uid = pod.meta.uid,
                                                     .cause = "GpuFault",
                                                     .message = kLost,
                                                     .attempt = world.job.status.attempt});
}

const api::ExcludedNode* excluded(const World& world, const std::string& node) {
  const auto& nodes = world.job.status.excluded_nodes;
  const auto found = std::ranges::find(nodes, node, &api::ExcludedNode::name);
  return found == nodes.end() ? nullptr : &*found;
}

int count_of(const World& world, const std::string& event) {
  return static_cast<int>(std::ranges::count(world.events, event));
}

seconds time_left(const World& world, const std::string& node) {
  const api::ExcludedNode* found = excluded(world, node);
  REQUIRE(found != nullptr);
  REQUIRE(found->until.has_value());
  REQUIRE(found->time.has_value());
  return std::chrono::duration_cast<seconds>(*found->until - *found->time);
}

api::FailureRule rule_for_faults(api::RuleAction action) {
  return {.name = "gpu", .action = action, .causes = {"GpuFault"}};
}

}  // namespace

TEST_CASE("quarantine: a worker whose GPU fails is replaced, and its node is avoided",
          "[core][I40][G2]") {
  World world = on_own_nodes();
  break_gpu(world, 1);
  world.settle();
  CHECK(world.job.status.attempt == 1);
  CHECK(world.pod(1).meta.name == "gpt-1-1-1");
  CHECK(world.job.status.restarts == api::Restarts{});
  const auto& failure = world.job.status.last_failure;
  REQUIRE(failure.has_value());
  CHECK(failure->cause == "GpuFault");
  CHECK(failure->node == "node-1");
  CHECK(failure->message == kLost);
  CHECK(core::sentence(*failure) ==
        "rank 1 (pod gpt-1-1-0 on node node-1) has a broken GPU: " + std::string(kLost));
  const api::ExcludedNode* node = excluded(world, "node-1");
  REQUIRE(node != nullptr);
  CHECK(node->cause == "GpuFault");
  CHECK(node->message == kLost);
  CHECK(node->pods == std::vector<std::string>{"gpt-1-1-0"});
  CHECK(time_left(world, "node-1") == seconds{60});
  CHECK(count_of(world, "NodeQuarantined") == 1);
  CHECK(count_of(world, "MemberReplaced") == 1);
  // It stands there when its time is over, for the next time, and costs no write.
  world.commit_next(10);
  world.settle();
  CHECK(world.condition("Running") == "True");
  const int writes = world.status_writes;
  world.settle(seconds{600});
  CHECK(world.status_writes == writes);
  CHECK(excluded(world, "node-1") != nullptr);
  CHECK(world.broken.empty());
}

TEST_CASE("quarantine: it doubles with each fault, has an end, and begins anew after a good time",
          "[core][I40]") {
  World world = on_own_nodes();
  for (const int expected : {60, 120, 240, 480, 960, 1'920, 3'600, 3'600}) {
    INFO(expected);
    world.pod(1).node = "node-1";
    break_gpu(world, 1);
    world.settle(seconds{90});
    CHECK(time_left(world, "node-1") == seconds{expected});
    world.commit_next(10);
    world.settle(seconds{expected});
  }
  CHECK(world.job.status.attempt == 1);
  CHECK(world.job.status.restarts == api::Restarts{});
  world.settle(seconds{3'700});
  world.pod(1).node = "node-1";
  break_gpu(world, 1);
  world.settle(seconds{90});
  CHECK(time_left(world, "node-1") == seconds{60});
  CHECK(excluded(world, "node-1")->pods.size() == 1);
  CHECK(world.broken.empty());
}

TEST_CASE("quarantine: where the gang ends the restart is free, whoever else ends beside it",
          "[core][I40]") {
  World world = on_own_nodes();
  break_gpu(world, 1, api::kExitRetry);
  for (const int slot : {0, 2}) {
    api::PodView& pod = world.pod(slot);
    pod.phase = api::PodPhase::kFailed;
    pod.exit_code = slot == 0 ? api::kExitRetry : 1;  // one of them crashed with it
  }
  world.settle(seconds{60});
  CHECK(world.text().starts_with("Running attempt 2 counted 0 free 1"));
  CHECK(world.job.status.restarts.by_cause == std::map<std::string, int>{{"GpuFault", 1}});
  CHECK(world.job.status.last_failure->pod == "gpt-1-1-0");
  CHECK(time_left(world, "node-1") == seconds{60});
}

TEST_CASE("quarantine: a worker that is not let in spends nothing either", "[core][I40]") {
  World world(2);
  world.settle();
  world.pod(1).node = "node-1";
  break_gpu(world, 1);
  world.settle(seconds{60});
  CHECK(world.job.status.attempt == 2);
  CHECK(world.job.status.restarts.counted == 0);
  CHECK(world.job.status.restarts.free == 1);
  CHECK(excluded(world, "node-1") != nullptr);
  CHECK(world.live_pods() == 2);
}

TEST_CASE("quarantine: several machines that break at once are all avoided", "[core][I40]") {
  World world = on_own_nodes();
  break_gpu(world, 1);
  break_gpu(world, 2);
  world.settle();
  CHECK(world.job.status.attempt == 1);
  CHECK(excluded(world, "node-1") != nullptr);
  CHECK(excluded(world, "node-2") != nullptr);
  CHECK(count_of(world, "NodeQuarantined") == 2);
  CHECK(world.pod(1).meta.name == "gpt-1-1-1");
  CHECK(world.pod(2).meta.name == "gpt-1-2-1");
}

TEST_CASE("quarantine: one that says so when its attempt has ended is avoided, too",
          "[core][I40]") {
  World world(3);
  world.settle();
  for (int slot = 0; slot < 3; ++slot) world.pod(slot).node = "node-" + std::to_string(slot);
  break_gpu(world, 1);
  world.is_kubelet_on = false;  // the others take their time
  world.settle(seconds{3});
  REQUIRE(world.job.status.attempt == 2);
  CHECK(excluded(world, "node-2") == nullptr);
  const api::TrainingJobStatus before = world.job.status;
  api::PodView& late = world.pods.at("gpt-1-2-0");
  late.phase = api::PodPhase::kFailed;
  late.exit_code = api::kExitDrained;
  late.termination_message =
      api::encode_termination({.pod = late.meta.name, .cause = "GpuFault", .message = kLost});
  world.settle();
  CHECK(excluded(world, "node-2") != nullptr);
  CHECK(count_of(world, "NodeQuarantined") == 2);
  CHECK(world.job.status.restarts == before.restarts);
  CHECK(world.job.status.last_failure == before.last_failure);
}

TEST_CASE("quarantine: the next attempt does not wait because those before did not run",
          "[core][I40]") {
  World world(2);
  world.settle(seconds{40});
  world.pod(1).node = "node-1";
  break_gpu(world, 1);
  world.settle(seconds{3});
  CHECK(world.job.status.attempt == 2);
  CHECK(world.live_pods() == 2);
}

TEST_CASE("quarantine: an attempt does not end before the others could tell of their GPUs",
          "[core][I40]") {
  World world(3);
  world.settle();
  for (int slot = 0; slot < 3; ++slot) world.pod(slot).node = "node-" + std::to_string(slot);
  break_gpu(world, 1);
  world.settle(seconds{1});
  CHECK(world.job.status.attempt == 1);
  CHECK(excluded(world, "node-1") != nullptr);
  CHECK(world.job.status.last_failure->cause == "GpuFault");
  break_gpu(world, 2);
  world.settle(seconds{2});
  CHECK(world.job.status.attempt == 2);
  CHECK(excluded(world, "node-2") != nullptr);
  CHECK(count_of(world, "NodeQuarantined") == 2);
  CHECK(world.job.status.restarts.by_cause == std::map<std::string, int>{{"GpuFault", 1}});
}

TEST_CASE("quarantine: a victim that was noted before shortens nobody's wait", "[core][I40]") {
  World world(3);
  world.settle();
  for (int slot = 0; slot < 3; ++slot) world.pod(slot).node = "node-" + std::to_string(slot);
  world.fail(0, api::kExitRetry, "Victim");
  world.settle(seconds{3});
  REQUIRE(world.job.status.attempt == 1);
  break_gpu(world, 1);
  world.settle(seconds{1});
  CHECK(world.job.status.attempt == 1);
  CHECK(world.job.status.last_failure->cause == "GpuFault");
  break_gpu(world, 2);
  world.settle(seconds{2});
  CHECK(world.job.status.attempt == 2);
  CHECK(excluded(world, "node-2") != nullptr);
}

TEST_CASE("quarantine: a gang that ends lets nobody leave for another reason", "[core][I36][I40]") {
  World world = on_own_nodes();
  world.is_kubelet_on = false;
  world.pod(1).meta.deletion_time = world.now + seconds{30};
  (*world.signals)["node-2"] = {.what = "taint going", .seen_at = world.now};
  break_gpu(world, 0, api::kExitRetry);
  world.settle(seconds{5});
  CHECK_FALSE(world.pod(2).meta.deletion_time.has_value());
  CHECK(excluded(world, "node-0") != nullptr);
}

TEST_CASE("quarantine: others are waited for no longer where no UID is on record yet",
          "[core][I40]") {
  World world(2);
  world.settle();
  for (api::EligiblePod& pod : world.group->spec.pods) pod.uid.clear();
  world.is_kubelet_on = false;
  world.pod(1).node = "node-1";
  break_gpu(world, 1);
  world.settle(seconds{3});
  CHECK(world.job.status.attempt == 2);
  CHECK(world.job.status.restarts.free == 1);
}

TEST_CASE("quarantine: nobody is waited for where all have ended", "[core][I40]") {
  World world(2);
  world.settle();
  world.is_kubelet_on = false;
  for (int slot = 0; slot < 2; ++slot) {
    world.pod(slot).node = "node-" + std::to_string(slot);
    break_gpu(world, slot);
  }
  world.settle(seconds{1});
  CHECK(world.job.status.attempt == 2);
}

TEST_CASE("quarantine: with no other node the next pods wait longer each time", "[core][I40]") {
  World world = on_own_nodes();
  break_gpu(world, 1);
  world.settle();
  int created = world.pods_created;
  world.pod(1).node = "node-1";  // the only one
  break_gpu(world, 1);
  world.settle(seconds{4});
  CHECK(world.pods_created == created);
  world.settle(seconds{2});
  CHECK(world.pods_created == created + 1);
  world.pod(1).node = "node-1";
  break_gpu(world, 1);
  world.settle(seconds{9});
  CHECK(world.pods_created == created + 1);
  world.settle(seconds{2});
  CHECK(world.pods_created == created + 2);
}

TEST_CASE("quarantine: rules may want something else", "[core][I40][I23]") {
  World world = on_own_nodes();
  SECTION("the end") {
    world.set_spec(
        [](auto& spec) { spec.failure_rules = {rule_for_faults(api::RuleAction::kFail)}; });
    break_gpu(world, 1);
    world.settle(seconds{60});
    CHECK(world.job.status.phase == "Failed");
    CHECK(world.job.status.reason == "FailureRule");
  }
  SECTION("another node for the rest of the run") {
    world.set_spec(
        [](auto& spec) { spec.failure_rules = {rule_for_faults(api::RuleAction::kReplaceNode)}; });
    break_gpu(world, 1);
    world.settle(seconds{60});
    CHECK(world.job.status.restarts.counted == 0);
    REQUIRE(excluded(world, "node-1") != nullptr);
    CHECK_FALSE(excluded(world, "node-1")->until.has_value());
  }
  SECTION("that it counts") {
    world.set_spec(
        [](auto& spec) { spec.failure_rules = {rule_for_faults(api::RuleAction::kRestart)}; });
    break_gpu(world, 1);
    world.settle(seconds{60});
    CHECK(world.job.status.restarts.counted == 1);
    CHECK(time_left(world, "node-1") == seconds{60});
  }
  SECTION("something of the exit code, which is not the program's") {
    world.set_spec([](auto& spec) {
      spec.failure_rules = {
          {.name = "code", .action = api::RuleAction::kFail, .exit_codes = {75, 86}}};
    });
    break_gpu(world, 1);
    world.settle(seconds{60});
    CHECK(world.job.status.attempt == 1);
  }
}

TEST_CASE("quarantine: a full list forgets who is only avoided first, a resume forgets all",
          "[core][I40][I20]") {
  World world = on_own_nodes();
  world.job.status.excluded_nodes.push_back(
      {.name = "old", .cause = "GpuFault", .time = world.now, .until = world.now + seconds{60}});
  for (int i = 1; i < api::kExcludedNodesMax; ++i)
    world.job.status.excluded_nodes.push_back({"n" + std::to_string(i), "Error", world.now});
  break_gpu(world, 1);
  world.settle();
  CHECK(world.job.status.excluded_nodes.size() == std::size_t{api::kExcludedNodesMax});
  CHECK(excluded(world, "old") == nullptr);
  CHECK(excluded(world, "node-1") != nullptr);
  // Nothing can make room for another one: the worker is replaced all the same.
  world.job.status.excluded_nodes.back() = {"last", "Error", world.now};
  world.pod(2).node = "node-2";
  break_gpu(world, 2);
  world.settle();
  CHECK(excluded(world, "node-2") == nullptr);
  CHECK(world.pod(2).meta.name == "gpt-1-2-1");
  world.set_suspended(true);
  world.settle(seconds{120});
  world.set_suspended(false);
  world.settle(seconds{10});
  CHECK(world.job.status.excluded_nodes.empty());
}

TEST_CASE("quarantine: a node that also goes is told to go", "[core][I40][I36]") {
  World world = on_own_nodes();
  break_gpu(world, 1);
  world.settle();
  world.pod(1).node = "node-1";
  (*world.signals)["node-1"] = {.what = "taint going", .seen_at = world.now};
  world.pod(1).meta.creation_time = world.now - seconds{1};
  world.settle(seconds{10});
  const api::ExcludedNode* node = excluded(world, "node-1");
  REQUIRE(node != nullptr);
  CHECK(node->cause == "Interrupted");
  CHECK(world.pod(1).meta.name == "gpt-1-1-2");
  CHECK(world.broken.empty());
}

TEST_CASE("quarantine: the machine of one that another does not reach is avoided", "[core][I40]") {
  World world = on_own_nodes();
  world.lose_touch(1);
  api::Failure& told = world.group->status.failures.back();
  told.cause = "Unreached";
  told.node = "node-1";
  told.message = "its processes and those of gpt-1-2-0 do not reach each other";
  world.settle(seconds{60});
  CHECK(world.pod(1).meta.name == "gpt-1-1-1");
  CHECK(world.job.status.restarts == api::Restarts{});
  const auto& failure = world.job.status.last_failure;
  REQUIRE(failure.has_value());
  CHECK(failure->cause == "Unreached");
  CHECK(core::sentence(*failure) ==
        "rank 1 (pod gpt-1-1-0 on node node-1) made room for another: its processes and those of "
        "gpt-1-2-0 do not reach each other");
  CHECK(time_left(world, "node-1") == seconds{60});
  CHECK(count_of(world, "NodeQuarantined") == 1);
}

TEST_CASE("quarantine: the next pod of a worker that fell silent goes elsewhere",
          "[core][I33][I40]") {
  World world = World::training();
  world.pod(2).node = "node-c";
  world.lose_touch(2);
  world.group->status.failures.back().node = "node-c";
  world.settle(seconds{6});
  REQUIRE(world.pod(2).meta.name == "gpt-1-2-1");
  REQUIRE(world.job.status.excluded_nodes.size() == 1);
  CHECK(world.job.status.excluded_nodes[0].name == "node-c");
  CHECK(world.job.status.excluded_nodes[0].cause == "NodeLost");
  CHECK(world.job.status.excluded_nodes[0].until.has_value());
}
