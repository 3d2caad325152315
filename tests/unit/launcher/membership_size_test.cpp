// A gang gets another size, or another leader, while it lives: nobody is lost, and nobody's state.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <chrono>

#include "common/api/contract.h"
#include "gang_world.h"

using namespace pawl;
using namespace pawl::membership;
using namespace pawl::membership::test;
using namespace std::chrono_literals;
namespace channel = pawl::api::channel;

TEST_CASE("size: a member more is let in when its process is prepared, and not before",
          "[launcher][G3]") {
  GangWorld world = GangWorld::training(2);
  world.resize(3);
  world.pass(10s);  // it has joined, and loads its libraries
  CHECK(world.told<channel::Park>(0) == nullptr);
  CHECK(world.status().generation == 1);

  const std::size_t writes = world.writes.size();
  world.come_up(2);
  REQUIRE(world.told<channel::Park>(0) != nullptr);
  REQUIRE(world.told<channel::Park>(1) != nullptr);
  world.park(0, 10);
  world.park(1, 11);
  CHECK(world.writes.size() == writes + 1);
  CHECK(world.status().generation == 2);
  CHECK(world.status().attempt == 1);
  CHECK(world.status().start_step == 11);
  CHECK(world.status().base_generation == 1);
  CHECK(world.members() == std::vector<std::string>{"uid-0", "uid-1", "uid-2"});
  for (const std::size_t node : {0, 1, 2}) {
    CHECK(world.welcome(node).world_size == 3);
    CHECK(world.welcome(node).rank == static_cast<int>(node));
    CHECK(world.welcome(node).source_rank == 1);
    CHECK_FALSE(world.node(node).was_stopped);
  }
  world.report(12);
  world.pass(20s);
  CHECK(world.status().generation == 2);
}

TEST_CASE("size: a gang that trains to the end while others are to come in has ended well",
          "[launcher]") {
  GangWorld world = GangWorld::training(2);
  world.come_up(world.resize(3));
  REQUIRE(world.told<channel::Park>(0) != nullptr);
  world.exit_process(0, 0);
  SECTION("all of it") {
    world.pass(1s);
    world.exit_process(1, 0);
    world.pass(1s);
    CHECK(world.status().is_finished);
    CHECK(world.status().failures.empty());
    CHECK(world.node(0).exit_code == 0);
    CHECK(world.node(1).exit_code == 0);
  }
  SECTION("one has come to rest before the end") {
    world.park(1, 99);
    world.pass(1s);
    CHECK(world.node(1).was_stopped);
    CHECK_FALSE(world.status().is_finished);
  }
}

TEST_CASE("size: a launcher of which one process has ended and another was killed ends the attempt",
          "[launcher]") {
  GangWorld world({.launchers = 2, .processes = 2});
  world.run_to_training();
  world.report(10);
  world.exit_process(1, 0, 0, 0);
  world.exit_process(1, -1, 9, 1);
  world.pass(1s);
  CHECK(world.node(0).was_stopped);
}

TEST_CASE("lead: a leader that cannot hand over leaves the gang to the others", "[launcher]") {
  GangWorld world = GangWorld::training();
  world.exit_process(2, -1, 9);
  world.is_api_down = true;
  world.give(0, TerminationAsked{});
  for (const std::size_t node : {0, 1}) world.park(node, 10);
  world.pass(30s);
  world.obey_stops();
  world.pass(1s);
  CHECK(world.node(0).exit_code.has_value());
  CHECK_FALSE(world.node(1).was_stopped);
  world.is_api_down = false;
  world.pass(6s);
  CHECK(world.leader() == 1);
  CHECK(world.status().attempt == 1);
}

TEST_CASE("size: a gang that has lost all it held goes on from storage before one leaves it",
          "[launcher]") {
  GangWorld world = GangWorld::training(3);
  world.exit_process(2, -1, 9);
  for (const std::size_t node : {0, 1}) world.park(node, 10);
  world.come_up(2);
  world.pass(100ms);
  REQUIRE(world.status().base_generation == 1);
  world.report(11);
  world.exit_process(0, -1, 9);
  world.resize(2);
  world.exit_process(1, -1, 9);
  world.exit_process(2, -1, 9);
  for (const std::size_t node : {0, 1, 2}) world.come_up(node);
  world.pass(1s);
  CHECK(world.status().generation == 3);
  CHECK(world.status().base_generation == 0);
  CHECK(world.node(0).notes.size() < 40);
  world.report(world.status().start_step + 1);
  world.pass(100ms);
  for (const std::size_t node : {0, 1, 2}) world.park(node, world.status().start_step + 1, 3);
  CHECK(world.members() == std::vector<std::string>{"uid-0", "uid-1"});
}

TEST_CASE("size: several come in together", "[launcher]") {
  GangWorld world = GangWorld::training(2);
  world.resize(4);
  world.come_up(3);
  world.pass(5s);
  CHECK(world.told<channel::Park>(0) == nullptr);
  world.come_up(2);
  world.park(0, 10);
  world.park(1, 10);
  CHECK(world.members() == std::vector<std::string>{"uid-0", "uid-1", "uid-2", "uid-3"});
}

TEST_CASE("size: one that was to come and is lost before the commit is not waited for",
          "[launcher]") {
  GangWorld world = GangWorld::training(2);
  world.resize(3);
  world.come_up(2);
  world.park(0, 10);
  world.kill_launcher(2);
  world.park(1, 10);
  world.pass(200ms);
  CHECK(world.status().generation == 2);
  CHECK(world.members() == std::vector<std::string>{"uid-0", "uid-1"});
  CHECK(world.status().failures.empty());
}

TEST_CASE("size: a member less leaves with its place when the others are at rest", "[launcher]") {
  GangWorld world = GangWorld::training(3);
  world.resize(2);
  REQUIRE(world.told<channel::Park>(0) != nullptr);
  world.park(0, 10);
  world.park(2, 10);
  CHECK_FALSE(world.node(2).was_stopped);
  world.park(1, 10);
  CHECK(world.status().generation == 2);
  CHECK(world.members() == std::vector<std::string>{"uid-0", "uid-1"});
  CHECK(world.welcome(0).world_size == 2);
  CHECK_FALSE(world.node(2).was_stopped);
  world.report(11);
  CHECK(world.node(2).was_stopped);
  world.obey_stops(143);
  world.pass(1s);
  CHECK(world.node(2).exit_code == api::kExitRetry);
  CHECK_FALSE(world.node(0).was_stopped);
  world.pass(20s);
  CHECK(world.status().generation == 2);
  CHECK(world.status().failures.empty());
}

TEST_CASE("size: a member that alone holds the state stays until another one has it",
          "[launcher]") {
  GangWorld world = GangWorld::training(2);
  world.exit_process(0, 137, 9);
  world.resize(1);
  world.park(1, 10);
  CHECK(world.members() == std::vector<std::string>{"uid-0", "uid-1"});
  CHECK_FALSE(world.node(1).was_stopped);
  world.come_up(0);
  world.pass(200ms);
  CHECK(world.welcome(0).source_rank == 1);
  world.report(11);
  world.pass(200ms);
  REQUIRE(world.told<channel::Park>(0) != nullptr);
  world.park(0, 11, 2);
  world.park(1, 11, 2);
  CHECK(world.members() == std::vector<std::string>{"uid-0"});
  world.report(12);
  CHECK(world.node(1).was_stopped);
}

TEST_CASE("size: who was left out is asked again when the others have lost the state",
          "[launcher]") {
  GangWorld world = GangWorld::training(3);
  world.kill_launcher(1);
  world.resize(2);
  world.park(0, 10);
  world.park(2, 11);  // left out: 0 holds as much
  world.pass(1s);
  world.exit_process(0, 137, 9);
  const std::size_t other = world.replace_pod(1);
  world.come_up(other);
  world.pass(1s);
  CHECK(world.status().generation == 2);
  CHECK(world.status().base_generation == 1);
  CHECK(world.status().start_step == 11);
  CHECK(world.members() == std::vector<std::string>{"uid-0", "uid-3", "uid-2"});
  CHECK_FALSE(world.node(2).was_stopped);
}

TEST_CASE("size: a lost member whose place is no more is not waited for", "[launcher]") {
  GangWorld world = GangWorld::training(3);
  world.kill_launcher(2);
  world.park(0, 10);
  world.park(1, 10);
  world.pass(1s);
  CHECK(world.status().generation == 1);
  world.resize(2);
  CHECK(world.status().generation == 2);
  CHECK(world.members() == std::vector<std::string>{"uid-0", "uid-1"});
}

TEST_CASE("size: a change that is taken back changes nothing", "[launcher]") {
  GangWorld world = GangWorld::training(3);
  world.resize(2);
  world.park(0, 10);
  world.resize(3);
  world.park(1, 10);
  world.park(2, 10);
  CHECK(world.status().generation == 2);
  CHECK(world.members().size() == 3);
  CHECK_FALSE(world.node(2).was_stopped);
}

TEST_CASE("lead: a leader told to terminate hands over, and leaves as any other member",
          "[launcher]") {
  GangWorld world = GangWorld::training(3);
  REQUIRE(world.leader() == 0);
  world.give(0, TerminationAsked{});
  world.pass(1s);
  REQUIRE(world.leader() == 1);
  CHECK(world.status().term == 2);
  CHECK(world.status().generation == 1);
  CHECK_FALSE(world.node(0).was_stopped);
  REQUIRE(world.told<channel::Park>(2) != nullptr);
  for (const std::size_t node : {0, 1, 2}) world.park(node, 10);
  CHECK(world.node(0).was_stopped);
  world.obey_stops(143);
  world.pass(1s);
  CHECK(world.node(0).exit_code == api::kExitDrained);
  const std::size_t other = world.replace_pod(0);
  world.pass(200ms);
  CHECK(world.status().generation == 2);
  CHECK(world.members()[0] == "uid-" + std::to_string(other));
  CHECK(world.status().failures.empty());
}

TEST_CASE("lead: a leader whose place is no more hands over first", "[launcher]") {
  GangWorld world = GangWorld::training(3);
  world.kill_launcher(0);
  world.pass(1s);
  REQUIRE(world.leader() == 1);
  world.park(1, 10);
  world.park(2, 10);
  const std::size_t other = world.replace_pod(0);
  world.come_up(other);
  world.pass(1s);
  REQUIRE(world.status().generation == 2);
  world.say(other, channel::Report{.step = 12, .total_steps = 100});
  world.resize(1);
  world.pass(1s);
  REQUIRE(world.leader() == other);
  CHECK(world.status().term == 3);
  world.park(other, 12, 2);
  world.park(1, 12, 2);
  world.park(2, 12, 2);
  world.pass(1s);
  CHECK(world.members() == std::vector<std::string>{"uid-3"});
  world.say(other, channel::Report{.step = 13, .total_steps = 100});
  CHECK(world.node(1).was_stopped);
  CHECK(world.node(2).was_stopped);
}

// Two are told to leave, one after the other, and the leader then, when the first is replaced.
TEST_CASE("lead: the last one that has to go waits for all who come after it", "[launcher]") {
  GangWorld world = GangWorld::training(3);
  const auto park_all = [&] {
    for (std::size_t i = 0; i < 3; ++i) world.park(i, 10);
    world.pass(100ms);
  };
  for (const std::size_t leaving : {1, 2}) {
    world.give(leaving, TerminationAsked{});
    world.pass(100ms);
    park_all();
    REQUIRE(world.node(leaving).was_stopped);
    world.obey_stops(143);
    world.pass(100ms);
    REQUIRE(world.node(leaving).exit_code == api::kExitDrained);
  }
  world.come_up(world.replace_pod(1));
  world.give(0, TerminationAsked{});
  world.pass(1s);
  CHECK(world.status().generation == 1);
  CHECK(world.leader() == 0);
  SECTION("and leaves its state with them") {
    world.come_up(world.replace_pod(2));
    world.pass(500ms);
    CHECK(world.members() == std::vector<std::string>{"uid-0", "uid-3", "uid-4"});
    CHECK(world.welcome(3).source_rank == 0);
    CHECK(world.leader() == 3);
    CHECK(world.told<channel::Stop>(0) == nullptr);
  }
  SECTION("but not for ever: too few save, and end") {
    world.pass(5s);
    CHECK(world.status().generation == 2);
    CHECK(world.members() == std::vector<std::string>{"uid-0", "uid-3"});
    world.come_up(3);
    world.pass(200ms);
    for (const std::size_t node : {0, 3}) {
      REQUIRE(world.told<channel::Stop>(node) != nullptr);
      CHECK(world.told<channel::Stop>(node)->is_saving);
    }
    CHECK(world.leader() == 0);
  }
}

TEST_CASE("lead: nobody stays to hand over to: the gang saves and ends", "[launcher]") {
  GangWorld world = GangWorld::training(2);
  world.give(1, TerminationAsked{});
  world.give(0, TerminationAsked{});
  world.pass(100ms);
  world.park(0, 10);
  world.park(1, 10);
  world.pass(100ms);
  CHECK(world.status().generation == 2);
  for (const std::size_t node : {0, 1}) {
    REQUIRE(world.told<channel::Stop>(node) != nullptr);
    CHECK(world.told<channel::Stop>(node)->is_saving);
  }
  world.say(0, channel::Report{.step = 11, .total_steps = 100});
  world.seal_all(11);
  world.obey_stops();
  world.pass(300ms);
  CHECK(world.published == std::vector<std::int64_t>{11});
  for (const std::size_t node : {0, 1}) CHECK(world.node(node).exit_code == api::kExitDrained);
}
