// Programs of other frameworks that say more to their launcher than their exit code: what comes of
// it.
#include <catch2/catch_test_macros.hpp>
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
