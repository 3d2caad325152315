// Programs of other frameworks that say more to their launcher than their exit code, or are told
// more than their rank: what comes of it.
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <chrono>
#include <csignal>

#include "common/api/contract.h"
#include "gang_world.h"

using namespace pawl;
using namespace pawl::membership;
using namespace pawl::membership::test;
using namespace std::chrono_literals;
namespace channel = pawl::api::channel;

namespace {

GangWorld two_scripts() {
  GangWorld world({.launchers = 2, .runtime = api::RuntimeKind::kTorch, .has_checkpoints = false});
  world.run_to_training();
  return world;
}

}  // namespace

TEST_CASE("foreign: checkpointNow reaches the programs that speak the channel, once",
          "[launcher]") {
  GangWorld world = two_scripts();
  world.say(0, channel::Hello{});
  CHECK(world.welcome(0).world_size == 2);
  world.edit_spec([](api::WorkerGroupSpec& spec) { spec.checkpoint_now = 1; });
  world.settle();
  CHECK(world.told<channel::CheckpointNow>(0) != nullptr);
  CHECK(world.node(1).told.empty());
  world.nodes[0].told.clear();
  world.exit_process(1, 128 + SIGKILL, SIGKILL);
  world.obey_stops(api::kExitRetry);
  world.pass(200ms);
  REQUIRE(world.status().generation == 2);
  world.say(0, channel::Hello{});  // it begins with the newest that was saved
  world.pass(1s);
  CHECK(world.told<channel::CheckpointNow>(0) == nullptr);
}

TEST_CASE("foreign: one that says where it is, and hangs, is named, and all are started again",
          "[launcher]") {
  GangWorld world = two_scripts();
  const ProcessPulse pulse{.beats = 9, .phase = api::Phase::kForward, .step = 7, .usual = 20ms};
  for (int i = 0; i < 60 && world.node(1).kills == 0; ++i) {
    world.give(1, Tick{{pulse}});
    world.pass(100ms);
  }
  REQUIRE(world.node(1).kills == 1);
  world.exit_process(1, 128 + SIGKILL, SIGKILL);
  world.obey_stops(128 + SIGTERM);
  world.pass(200ms);
  CHECK(world.status().generation == 2);
  REQUIRE(world.status().failures.size() == 1);
  CHECK(world.status().failures[0].cause == "Hang");
  CHECK(world.status().failures[0].message.find("in phase forward of step 7") != std::string::npos);
}

TEST_CASE("foreign: TensorFlow's processes are told of each other", "[launcher]") {
  GangWorld world({.launchers = 2, .processes = 2, .runtime = api::RuntimeKind::kTensorFlow});
  world.run_to_training();
  REQUIRE(world.node(1).placement.has_value());
  CHECK(world.node(1).placement->addresses ==
        std::vector<std::string>{"10.0.0.0:29500", "10.0.0.0:29501", "10.0.0.1:29500",
                                 "10.0.0.1:29501"});
}

TEST_CASE(
    "foreign: MPI's and Ray's programs are told where the others listen, and what only they know",
    "[launcher]") {
  const auto runtime = GENERATE(api::RuntimeKind::kMpi, api::RuntimeKind::kRay);
  GangWorld world({.launchers = 2, .processes = 1, .runtime = runtime});
  world.run_to_training();
  REQUIRE(world.node(0).placement.has_value());
  REQUIRE(world.node(1).placement.has_value());
  CHECK(world.node(0).placement->addresses ==
        std::vector<std::string>{"10.0.0.0:29500", "10.0.0.1:29500"});
  CHECK_FALSE(world.node(0).placement->key.empty());
  CHECK(world.node(0).placement->key == world.node(1).placement->key);
}

TEST_CASE("foreign: parameter servers are not waited for, and end well with the others",
          "[launcher]") {
  GangWorld world({.launchers = 3,
                   .runtime = api::RuntimeKind::kTensorFlow,
                   .has_checkpoints = false,
                   .parameter_servers = 1});
  world.run_to_training();
  world.exit_process(1, 0);
  world.pass(200ms);
  CHECK_FALSE(world.status().is_finished);
  world.exit_process(0, 0);
  world.pass(200ms);
  CHECK(world.status().is_finished);
  CHECK(world.node(2).was_stopped);
  world.obey_stops(128 + SIGTERM);
  world.pass(200ms);
  for (std::size_t i = 0; i < 3; ++i) CHECK(world.node(i).exit_code == api::kExitDone);
}

TEST_CASE("foreign: a gang that ends with every loss blames no victim either", "[launcher][I37]") {
  GangWorld world = two_scripts();
  world.edit_spec(
      [](api::WorkerGroupSpec& spec) { spec.is_in_place = spec.has_successors = false; });
  SECTION("a machine is silent, and its peer's program fails before that is seen") {
    world.nodes[1].is_frozen = true;
    world.exit_process(0, 128 + SIGABRT, SIGABRT);
    world.obey_stops(128 + SIGTERM);
    world.pass(15s);
    REQUIRE(world.status().failures.size() == 1);
    CHECK(world.status().failures[0].pod == "pod-1");
    CHECK(api::is_silence(world.status().failures[0]));
    CHECK(world.node(0).exit_code == api::kExitRetry);
    REQUIRE(world.node(0).terminations.size() == 1);
    CHECK(world.node(0).terminations[0].cause == "Victim");
  }
  SECTION("the leader's machine is silent") {
    world.nodes[0].is_frozen = true;
    world.exit_process(1, 1);
    world.obey_stops(128 + SIGTERM);
    world.pass(15s);
    CHECK(world.status().failures.empty());
    CHECK(world.node(1).exit_code == api::kExitRetry);
    REQUIRE(world.node(1).terminations.size() == 1);
    CHECK(world.node(1).terminations[0].cause == "Victim");
  }
  SECTION("a peer was killed") {
    world.exit_process(0, 1);
    world.exit_process(1, 128 + SIGKILL, SIGKILL);
    world.obey_stops(128 + SIGTERM);
    world.pass(15s);
    REQUIRE(world.status().failures.size() == 1);
    CHECK(world.status().failures[0].pod == "pod-1");
    CHECK(world.node(0).exit_code == api::kExitRetry);
  }
  SECTION("nothing else happened") {
    world.exit_process(0, 3);
    world.obey_stops(128 + SIGTERM);
    world.pass(500ms);
    CHECK_FALSE(world.node(0).exit_code.has_value());  // a loss may yet be heard of
    world.pass(15s);
    REQUIRE(world.status().failures.size() == 1);
    CHECK(world.status().failures[0].exit_code == 3);
    CHECK(world.node(0).exit_code == 3);
    CHECK(world.node(1).exit_code == api::kExitRetry);
  }
  SECTION("exit 75 alone blames nobody") {
    world.exit_process(0, api::kExitRetry);
    world.obey_stops(128 + SIGTERM);
    world.pass(15s);
    CHECK(world.node(0).exit_code == api::kExitRetry);
    CHECK(world.node(1).exit_code == api::kExitRetry);
  }
  CHECK(world.status().generation == 1);
}

TEST_CASE("foreign: in a gang that ends because one is taken away, its peers fail for that alone",
          "[launcher][I37]") {
  GangWorld world = two_scripts();
  world.edit_spec(
      [](api::WorkerGroupSpec& spec) { spec.is_in_place = spec.has_successors = false; });
  world.give(1, TerminationAsked{});  // its pod is deleted
  world.pass(100ms);
  REQUIRE(world.node(0).was_stopped);
  SECTION("by a code, before the signal has reached it") {
    world.give(0, ProcessExited{.exit_code = 1});
    world.obey_stops(128 + SIGTERM);
    world.pass(2s);
    CHECK(world.status().failures.empty());
    CHECK(world.node(0).exit_code == api::kExitRetry);
    CHECK(world.node(0).terminations.back().cause == "Victim");
  }
  SECTION("what it says of every restart is heard") {
    world.give(0, ProcessExited{.exit_code = api::kExitFatal});
    world.obey_stops(128 + SIGTERM);
    world.pass(2s);
    REQUIRE(world.status().failures.size() == 1);
    CHECK(world.status().failures[0].exit_code == api::kExitFatal);
  }
}
