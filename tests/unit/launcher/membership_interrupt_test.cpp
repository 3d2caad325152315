// A launcher whose cloud says that its machine goes.
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <chrono>

#include "common/api/contract.h"
#include "gang_world.h"

using namespace pawl;
using namespace pawl::membership;
using namespace pawl::membership::test;
using namespace std::chrono_literals;
namespace channel = pawl::api::channel;

TEST_CASE("membership: with all machines going the gang saves, and says that it ends",
          "[launcher]") {
  GangWorld world = GangWorld::training(3);
  for (std::size_t i = 0; i < 3; ++i) world.give(i, TerminationAsked{"its cloud takes it back"});
  world.settle();
  for (std::size_t i = 0; i < 3; ++i) world.park(i, 10);
  world.pass(100ms);
  for (std::size_t i = 0; i < 3; ++i) REQUIRE(world.told<channel::Stop>(i) != nullptr);
  world.obey_stops();
  world.pass(60s);
  for (std::size_t i = 0; i < 3; ++i) {
    INFO("node " << i);
    REQUIRE(!world.node(i).terminations.empty());
    CHECK(world.node(i).terminations.back().cause == "Interrupted");
    CHECK(world.node(i).exit_code == api::kExitRetry);
  }
}

TEST_CASE("membership: who has trained to the end does not leave for a machine that goes",
          "[launcher]") {
  GangWorld world = GangWorld::training(2);
  world.exit_process(1, 0);
  world.settle();
  world.give(1, TerminationAsked{"its cloud takes it back"});
  world.settle();
  world.exit_process(0, 0);
  world.pass(1s);
  CHECK(world.node(1).terminations.empty());
  CHECK(world.node(1).exit_code == api::kExitDone);
  CHECK(world.node(0).exit_code == api::kExitDone);
}

TEST_CASE("membership: a leader that goes explains what its end makes of foreign programs",
          "[launcher]") {
  GangWorld world({.launchers = 3, .runtime = api::RuntimeKind::kTorch, .has_checkpoints = false});
  world.run_to_training();
  world.is_api_down = true;  // so that it cannot hand over at once
  if (GENERATE(false, true)) {
    world.give(0, TerminationAsked{});
    world.exit_process(1, 1);
  } else {
    world.exit_process(1, 1);
    world.give(0, TerminationAsked{});
  }
  world.obey_stops(143);
  world.pass(1900ms);
  world.is_api_down = false;
  world.pass(2s);
  CHECK(world.leader() == 1);
  CHECK(world.status().failures.empty());
  CHECK_FALSE(world.node(1).exit_code.has_value());
}
