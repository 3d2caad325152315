// Two members that the leader hears do not reach each other (design §5, rule 9).
#include <catch2/catch_test_macros.hpp>
#include <chrono>

#include "gang_world.h"

using namespace pawl;
using namespace pawl::membership;
using namespace pawl::membership::test;
using namespace std::chrono_literals;
namespace channel = pawl::api::channel;

namespace {

// One member does not reach another, by which the newest generation breaks; all have applied this
// step.
void break_pair(GangWorld& world, std::int64_t step, std::int64_t generation, std::size_t node = 1,
                int unreached = 2) {
  world.say(node, channel::Parked{generation, step, "no answer", unreached});
  world.pass(100ms);
  world.park_asked(step, generation);
  world.pass(100ms);
}

}  // namespace

TEST_CASE("apart: once, the same members try again", "[launcher]") {
  GangWorld world = GangWorld::training(3, 2);
  break_pair(world, 10, 1);
  REQUIRE(world.status().generation == 2);
  CHECK(world.members().size() == 3);
  CHECK(world.status().failures.empty());
  // With a step between them they are as good as any.
  world.report(12);
  world.pass(1s);
  break_pair(world, 12, 2);
  REQUIRE(world.status().generation == 3);
  CHECK(world.members().size() == 3);
}

TEST_CASE("apart: the second time a gang that may be smaller goes on without one of them",
          "[launcher]") {
  GangWorld world = GangWorld::training(3, 2);
  break_pair(world, 10, 1);
  const std::size_t writes = world.writes.size();
  SECTION("told in time") { break_pair(world, 10, 2); }
  SECTION("after all were asked to park") {
    world.say(0, channel::Parked{2, 10, "connection closed"});
    world.pass(100ms);
    world.say(1, channel::Parked{2, 10, "no answer", 2});
    world.say(2, channel::Parked{2, 10, ""});
    world.pass(100ms);
  }
  CHECK(world.writes.size() == writes + 1);
  REQUIRE(world.status().generation == 3);
  CHECK(world.members() == std::vector<std::string>{"uid-0", "uid-1"});
  CHECK(world.status().start_step == 10);
  REQUIRE(world.has_named("uid-2"));
  CHECK(api::is_silence(world.status().failures[0]));
  CHECK(world.status().failures[0].cause == "Unreached");
  CHECK(world.status().failures[0].message ==
        "its processes and those of pod-1 do not reach each other");
  // It would only break the gang again.
  world.report(12);
  world.pass(20s);
  CHECK(world.status().generation == 3);

  const std::size_t other = world.replace_pod(2);
  world.pass(1s);
  world.come_up(other);
  world.pass(100ms);
  world.park_asked(12, 3);
  world.pass(100ms);
  REQUIRE(world.status().generation == 4);
  CHECK(world.members() == std::vector<std::string>{"uid-0", "uid-1", "uid-3"});
  CHECK(world.status().attempt == 1);
}

TEST_CASE("apart: a gang that needs all waits for another pod, with what it holds", "[launcher]") {
  GangWorld world = GangWorld::training(3);
  break_pair(world, 10, 1);
  break_pair(world, 10, 2);
  world.pass(10s);
  CHECK(world.status().term == 1);
  CHECK(world.status().generation == 2);
  REQUIRE(world.has_named("uid-2"));
  CHECK_FALSE(world.node(0).was_stopped);
  const std::size_t other = world.replace_pod(2);
  world.pass(1s);
  world.come_up(other);
  world.pass(100ms);
  REQUIRE(world.status().generation == 3);
  CHECK(world.members() == std::vector<std::string>{"uid-0", "uid-1", "uid-3"});
  CHECK(world.status().start_step == 10);
}

TEST_CASE("apart: whom two do not reach goes, and never the leader", "[launcher]") {
  GangWorld world = GangWorld::training(4, 2);
  const auto break_up = [&](std::int64_t generation) {
    // The middle one of three: its word and another's on it.
    world.say(1, channel::Parked{generation, 10, "no answer", 2});
    world.say(3, channel::Parked{generation, 10, "no answer", 1});
    world.pass(100ms);
    world.park_asked(10, generation);
    world.pass(100ms);
  };
  break_up(1);
  break_up(2);
  REQUIRE(world.status().generation == 3);
  CHECK(world.members() == std::vector<std::string>{"uid-0", "uid-2", "uid-3"});
  // The leader and another one.
  break_pair(world, 10, 3, 0, 2);
  break_pair(world, 10, 4, 0, 2);
  REQUIRE(world.status().generation == 5);
  CHECK(world.members() == std::vector<std::string>{"uid-0", "uid-2"});
}

TEST_CASE("apart: a launcher that is lost explains why its processes are not reached",
          "[launcher]") {
  GangWorld world = GangWorld::training(3, 2);
  break_pair(world, 10, 1);
  REQUIRE(world.status().generation == 2);
  world.kill_launcher(2);
  world.say(1, channel::Parked{2, 10, "no answer", 2});
  world.park_asked(10, 2);
  world.pass(500ms);
  REQUIRE(world.status().generation == 3);
  CHECK(world.members() == std::vector<std::string>{"uid-0", "uid-1"});
  CHECK(world.status().failures[0].message.find("reach") == std::string::npos);
}

TEST_CASE("apart: another leader knows who was parted from", "[launcher]") {
  GangWorld world = GangWorld::training(4, 2);
  break_pair(world, 10, 1, 2, 3);
  break_pair(world, 10, 2, 2, 3);
  REQUIRE(world.status().generation == 3);
  REQUIRE(world.has_named("uid-3"));
  world.kill_launcher(0);
  world.pass(1s);
  REQUIRE(world.leader() == 1);
  world.park_asked(10, 3);
  world.pass(2s);
  REQUIRE(world.status().generation == 4);
  CHECK(world.members() == std::vector<std::string>{"uid-1", "uid-2"});
  CHECK(world.has_named("uid-3"));
}

TEST_CASE("apart: one that was parted from and leads after a loss has its place again",
          "[launcher]") {
  GangWorld world = GangWorld::training(3);  // it waits for all, so that it is a member still
  break_pair(world, 10, 1);
  break_pair(world, 10, 2);
  world.pass(4s);
  REQUIRE(world.has_named("uid-2"));
  world.kill_launcher(0);
  world.kill_launcher(1);
  world.pass(3s);
  REQUIRE(world.leader() == 2);
  world.park_asked(10, 2);
  world.pass(500ms);
  CHECK_FALSE(world.has_named("uid-2"));
}

TEST_CASE("apart: whoever alone holds the state stays", "[launcher]") {
  GangWorld world = GangWorld::training(3, 2);
  world.exit_process(0, 137, 9);
  world.exit_process(1, 137, 9);
  world.park(2, 10);
  world.come_up(0);
  world.come_up(1);
  world.pass(100ms);
  REQUIRE(world.status().generation == 2);
  const auto break_up = [&](std::int64_t generation) {
    // Nobody was fed yet.
    world.say(1, channel::Parked{0, 0, "no answer", 2});
    world.pass(100ms);
    world.say(0, channel::Parked{0, 0, ""});
    world.say(2, channel::Parked{1, 10, ""});
    world.pass(100ms);
    REQUIRE(world.status().generation == generation + 1);
  };
  break_up(2);
  break_up(3);
  CHECK(world.members() == std::vector<std::string>{"uid-0", "uid-2"});
  CHECK(world.status().start_step == 10);
  CHECK(world.welcome(0).source_rank == 1);
}

TEST_CASE("apart: whom two name goes, though another one has a higher rank", "[launcher]") {
  GangWorld world = GangWorld::training(4, 2);
  break_pair(world, 10, 1, 3, 2);
  break_pair(world, 10, 2, 1, 2);
  REQUIRE(world.members().size() == 4);
  break_pair(world, 10, 3, 3, 2);
  CHECK(world.members() == std::vector<std::string>{"uid-0", "uid-1", "uid-3"});
}
