// A leader that does not reach the API server, while others do (design §5, rule 8).
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <chrono>

#include "gang_world.h"

using namespace pawl;
using namespace pawl::membership;
using namespace pawl::membership::test;
using namespace std::chrono_literals;

namespace {

bool has_noted(const GangWorld& world, std::size_t node, const std::string& event) {
  return std::ranges::any_of(world.node(node).notes, [&](const std::string& note) {
    return note.find(event) != std::string::npos;
  });
}

}  // namespace

TEST_CASE("deputy: a member that reaches the API server leads, and steps are not lost",
          "[launcher]") {
  GangWorld world = GangWorld::training();
  world.nodes[0].has_no_api = true;
  SECTION("the others reach it") {}
  SECTION("one of them does not, either") { world.nodes[1].has_no_api = true; }
  world.report(12);
  world.pass(20s);  // a write of its progress is due within that
  world.park_asked(12, 1);
  world.pass(500ms);
  CHECK(world.leader() == (world.nodes[1].has_no_api ? 2 : 1));
  CHECK(world.status().term == 2);
  REQUIRE(world.status().generation == 2);
  CHECK(world.members() == std::vector<std::string>{"uid-0", "uid-1", "uid-2"});
  CHECK(world.status().start_step == 12);
  CHECK(world.status().failures.empty());
  world.report(14);
  world.pass(20s);
  CHECK(world.status().term == 2);
  CHECK(world.status().generation == 2);
  CHECK(world.status().progress->step == 14);
  // It is a member as any other, also when it reaches the server again.
  world.nodes[0].has_no_api = false;
  world.pass(20s);
  CHECK(world.status().term == 2);
}

TEST_CASE("deputy: a generation that the leader cannot write is committed by another",
          "[launcher]") {
  GangWorld world = GangWorld::training(3, 2);
  world.nodes[0].has_no_api = true;
  world.kill_launcher(2);
  world.park_asked(10, 1);
  world.pass(10s);
  world.park_asked(10, 1);
  world.pass(500ms);
  CHECK(world.leader() == 1);
  REQUIRE(world.status().generation == 2);
  CHECK(world.members() == std::vector<std::string>{"uid-0", "uid-1"});
  CHECK(world.status().start_step == 10);
}

TEST_CASE("deputy: one that dies before it has told is no end", "[launcher]") {
  GangWorld world = GangWorld::training(4, 2);
  world.nodes[0].has_no_api = true;
  world.kill_launcher(1);
  world.record.status.term = 2;  // its claim was its last word
  world.record.status.leader->ref = {"uid-1", "start-1"};
  world.record.status.leader->address = world.node(1).address;
  world.edit_spec([](api::WorkerGroupSpec&) {});
  world.park_asked(10, 1);
  for (int i = 0; i < 6; ++i) {
    world.pass(5s);
    world.park_asked(10, 1);
  }
  CHECK(world.leader() == 2);
  REQUIRE(world.status().generation == 2);
  CHECK(world.status().start_step == 10);
}

TEST_CASE("deputy: where nobody reaches the server, or it is soon back, the leader leads on",
          "[launcher]") {
  GangWorld world = GangWorld::training();
  SECTION("it is away for all") {
    world.is_api_down = true;
    world.report(12);
    world.pass(60s);
    CHECK_FALSE(has_noted(world, 0, "deputy_stands"));
    world.is_api_down = false;
  }
  SECTION("for this one, and for a moment") {
    world.nodes[0].has_no_api = true;
    world.report(12);
    for (int i = 0; i < 200 && !has_noted(world, 0, "status_write_refused"); ++i) world.pass(100ms);
    world.pass(4s);
    world.nodes[0].has_no_api = false;
  }
  world.pass(20s);
  CHECK(world.status().term == 1);
  CHECK(world.status().generation == 1);
  CHECK(world.status().progress->step == 12);
}

TEST_CASE("deputy: not everybody has a word in who leads", "[launcher]") {
  GangWorld world = GangWorld::training();
  api::WorkerGroup group = world.record;
  group.meta.resource_version = std::to_string(std::stoll(group.meta.resource_version) + 100);
  group.status.term += 1;
  SECTION("a stranger") {
    world.add_launcher(7, false);
    world.pass(1s);
    group.status.leader = api::Leader{{"uid-3", "start-3"}, world.node(3).address, "print"};
    const auto link = world.node(3).links.find(kLeaderPeer);
    REQUIRE(link != world.node(3).links.end());
    world.give(0, PeerSaid{link->second.second, Leads{group}});
  }
  SECTION("a member, of a term that is over") {
    group.status.term -= 1;
    group.status.leader->ref.uid = "uid-1";
    const auto link = world.node(2).links.find(kLeaderPeer);
    REQUIRE(link != world.node(2).links.end());
    world.give(0, PeerSaid{link->second.second, Leads{group}});
  }
  world.pass(1s);
  CHECK_FALSE(has_noted(world, 0, "lead_lost"));
}

TEST_CASE("deputy: who hears from others that it leads, does", "[launcher]") {
  GangWorld world = GangWorld::training();
  api::WorkerGroup group = world.record;
  group.meta.resource_version = std::to_string(std::stoll(group.meta.resource_version) + 1);
  group.status.term += 1;
  group.status.leader->ref = {"uid-1", "start-1"};
  group.status.leader->address = world.node(1).address;
  world.give(1, PeerSaid{kLeaderPeer, Leads{group}});
  world.pass(100ms);
  CHECK(has_noted(world, 1, "leading: term 2"));
}
