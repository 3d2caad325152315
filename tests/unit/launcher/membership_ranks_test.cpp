// Which rank a member has.
#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <string>
#include <vector>

#include "gang_world.h"

using namespace pawl;
using namespace pawl::membership;
using namespace pawl::membership::test;
using namespace std::chrono_literals;
namespace channel = pawl::api::channel;

TEST_CASE("ranks: with another pod, they go in the order that the record has for them",
          "[launcher][I51]") {
  GangWorld world = GangWorld::training();
  world.kill_launcher(0);  // it leads, too
  world.pass(3s);
  world.park_asked(10, 1);
  world.edit_spec([](api::WorkerGroupSpec& spec) {
    spec.pods[0].rank_order = 1;
    spec.pods[1].rank_order = 2;
    spec.pods[2].rank_order = 0;
  });
  const std::size_t other = world.replace_pod(0);
  world.pass(1500ms);
  world.park_asked(10, 1);
  world.pass(1s);
  REQUIRE(world.status().generation == 2);
  CHECK(world.members() == std::vector<std::string>{"uid-2", "uid-3", "uid-1"});
  world.come_up(other);
  CHECK(world.welcome(2).rank == 0);
  CHECK(world.welcome(other).rank == 1);
  CHECK(world.welcome(1).rank == 2);
  CHECK(world.welcome(other).source_rank != 1);  // it holds nothing itself

  world.report(12);  // another order alone changes nothing
  world.edit_spec([](api::WorkerGroupSpec& spec) {
    for (api::EligiblePod& pod : spec.pods) pod.rank_order = pod.slot;
  });
  world.pass(1min);
  CHECK(world.status().generation == 2);
}

TEST_CASE("ranks: whose rank is 0 is settled by the last commit, not by the next",
          "[launcher][A3][I51]") {
  GangWorld world = GangWorld::training();
  world.edit_spec([](api::WorkerGroupSpec& spec) {
    spec.is_rank0_enough = true;
    spec.pods[0].rank_order = 2;
    spec.pods[2].rank_order = 0;
  });
  world.kill_launcher(1);
  world.pass(500ms);
  REQUIRE(world.told<channel::Park>(0) != nullptr);
  SECTION("it is through") {
    world.exit_process(0, 0);
    world.pass(200ms);
    CHECK(world.status().is_finished);
  }
  SECTION("another one is") {
    world.exit_process(2, 0);
    world.pass(200ms);
    CHECK_FALSE(world.status().is_finished);
  }
  CHECK(world.status().generation == 1);
}
