// A gang whose processes hold parts of the state alone: what can wait for a checkpoint does, and
// nobody is kept for what is in its memory.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <chrono>
#include <utility>

#include "common/api/contract.h"
#include "gang_world.h"

using namespace pawl;
using namespace pawl::membership;
using namespace pawl::membership::test;
using namespace std::chrono_literals;
namespace channel = pawl::api::channel;

namespace {

// At step 10, with a checkpoint of step 4 in storage; node 0 leads.
GangWorld sharded(int launchers, int least = 0) {
  GangWorld world({.launchers = launchers, .least = least, .holds_parts = true});
  world.run_to_training();
  world.seal_all(4);
  world.report(10);
  world.pass(200ms);
  REQUIRE(world.published == std::vector<std::int64_t>{4});
  world.stored = {.step = 4, .load_uri = "file:///store/4"};
  return world;
}

// What was asked for is made, and stored.
void save(GangWorld& world, std::int64_t step) {
  world.seal_all(step);
  world.report(step);
  world.stored = {.step = step, .load_uri = "file:///store/" + std::to_string(step)};
  world.pass(200ms);
}

}  // namespace

TEST_CASE("sharded: a gang saves before it grows, and goes on from there", "[launcher]") {
  GangWorld world = sharded(2);
  world.come_up(world.resize(3));
  world.pass(1s);
  REQUIRE(world.told<channel::CheckpointNow>(0) != nullptr);
  REQUIRE(world.told<channel::CheckpointNow>(1) != nullptr);
  CHECK(world.told<channel::Park>(0) == nullptr);
  save(world, 11);
  REQUIRE(world.told<channel::Park>(0) != nullptr);
  world.park_asked(12, 0);
  world.pass(200ms);
  CHECK(world.status().generation == 2);
  CHECK(world.status().base_generation == 0);
  CHECK(world.status().start_step == 11);
  CHECK(world.members() == std::vector<std::string>{"uid-0", "uid-1", "uid-2"});
  CHECK(world.welcome(2).load_uri == "file:///store/11");
  CHECK(world.status().attempt == 1);
}

TEST_CASE("sharded: members that are to go are let go, though nobody holds what they hold",
          "[launcher]") {
  GangWorld world = sharded(3);
  world.resize(2);
  world.pass(200ms);
  REQUIRE(world.told<channel::CheckpointNow>(2) != nullptr);
  save(world, 11);
  world.park_asked(11, 0);
  world.pass(500ms);
  CHECK(world.status().generation == 2);
  CHECK(world.status().start_step == 11);
  CHECK(world.members() == std::vector<std::string>{"uid-0", "uid-1"});
  world.report(12);
  world.pass(1s);
  CHECK(world.node(2).was_stopped);
  CHECK_FALSE(world.node(0).was_stopped);
}

TEST_CASE("sharded: a member that leaves waits for the checkpoint, and no longer than it can",
          "[launcher]") {
  GangWorld world = sharded(3, 2);
  world.give(2, TerminationAsked{});
  world.pass(100ms);
  REQUIRE(world.told<channel::CheckpointNow>(0) != nullptr);
  CHECK(world.told<channel::Park>(0) == nullptr);
  std::int64_t start = 4;
  SECTION("it is stored") {
    save(world, 11);
    start = 11;
  }
  SECTION("it is not") { world.pass(10s); }
  REQUIRE(world.told<channel::Park>(0) != nullptr);
  world.park_asked(11, 0);
  world.pass(500ms);
  CHECK(world.status().generation == 2);
  CHECK(world.status().start_step == start);
  CHECK(world.members() == std::vector<std::string>{"uid-0", "uid-1"});
  CHECK(world.node(2).was_stopped);
  CHECK(world.status().failures.empty());
}

TEST_CASE("sharded: a leader that has to go hands over when the gang has saved", "[launcher]") {
  GangWorld world = sharded(3, 2);
  world.give(0, TerminationAsked{});
  world.pass(500ms);
  CHECK(world.leader() == 0);
  REQUIRE(world.told<channel::CheckpointNow>(1) != nullptr);
  save(world, 11);
  CHECK(world.leader() == 1);
  world.pass(500ms);
  world.park_asked(11, 0);
  world.pass(1s);
  CHECK(world.status().generation == 2);
  CHECK(world.status().start_step == 11);
  CHECK(world.status().attempt == 1);
}

TEST_CASE("sharded: the others go on without a lost member as soon as one that may be back would",
          "[launcher]") {
  GangWorld world = sharded(3, 2);
  world.kill_launcher(2);
  world.park_asked(11, 0);
  world.pass(400ms);  // the operator has not heard of it
  CHECK(world.status().generation == 2);
  CHECK(world.status().start_step == 4);
  CHECK(world.members() == std::vector<std::string>{"uid-0", "uid-1"});
  CHECK(world.has_named("uid-2"));
}

TEST_CASE("sharded: without checkpoints nothing is waited for", "[launcher]") {
  GangWorld world({.launchers = 2, .has_checkpoints = false, .holds_parts = true});
  world.run_to_training();
  world.report(10);
  world.come_up(world.resize(3));
  world.pass(100ms);
  CHECK(world.told<channel::Park>(0) != nullptr);
}

TEST_CASE("sharded: a change that is not wanted any more leaves no checkpoint to wait for",
          "[launcher]") {
  GangWorld world = sharded(2);
  const std::size_t newcomer = world.resize(3);
  world.come_up(newcomer);
  world.pass(100ms);
  REQUIRE(world.told<channel::CheckpointNow>(0) != nullptr);
  world.kill_launcher(newcomer);
  world.pass(100ms);
  save(world, 11);
  CHECK(world.told<channel::Park>(0) == nullptr);
  world.nodes[0].told.clear();
  const std::size_t other = world.replace_pod(2);
  world.pass(1s);
  world.come_up(other);
  world.pass(100ms);
  CHECK(world.told<channel::CheckpointNow>(0) != nullptr);  // anew
  CHECK(world.told<channel::Park>(0) == nullptr);
}

TEST_CASE("sharded: who writes its part of a checkpoint is kept until it is stored", "[launcher]") {
  GangWorld world = sharded(3, 2);
  world.are_writes_held = true;
  world.seal_all(11);
  world.report(11);
  world.exit_process(2, -1, 9);
  for (const std::size_t node : {0, 1}) world.park(node, 11, 0);
  world.pass(5s);  // its next process does not come up
  CHECK(world.status().generation == 1);
  world.are_writes_held = false;
  world.stored = {.step = 11, .load_uri = "file:///store/11"};
  for (const auto& [node, written] : std::exchange(world.held_writes, {}))
    world.give(node, written);
  world.pass(2s);
  CHECK(world.published.back() == 11);
  CHECK(world.status().generation == 2);
  CHECK(world.status().start_step == 11);
  CHECK(world.members() == std::vector<std::string>{"uid-0", "uid-1"});
}

TEST_CASE("sharded: losses with a checkpoint between them are no row of losses", "[launcher]") {
  GangWorld world = sharded(2);
  const bool saves = GENERATE(true, false);
  for (int loss = 0; loss < 5; ++loss) {
    if (saves) save(world, 5 + loss);
    const std::int64_t generation = world.status().generation;
    world.exit_process(1, -1, 9);
    world.park(0, 9, 0);
    world.come_up(1);
    world.pass(500ms);
    if (!saves && world.node(0).was_stopped) break;
    CHECK(world.status().generation == generation + 1);
  }
  CHECK(world.node(0).was_stopped != saves);
}

TEST_CASE("sharded: that a process was replaced keeps nobody", "[launcher]") {
  GangWorld world = sharded(2);
  world.resize(1);
  world.exit_process(0, -1, 9);
  world.park(1, 10, 0);
  world.pass(500ms);
  world.come_up(0);
  world.pass(1s);
  CHECK(world.status().generation == 2);
  CHECK(world.members() == std::vector<std::string>{"uid-0"});
  CHECK(world.node(0).notes.size() < 40);
}

TEST_CASE("sharded: a worker that is told to go while another change waits has its own time",
          "[launcher]") {
  GangWorld world = sharded(3, 2);
  world.come_up(world.resize(4));
  world.pass(12s);
  world.give(2, TerminationAsked{});
  world.pass(5s);
  CHECK(world.told<channel::Park>(0) == nullptr);
  world.pass(6s);
  CHECK(world.told<channel::Park>(0) != nullptr);
}
