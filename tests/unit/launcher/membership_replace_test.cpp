// A launcher is lost, with all its processes, or told to leave: the others wait with their state in
// memory for whoever takes its place.
#include <algorithm>
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

TEST_CASE("replace: a lost launcher's place is another's, who is fed from memory",
          "[launcher][G3]") {
  GangWorld world = GangWorld::training();
  SECTION("killed") { world.kill_launcher(2); }
  SECTION("its machine is gone") {
    world.nodes[2].is_frozen = true;
    world.pass(3s);
  }
  REQUIRE(world.told<channel::Park>(0) != nullptr);
  world.park(0, 10);
  world.park(1, 11);
  world.pass(200ms);
  const std::size_t writes = world.writes.size();
  CHECK(world.status().generation == 1);
  CHECK_FALSE(world.node(0).was_stopped);

  const std::size_t other = world.replace_pod(2);
  world.pass(200ms);
  CHECK(world.status().generation == 2);
  CHECK(world.writes.size() == writes + 1);
  CHECK(world.status().base_generation == 1);
  CHECK(world.status().start_step == 11);
  REQUIRE(world.status().members.size() == 3);
  CHECK(world.status().members[2].ref.uid == "uid-3");
  CHECK(std::ranges::none_of(world.status().base_members,
                             [](const api::MemberRef& ref) { return ref.uid == "uid-3"; }));
  world.come_up(other);
  for (const std::size_t node : {std::size_t{0}, std::size_t{1}, other}) {
    CHECK(world.welcome(node).generation == 2);
    CHECK(world.welcome(node).source_rank == 1);
    CHECK(world.welcome(node).start_step == 11);
  }
  CHECK(world.told<channel::Welcome>(other)->rank == 2);
  CHECK(world.node(other).is_ready);
  world.report(12);
  world.pass(20s);
  CHECK_FALSE(world.node(0).exit_code.has_value());
}

TEST_CASE("replace: nobody waits less for a place because it takes long to fill", "[launcher]") {
  GangWorld world = GangWorld::training(2);
  world.kill_launcher(1);
  world.park(0, 10);
  world.pass(2s);
  CHECK(world.status().failures.empty());
  world.pass(2s);  // perhaps its pod looks well: the operator has to know
  REQUIRE(world.status().failures.size() == 1);
  CHECK(world.status().failures[0].pod == "pod-1");
  CHECK(world.status().failures[0].generation == 1);
  const std::size_t writes = world.writes.size();
  world.pass(1h);
  CHECK(world.writes.size() == writes);
  CHECK_FALSE(world.node(0).was_stopped);
  world.come_up(world.replace_pod(1));
  world.pass(200ms);
  CHECK(world.status().generation == 2);
  CHECK(world.told<channel::Welcome>(0)->generation == 2);
}

TEST_CASE("replace: a launcher that is back on a new connection has its place again",
          "[launcher]") {
  GangWorld world = GangWorld::training();
  world.cut_link(1);
  CHECK_FALSE(world.node(1).was_stopped);
  REQUIRE(world.told<channel::Park>(0) != nullptr);
  world.pass(300ms);  // it dials again, and is asked to park like the others
  REQUIRE(world.told<channel::Park>(1) != nullptr);
  for (std::size_t i = 0; i < 3; ++i) world.park(i, 10);
  CHECK(world.status().generation == 2);
  CHECK(world.status().base_members.size() == 3);
  for (std::size_t i = 0; i < 3; ++i) CHECK(world.told<channel::Welcome>(i)->generation == 2);
}

TEST_CASE("replace: who has parked and lost the link is heard again", "[launcher]") {
  GangWorld world = GangWorld::training(2);
  world.say(1, channel::Parked{.generation = 1, .step = 10, .why = "connection reset"});
  world.cut_link(1);
  world.pass(300ms);
  CHECK(world.status().generation == 1);
  world.park(0, 10);
  CHECK(world.status().generation == 2);
  CHECK(world.status().base_generation == 1);
}

TEST_CASE("replace: whose place is another's stops, and changes nothing", "[launcher]") {
  GangWorld world = GangWorld::training();
  world.nodes[2].is_frozen = true;
  world.pass(3s);
  world.park(0, 10);
  world.park(1, 10);
  const std::size_t other = world.replace_pod(2);
  world.pass(200ms);
  REQUIRE(world.status().generation == 2);
  world.come_up(other);
  const std::size_t writes = world.writes.size();
  world.nodes[2].is_frozen = false;
  world.say(2, channel::Sealed{.buffer = 0, .step = 10, .bytes = 8, .manifest_json = ""});
  world.pass(5s);
  CHECK(world.node(2).was_stopped);
  world.obey_stops();
  world.pass(200ms);
  CHECK(world.node(2).exit_code == api::kExitRetry);
  CHECK(world.writes.size() == writes);
  CHECK(world.published.empty());
  CHECK(world.status().members[2].ref.uid == "uid-3");
}

TEST_CASE("replace: a place is given away while its launcher is heard: the gang goes on without it",
          "[launcher]") {
  GangWorld world = GangWorld::training();
  const std::size_t other = world.replace_pod(1);
  world.pass(200ms);
  REQUIRE(world.told<channel::Park>(0) != nullptr);
  world.park(0, 10);
  world.park(2, 10);
  world.come_up(other);
  world.pass(200ms);
  CHECK(world.status().generation == 2);
  CHECK(world.told<channel::Welcome>(other)->rank == 1);
  world.pass(3s);
  CHECK(world.node(1).was_stopped);
}

TEST_CASE("replace: a member that is told to terminate leaves its state with the others",
          "[launcher]") {
  GangWorld world = GangWorld::training();
  const std::string interruption = GENERATE(as<std::string>(), "", "the cloud takes it back");
  world.give(2, TerminationAsked{interruption});
  world.settle();
  for (std::size_t i = 0; i < 3; ++i) REQUIRE(world.told<channel::Park>(i) != nullptr);
  world.park(2, 11);
  world.park(0, 10);
  CHECK_FALSE(world.node(2).was_stopped);  // what rank 1 holds is not known yet
  world.park(1, 11);
  CHECK(world.node(2).was_stopped);
  CHECK(world.told<channel::Stop>(2) == nullptr);
  world.obey_stops();
  world.pass(200ms);
  CHECK(world.node(2).exit_code == api::kExitDrained);
  CHECK(world.node(2).terminations.size() == (interruption.empty() ? 0 : 1));
  if (!interruption.empty()) {  // why, so that nothing else goes to its machine
    CHECK(world.node(2).terminations[0].cause == "Interrupted");
    CHECK(world.node(2).terminations[0].message == interruption);
  }
  CHECK(world.status().generation == 1);
  world.come_up(world.replace_pod(2));
  world.pass(200ms);
  CHECK(world.status().generation == 2);
  CHECK(world.status().start_step == 11);
  CHECK(world.status().failures.empty());
}

TEST_CASE("replace: the only one that has the state gives it away before it leaves", "[launcher]") {
  GangWorld world = GangWorld::training(2);
  world.exit_process(0, 137, 9);
  world.give(1, TerminationAsked{});
  world.settle();
  world.park(1, 11);
  CHECK_FALSE(world.node(1).was_stopped);
  REQUIRE(world.status().generation == 2);
  SECTION("in time") {
    world.come_up(0);
    REQUIRE(world.told<channel::Welcome>(0)->source_rank == 1);
    world.report(12);
    world.park(0, 12, 2);
    world.park(1, 12, 2);
    CHECK(world.node(1).was_stopped);
    world.obey_stops();
    world.pass(200ms);
    CHECK(world.node(1).exit_code == api::kExitDrained);
    CHECK(world.node(0).exit_code == std::nullopt);
  }
  SECTION("its time is over") {
    world.pass(19s);
    CHECK_FALSE(world.node(1).was_stopped);
    world.pass(2s);
    CHECK(world.node(1).was_stopped);
  }
}

TEST_CASE("replace: who is heard again is not told to be lost", "[launcher]") {
  GangWorld world = GangWorld::training();
  world.cut_link(1);
  world.kill_launcher(2);
  world.pass(1s);
  world.park(0, 10);
  world.park(1, 10);
  world.pass(5s);
  REQUIRE(world.status().failures.size() == 1);
  CHECK(world.status().failures[0].pod == "pod-2");
  // Told, and heard again before anybody acts on it.
  world.nodes[1].is_frozen = true;
  world.pass(7s);
  CHECK(world.status().failures.size() == 2);
  world.nodes[1].is_frozen = false;
  world.pass(5s);
  CHECK(world.status().failures.size() == 1);
}

TEST_CASE("replace: an API that is away does not end a gang that waits for a place", "[launcher]") {
  GangWorld world = GangWorld::training(2);
  world.kill_launcher(1);
  world.park(0, 10);
  world.is_api_down = true;
  world.pass(300s);
  CHECK_FALSE(world.node(0).was_stopped);
}

TEST_CASE("replace: a gang that has trained to the end is not formed anew", "[launcher]") {
  GangWorld world = GangWorld::training();
  world.exit_process(1, 0);
  world.kill_launcher(2);
  world.pass(1s);
  CHECK(world.node(0).was_stopped);
  world.obey_stops();
  world.pass(20s);
  CHECK(world.node(0).exit_code.has_value());
  CHECK(world.status().generation == 1);
}

TEST_CASE("replace: who is leaving says so to the next leader", "[launcher]") {
  GangWorld world = GangWorld::training();
  world.give(2, TerminationAsked{});
  world.kill_launcher(0);
  world.pass(1s);
  REQUIRE(world.leader() == 1);
  world.park(1, 10);
  world.park(2, 10);
  world.pass(200ms);
  CHECK(world.node(2).was_stopped);
  CHECK_FALSE(world.node(1).was_stopped);
}

TEST_CASE("replace: all are to stop while a place is empty: those who are there save",
          "[launcher]") {
  GangWorld world = GangWorld::training();
  world.kill_launcher(2);
  world.park(0, 10);
  world.park(1, 10);
  world.edit_spec([](api::WorkerGroupSpec& spec) { spec.is_stopping = true; });
  world.pass(4s);  // as long as it may be heard again
  world.pass(200ms);
  REQUIRE(world.status().generation == 2);
  REQUIRE(world.status().members.size() == 2);
  CHECK(world.told<channel::Welcome>(1)->world_size == 2);
  REQUIRE(world.told<channel::Stop>(0) != nullptr);
  CHECK(world.told<channel::Stop>(0)->is_saving);
  world.report(11);
  world.say(0, channel::Sealed{.buffer = 0, .step = 11, .bytes = 8, .manifest_json = "{}"});
  world.say(1, channel::Sealed{.buffer = 0, .step = 11, .bytes = 8, .manifest_json = ""});
  world.obey_stops();
  world.pass(300ms);
  CHECK(world.published == std::vector<std::int64_t>{11});
  CHECK(world.node(0).exit_code.has_value());
  CHECK(world.node(1).exit_code.has_value());
}

TEST_CASE("replace: a member is lost while the generation is committed: the gang forms anew",
          "[launcher]") {
  GangWorld world = GangWorld::training();
  world.exit_process(2, 137, 9);
  world.park(0, 10);
  world.is_api_down = true;
  world.park(1, 10);
  world.kill_launcher(1);
  world.pass(1s);
  world.is_api_down = false;
  world.pass(10s);
  const std::size_t other = world.replace_pod(1);
  world.come_up(other);
  world.come_up(2);
  world.pass(1s);
  CHECK(world.status().members[1].ref.uid == "uid-3");
  REQUIRE(world.told<channel::Welcome>(0)->generation == world.status().generation);
  CHECK(world.told<channel::Welcome>(0)->start_step == 10);
  CHECK(world.told<channel::Welcome>(0)->source_rank == 0);
}

TEST_CASE("replace: the last holder of the state is lost: storage, once its place is void",
          "[launcher]") {
  GangWorld world = GangWorld::training(2);
  world.stored = {.step = 8, .load_uri = "file:///8"};
  world.exit_process(0, 137, 9);
  world.kill_launcher(1);
  world.pass(30s);
  CHECK(world.status().generation == 1);
  const std::size_t other = world.replace_pod(1);
  world.come_up(other);
  world.come_up(0);
  world.pass(200ms);
  REQUIRE(world.status().generation == 2);
  CHECK(world.status().base_generation == 0);
  CHECK(world.told<channel::Welcome>(other)->load_uri == "file:///8");
}

TEST_CASE("replace: where all are told to terminate they save together", "[launcher]") {
  GangWorld world = GangWorld::training();
  for (const std::size_t node : {std::size_t{2}, std::size_t{1}, std::size_t{0}}) {
    world.give(node, TerminationAsked{});
    world.settle();
  }
  for (std::size_t i = 0; i < 3; ++i) world.park(i, 10);
  world.pass(100ms);
  REQUIRE(world.status().generation == 2);
  CHECK(world.status().members.size() == 3);  // together they save sooner than one alone
  for (std::size_t i = 0; i < 3; ++i) {
    REQUIRE(world.told<channel::Stop>(i) != nullptr);
    CHECK(world.told<channel::Stop>(i)->is_saving);
  }
}

TEST_CASE("replace: the last one saves where all are told to terminate one by one", "[launcher]") {
  GangWorld world = GangWorld::training();
  const auto leave = [&](std::size_t node) {
    world.give(node, TerminationAsked{});
    world.pass(500ms);
    for (std::size_t i = 0; i < 3; ++i) world.park(i, 10);
    world.obey_stops(143);
    world.pass(500ms);
    REQUIRE(world.node(node).exit_code == api::kExitDrained);
  };
  std::size_t last = 1;
  std::chrono::milliseconds wait = 100ms;
  SECTION("it led them: whom it has let go is not waited for") {
    leave(0);
    leave(2);
  }
  SECTION("it leads since the last one left, and has not seen the others go") {
    leave(0);
    leave(1);
    last = 2;
    wait = 4s;
  }
  world.give(last, TerminationAsked{});
  world.pass(wait);
  REQUIRE(world.status().generation == 2);
  CHECK(world.status().members.size() == 1);
  REQUIRE(world.told<channel::Stop>(last) != nullptr);
  CHECK(world.told<channel::Stop>(last)->is_saving);
}

TEST_CASE("replace: a gang whose pods get no successors saves before one leaves", "[launcher]") {
  GangWorld world = GangWorld::training();
  world.edit_spec([](api::WorkerGroupSpec& spec) { spec.has_successors = false; });
  world.give(2, TerminationAsked{});
  world.settle();
  REQUIRE(world.told<channel::Stop>(0) != nullptr);
  CHECK(world.told<channel::Stop>(0)->is_saving);
}

TEST_CASE("replace: who is leaving when it takes a place again leaves it", "[launcher]") {
  GangWorld world = GangWorld::training();
  world.is_api_down = true;
  world.exit_process(1, 137, 9);
  world.park(0, 10);
  world.park(2, 10);  // the commit has no answer: nobody takes a place meanwhile
  world.cut_link(2);
  world.give(2, TerminationAsked{});
  world.pass(1s);
  world.is_api_down = false;
  world.pass(10s);
  for (std::size_t i = 0; i < 3; ++i) world.park(i, 10, world.status().generation);
  world.pass(1s);
  CHECK(world.node(2).was_stopped);
  CHECK_FALSE(world.node(0).was_stopped);
}
