// A gang that may be smaller goes on without those who are lost or leave.
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

TEST_CASE("elastic: the others go on without a lost member, and are whole again with its successor",
          "[launcher][G3]") {
  GangWorld world = GangWorld::training(3, 2);
  const std::size_t writes = world.writes.size();
  SECTION("killed") {
    world.kill_launcher(2);
    world.park_asked(11, 1);
    world.pass(200ms);
    CHECK(world.status().generation == 1);  // it may be back in a moment
    world.pass(100ms);
  }
  SECTION("silent") {  // it has had its time
    world.nodes[2].is_frozen = true;
    world.pass(2600ms);
    world.park_asked(11, 1);
    world.pass(100ms);
  }
  CHECK(world.writes.size() == writes + 1);
  REQUIRE(world.status().generation == 2);
  CHECK(world.status().start_step == 11);
  CHECK(world.status().base_generation == 1);
  CHECK(world.members() == std::vector<std::string>{"uid-0", "uid-1"});
  REQUIRE(world.has_named("uid-2"));
  CHECK(world.status().failures[0].generation == 1);
  CHECK(world.status().failures[0].rank == 2);
  for (const std::size_t node : {0, 1}) {
    CHECK(world.welcome(node).world_size == 2);
    CHECK_FALSE(world.node(node).was_stopped);
  }
  world.report(12);
  world.pass(1h);
  CHECK(world.status().generation == 2);

  const std::size_t other = world.replace_pod(2);
  world.pass(1s);
  CHECK(world.status().generation == 2);
  world.come_up(other);  // nobody else is waited for
  world.pass(100ms);
  world.park_asked(12, 2);
  world.pass(100ms);
  CHECK(world.status().generation == 3);
  CHECK(world.members() == std::vector<std::string>{"uid-0", "uid-1", "uid-3"});
  CHECK(world.welcome(other).world_size == 3);
  CHECK(world.welcome(other).source_rank == 0);
  CHECK(world.status().attempt == 1);
}

TEST_CASE("elastic: a member that leaves is not waited for", "[launcher]") {
  GangWorld world = GangWorld::training(3, 2);
  world.give(2, TerminationAsked{});
  world.pass(100ms);
  world.park_asked(10, 1);
  world.pass(100ms);
  CHECK(world.status().generation == 2);
  CHECK(world.members() == std::vector<std::string>{"uid-0", "uid-1"});
  CHECK(world.node(2).was_stopped);
  CHECK_FALSE(world.has_named("uid-2"));
  CHECK(world.welcome(0).world_size == 2);
  world.obey_stops(143);
  world.pass(200ms);
  CHECK(world.node(2).exit_code == api::kExitDrained);
  world.report(11);
  world.pass(20s);
  CHECK(world.status().generation == 2);
}

TEST_CASE("elastic: with too few the gang waits, and takes whoever is prepared first",
          "[launcher]") {
  GangWorld world = GangWorld::smaller();
  world.kill_launcher(1);
  world.park(0, 12, 2);
  world.pass(1min);
  CHECK(world.status().generation == 2);
  CHECK_FALSE(world.node(0).was_stopped);
  const std::size_t other = world.replace_pod(2);
  world.come_up(other);
  world.pass(300ms);
  CHECK(world.status().generation == 3);
  CHECK(world.members() == std::vector<std::string>{"uid-0", "uid-3"});
  CHECK(world.welcome(other).source_rank == 0);
}

TEST_CASE("elastic: whoever alone holds the state is waited for", "[launcher]") {
  GangWorld world = GangWorld::training(3, 1);
  world.kill_launcher(1);
  // What the other two held is gone with their processes.
  world.exit_process(0, -1, 9);
  world.exit_process(2, -1, 9);
  world.come_up(0);
  world.come_up(2);
  world.pass(20s);
  CHECK(world.status().generation == 1);
  world.replace_pod(1);  // void: the gang begins from storage
  world.pass(1s);
  CHECK(world.status().generation == 2);
}

TEST_CASE("elastic: a launcher that is back at once has its place again", "[launcher]") {
  GangWorld world = GangWorld::training(3, 2);
  world.cut_link(1);
  world.park_asked(10, 1);
  world.pass(200ms);
  world.park_asked(10, 1);
  world.pass(1s);
  CHECK(world.status().generation == 2);
  CHECK(world.members().size() == 3);
  CHECK(world.status().failures.empty());
}

TEST_CASE("elastic: whose place is no more stays until enough others are in", "[launcher]") {
  GangWorld world = GangWorld::training(4, 3);
  world.kill_launcher(1);
  world.park_asked(10, 1);
  world.pass(500ms);
  REQUIRE(world.members().size() == 3);
  world.report(11);
  world.resize(3);
  world.pass(1min);
  CHECK(world.status().generation == 2);
  CHECK(world.members() == std::vector<std::string>{"uid-0", "uid-2", "uid-3"});
  world.come_up(world.replace_pod(1));
  world.pass(100ms);
  world.park_asked(11, 2);
  world.pass(100ms);
  CHECK(world.status().generation == 3);
  CHECK(world.members() == std::vector<std::string>{"uid-0", "uid-4", "uid-2"});
}

TEST_CASE("elastic: the leader is lost, and the others do not wait for it", "[launcher]") {
  GangWorld world = GangWorld::training(3, 2);
  world.kill_launcher(0);
  world.pass(700ms);
  REQUIRE(world.leader() == 1);
  world.park_asked(10, 1);
  world.pass(300ms);
  CHECK(world.status().generation == 2);
  CHECK(world.members() == std::vector<std::string>{"uid-1", "uid-2"});
  CHECK(world.has_named("uid-0"));
  CHECK(world.welcome(1).rank == 0);
  CHECK(world.welcome(2).rank == 1);
}

TEST_CASE("elastic: a leader that hears few of its gang gives the others time to lead",
          "[launcher]") {
  GangWorld world = GangWorld::training(5, 1);
  for (const std::size_t node : {1, 2, 3, 4}) world.kill_launcher(node);
  world.park(0, 10);
  world.pass(1400ms);
  CHECK(world.status().generation == 1);
  world.pass(300ms);
  CHECK(world.status().generation == 2);
  CHECK(world.members() == std::vector<std::string>{"uid-0"});
}

TEST_CASE("elastic: members that go one by one end nothing", "[launcher]") {
  GangWorld world = GangWorld::training(8, 2);
  std::int64_t generation = 1;
  for (const std::size_t node : {7, 6, 5, 4, 3, 2}) {
    world.kill_launcher(node);
    world.park_asked(10, generation);
    world.pass(500ms);
    REQUIRE(world.status().generation == ++generation);
  }
  CHECK_FALSE(world.node(0).was_stopped);
  CHECK(world.members() == std::vector<std::string>{"uid-0", "uid-1"});
}

TEST_CASE("elastic: who was left out is asked when nobody else holds the state", "[launcher]") {
  GangWorld world = GangWorld::training(3, 2);
  world.exit_process(0, -1, 9);
  world.nodes[2].is_frozen = true;
  world.pass(2600ms);
  world.come_up(0);
  world.park(1, 10);
  world.pass(100ms);
  REQUIRE(world.members() == std::vector<std::string>{"uid-0", "uid-1"});
  world.nodes[2].is_frozen = false;
  world.say(2, channel::Parked{.generation = 1, .step = 10, .why = "connection reset"});
  world.pass(2s);
  world.kill_launcher(1);  // before it has fed anybody
  world.park(0, 0, 0);
  world.pass(1s);
  CHECK(world.status().generation == 2);  // the one that is gone may have made a step
  const std::size_t other = world.replace_pod(1);
  world.come_up(other);
  world.pass(1s);
  REQUIRE(world.status().generation == 3);
  CHECK(world.members() == std::vector<std::string>{"uid-0", "uid-2"});
  CHECK(world.status().start_step == 10);
  CHECK(world.welcome(0).source_rank == 1);
}

TEST_CASE("elastic: a process that takes long to come up is not waited for", "[launcher]") {
  GangWorld world = GangWorld::training(3, 2);
  world.exit_process(2, -1, 9);
  world.park_asked(10, 1);
  world.pass(500ms);
  CHECK(world.status().generation == 1);
  SECTION("it is there in time") {
    world.come_up(2);
    world.pass(50ms);
    CHECK(world.status().generation == 2);
    CHECK(world.members().size() == 3);
  }
  SECTION("it is not") {
    world.pass(600ms);
    REQUIRE(world.status().generation == 2);
    CHECK(world.members() == std::vector<std::string>{"uid-0", "uid-1"});
    world.report(11);
    world.pass(1min);
    CHECK_FALSE(world.node(2).is_ready);
    world.come_up(2);
    world.pass(100ms);
    world.park_asked(11, 2);
    world.pass(100ms);
    CHECK(world.members().size() == 3);
    CHECK(world.node(2).is_ready);
  }
}

TEST_CASE("elastic: a smaller gang that is to stop saves and ends", "[launcher]") {
  GangWorld world = GangWorld::smaller();
  world.edit_spec([](api::WorkerGroupSpec& spec) { spec.is_stopping = true; });
  world.pass(200ms);
  CHECK(world.told<channel::Stop>(0) != nullptr);
  CHECK(world.told<channel::Stop>(1) != nullptr);
}
