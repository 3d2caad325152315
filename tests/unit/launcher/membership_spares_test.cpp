// Workers that wait beside a gang until one of its members is lost.
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

namespace {

using Uids = std::vector<std::string>;

// Three that train, at step 10, and one that waits.
GangWorld with_spare(int least = 0) {
  GangWorld world({.launchers = 4, .least = least, .spares = 1});
  world.run_to_training();
  world.report(10);
  world.pass(200ms);
  REQUIRE(world.members() == Uids{"uid-0", "uid-1", "uid-2"});
  return world;
}

}  // namespace

TEST_CASE("spares: one goes on in a lost member's place, whose next pod waits from then on",
          "[launcher][I50][G3]") {
  GangWorld world = with_spare();
  CHECK_FALSE(world.node(3).is_ready);
  CHECK_FALSE(world.node(3).was_stopped);
  SECTION("killed") { world.kill_launcher(1); }
  SECTION("silent") {
    world.nodes[1].is_frozen = true;
    world.pass(2600ms);
  }
  SECTION("the leader") { world.kill_launcher(0); }
  const std::size_t lost = world.node(0).is_alive ? 1 : 0;
  world.pass(3s);
  world.park_asked(10, 1);
  world.pass(1500ms);
  world.park_asked(10, 1);
  world.pass(1s);
  REQUIRE(world.status().generation == 2);
  CHECK(world.status().base_generation == 1);
  Uids left{"uid-0", "uid-1", "uid-2", "uid-3"};
  std::erase(left, "uid-" + std::to_string(lost));
  CHECK(world.members() == left);
  CHECK(world.node(3).is_ready);
  CHECK(world.welcome(3).world_size == 3);
  for (const std::size_t node : {1, 2}) {
    if (node != lost) CHECK_FALSE(world.node(node).was_stopped);
  }
  world.report(12);
  world.pass(200ms);

  const std::size_t next = world.replace_pod(static_cast<int>(lost));
  world.pass(500ms);
  world.come_up(next);
  world.pass(1min);
  CHECK(world.status().generation == 2);  // it is whole
  world.kill_launcher(3);
  world.pass(500ms);
  world.park_asked(12, 2);
  world.pass(1s);
  CHECK(world.status().generation == 3);
  CHECK(world.members().size() == 3);
  CHECK(std::ranges::count(world.members(), "uid-4") == 1);
}

TEST_CASE("spares: a gang begins when those of the first slots are there", "[launcher][I50]") {
  GangWorld world({.launchers = 4, .spares = 1});
  world.kill_launcher(3);
  world.pass(400ms);
  CHECK(world.status().generation == 1);
  CHECK(world.members() == Uids{"uid-0", "uid-1", "uid-2"});
}

TEST_CASE("spares: without one that is prepared the others wait for a lost member",
          "[launcher][I50]") {
  GangWorld world = with_spare();
  world.kill_launcher(1);
  world.pass(500ms);
  world.park_asked(10, 1);
  world.pass(1s);
  REQUIRE(world.status().generation == 2);
  world.report(12);
  world.pass(100ms);
  world.kill_launcher(2);
  world.pass(500ms);
  world.park_asked(12, 2);
  world.pass(1h);
  CHECK(world.status().generation == 2);
  CHECK(world.has_named("uid-2"));
  CHECK_FALSE(world.node(0).exit_code);

  const std::size_t next = world.replace_pod(1);
  world.pass(500ms);
  world.come_up(next);
  world.pass(500ms);
  world.park_asked(12, 2);
  world.pass(1s);
  CHECK(world.status().generation == 3);
  CHECK(world.members() == Uids{"uid-0", "uid-4", "uid-3"});
}

TEST_CASE("spares: there are never more than as many as train", "[launcher][I50]") {
  GangWorld world = with_spare();
  SECTION("a member that was taken for lost is back") {
    world.nodes[1].is_frozen = true;
    world.pass(2600ms);
    world.park_asked(10, 1);
    world.pass(500ms);
    REQUIRE(world.status().generation == 2);
    world.nodes[1].is_frozen = false;
    world.pass(5s);
    world.report(14);
    world.pass(1min);
  }
  SECTION("two are lost, and both are back") {
    world.cut_link(1);
    world.cut_link(2);
    world.pass(5s);
    world.park_asked(10, 1);
    world.pass(2s);
    world.report(14);
    world.pass(1min);
  }
  CHECK(world.status().generation >= 2);
  CHECK(world.members().size() == 3);
  for (const api::WorkerGroupStatus& status : world.writes) CHECK(status.members.size() <= 3);
}

TEST_CASE("spares: an elastic gang has them before it goes on with fewer", "[launcher][I50][G3]") {
  GangWorld world = with_spare(2);
  world.kill_launcher(1);
  world.kill_launcher(2);
  world.pass(500ms);
  world.park_asked(10, 1);
  world.pass(1s);
  REQUIRE(world.status().generation == 2);
  CHECK(world.members() == Uids{"uid-0", "uid-3"});
}

TEST_CASE("spares: fewer that train, and as many more that wait", "[launcher][I50]") {
  GangWorld world = with_spare();
  world.report(12);
  world.edit_spec([](api::WorkerGroupSpec& spec) { spec.min_members = spec.spares = 2; });
  world.pass(200ms);
  world.park_asked(12, 1);
  world.pass(1s);
  REQUIRE(world.status().generation == 2);
  CHECK(world.members() == Uids{"uid-0", "uid-1"});
  CHECK_FALSE(world.node(2).was_stopped);
  CHECK_FALSE(world.node(2).is_ready);
}

TEST_CASE("spares: a program of another framework is started there with the lost one's world",
          "[launcher][I50]") {
  GangWorld world({.launchers = 3, .runtime = api::RuntimeKind::kTorch, .spares = 1});
  world.pass(500ms);
  REQUIRE(world.members() == Uids{"uid-0", "uid-1"});
  CHECK_FALSE(world.node(2).has_processes);
  world.pass(1min);
  world.kill_launcher(1);
  world.pass(1s);
  world.obey_stops(143);
  world.pass(2s);
  REQUIRE(world.status().generation == 2);
  CHECK(world.members() == Uids{"uid-0", "uid-2"});
  REQUIRE(world.node(2).placement);
  CHECK(world.node(2).placement->members == 2);
}
