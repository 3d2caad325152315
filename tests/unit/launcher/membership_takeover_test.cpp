// The leading launcher is lost, and its lead is another's.
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

TEST_CASE("takeover: the leader is lost, the lowest rank leads on, from memory", "[launcher][G3]") {
  GangWorld world = GangWorld::training();
  SECTION("killed") { world.kill_launcher(0); }
  SECTION("its machine is gone") {
    world.nodes[0].is_frozen = true;
    world.pass(2s);
  }
  const std::size_t writes = world.writes.size();
  world.pass(700ms);
  CHECK(world.status().term == 2);
  CHECK(world.leader() == 1);
  CHECK(world.status().generation == 1);
  CHECK_FALSE(world.node(1).was_stopped);
  CHECK_FALSE(world.node(2).was_stopped);
  for (const std::size_t node : {std::size_t{1}, std::size_t{2}}) {
    REQUIRE(world.told<channel::Park>(node) != nullptr);
    world.park(node, 10);
  }
  const std::size_t other = world.replace_pod(0);
  world.pass(200ms);
  CHECK(world.status().generation == 2);
  CHECK(world.writes.size() == writes + 2);  // who leads, and the generation
  CHECK(world.status().base_generation == 1);
  CHECK(world.status().start_step == 10);
  CHECK(world.status().members[0].ref.uid == "uid-3");
  world.come_up(other);
  for (const std::size_t node : {std::size_t{1}, std::size_t{2}, other}) {
    CHECK(world.welcome(node).generation == 2);
    CHECK(world.welcome(node).source_rank == 1);
    CHECK(world.welcome(node).key == "key-1");
  }
  CHECK(world.told<channel::Welcome>(other)->rank == 0);

  // The old one wakes up and changes nothing.
  world.nodes[0].is_frozen = false;
  world.pass(10s);
  CHECK(world.status().term == 2);
  CHECK(world.status().generation == 2);
  CHECK_FALSE(world.node(1).was_stopped);
  CHECK_FALSE(world.node(2).was_stopped);
}

TEST_CASE("takeover: the next rank stands when the lowest is lost too", "[launcher]") {
  GangWorld world = GangWorld::training();
  world.kill_launcher(1);
  world.kill_launcher(0);
  world.pass(1s);
  CHECK(world.leader() == 2);
  world.park(2, 10);
  const std::size_t first = world.replace_pod(0);
  const std::size_t second = world.replace_pod(1);
  world.pass(300ms);
  CHECK(world.status().generation == 2);
  world.come_up(first);
  world.come_up(second);
  CHECK(world.told<channel::Welcome>(second)->source_rank == 2);
}

TEST_CASE("takeover: a leader that is back soon leads on", "[launcher]") {
  GangWorld world = GangWorld::training();
  world.cut_link(1);
  world.cut_link(2);
  world.pass(2s);
  CHECK(world.status().term == 1);
  CHECK(world.leader() == 0);
}

TEST_CASE("takeover: who was deposed does not stand against the next", "[launcher]") {
  GangWorld world = GangWorld::training();
  world.nodes[0].is_frozen = true;
  world.pass(4s);
  REQUIRE(world.leader() == 1);
  world.nodes[0].is_frozen = false;
  world.pass(300ms);
  // It is there again, with its state, and has its place.
  for (std::size_t i = 0; i < 3; ++i) world.park(i, 10);
  world.pass(300ms);
  CHECK(world.leader() == 1);
  CHECK(world.status().generation == 2);
  CHECK(world.status().base_members.size() == 3);
  for (std::size_t i = 0; i < 3; ++i) CHECK(world.told<channel::Welcome>(i)->generation == 2);
}

TEST_CASE("takeover: without the API nobody leads, and nothing is lost", "[launcher]") {
  GangWorld world = GangWorld::training(2);
  world.is_api_down = true;
  world.kill_launcher(0);
  world.pass(60s);
  CHECK_FALSE(world.node(1).was_stopped);
  world.is_api_down = false;
  world.pass(6s);
  CHECK(world.leader() == 1);
  world.park(1, 10);
  world.come_up(world.replace_pod(0));
  world.pass(200ms);
  CHECK(world.status().base_generation == 1);
  CHECK(world.status().start_step == 10);
}

TEST_CASE("takeover: a member that does not come to the new leader is named", "[launcher]") {
  GangWorld world = GangWorld::training();
  world.nodes[2].is_frozen = true;
  world.kill_launcher(0);
  world.pass(8s);
  CHECK(world.leader() == 1);
  CHECK(std::ranges::any_of(world.status().failures,
                            [](const api::Failure& one) { return one.pod == "pod-2"; }));
}

TEST_CASE("takeover: what is left of a dial to the old leader means nothing", "[launcher]") {
  GangWorld world = GangWorld::training(2);
  world.kill_launcher(0);
  world.pass(1s);
  REQUIRE(world.leader() == 1);
  world.park(1, 10);
  world.come_up(world.replace_pod(0));
  world.pass(200ms);
  REQUIRE(world.status().generation == 2);
  world.give(1, PeerDown{kLeaderPeer, "timed out"});
  world.pass(1s);
  world.exit_process(1, 0);
  world.exit_process(2, 0);
  world.pass(1s);
  CHECK(world.status().is_finished);
}

TEST_CASE("takeover: whoever leads watches the record, however it learned that it leads",
          "[launcher]") {
  GangWorld world = GangWorld::training();
  REQUIRE_FALSE(world.node(1).is_watching);
  // An event that was on its way when the member gave up its watch.
  world.record.status.term += 1;
  world.record.status.leader->ref = world.status().members[1].ref;
  world.record.meta.resource_version = "999";
  world.give(1, RecordSeen{world.record, 0});
  world.settle();
  CHECK(world.node(1).is_watching);
}

TEST_CASE("takeover: one that has trained to the end when it takes over ends the attempt",
          "[launcher]") {
  GangWorld world = GangWorld::training(2);
  world.kill_launcher(0);
  SECTION("before it has its own place") {
    world.lose_replies = 1;
    world.is_down_then = true;
    world.pass(1s);
    REQUIRE(world.is_api_down);
    REQUIRE(world.leader() == 1);
    world.exit_process(1, 0);
    world.pass(2s);
    world.is_api_down = false;
  }
  SECTION("after that") {
    world.pass(1s);
    REQUIRE(world.leader() == 1);
    world.exit_process(1, 0);
  }
  world.pass(200ms);
  world.replace_pod(0);
  world.pass(10s);
  CHECK(world.status().term == 2);
  CHECK(world.node(1).exit_code == 75);
}
