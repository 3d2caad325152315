// A launcher is lost, with all its processes, or told to leave: the others wait with their state in
// memory for whoever takes its place.
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

// At step 10; node 0 leads.
GangWorld training_gang(int launchers = 3) {
  GangWorld world({.launchers = launchers});
  world.run_to_training();
  world.report(10);
  world.pass(200ms);
  return world;
}

void park(GangWorld& world, std::size_t node, std::int64_t step, std::int64_t generation = 1) {
  world.say(node, channel::Parked{.generation = generation, .step = step});
}

void come_up(GangWorld& world, std::size_t node) {
  world.say(node, channel::Hello{.data_port = 5000, .config_hash = "h"});
}

}  // namespace

TEST_CASE("replace: a lost launcher's place is another's, who is fed from memory",
          "[launcher][G3]") {
  GangWorld world = training_gang();
  SECTION("killed") { world.kill_launcher(2); }
  SECTION("its machine is gone") {
    world.nodes[2].is_frozen = true;
    world.pass(3s);
  }
  REQUIRE(world.told<channel::Park>(0) != nullptr);
  park(world, 0, 10);
  park(world, 1, 11);
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
  come_up(world, other);
  for (const std::size_t node : {std::size_t{0}, std::size_t{1}, other}) {
    const auto* welcome = world.told<channel::Welcome>(node);
    REQUIRE(welcome != nullptr);
    CHECK(welcome->generation == 2);
    CHECK(welcome->source_rank == 1);
    CHECK(welcome->start_step == 11);
  }
  CHECK(world.told<channel::Welcome>(other)->rank == 2);
  CHECK(world.node(other).is_ready);
  world.report(12);
  world.pass(20s);
  CHECK_FALSE(world.node(0).exit_code.has_value());
}

TEST_CASE("replace: nobody waits less for a place because it takes long to fill", "[launcher]") {
  GangWorld world = training_gang(2);
  world.kill_launcher(1);
  park(world, 0, 10);
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
  come_up(world, world.replace_pod(1));
  world.pass(200ms);
  CHECK(world.status().generation == 2);
  CHECK(world.told<channel::Welcome>(0)->generation == 2);
}

TEST_CASE("replace: a launcher that is back on a new connection has its place again",
          "[launcher]") {
  GangWorld world = training_gang();
  world.cut_link(1);
  CHECK_FALSE(world.node(1).was_stopped);
  REQUIRE(world.told<channel::Park>(0) != nullptr);
  world.pass(300ms);  // it dials again, and is asked to park like the others
  REQUIRE(world.told<channel::Park>(1) != nullptr);
  for (std::size_t i = 0; i < 3; ++i) park(world, i, 10);
  CHECK(world.status().generation == 2);
  CHECK(world.status().base_members.size() == 3);
  for (std::size_t i = 0; i < 3; ++i) CHECK(world.told<channel::Welcome>(i)->generation == 2);
}

TEST_CASE("replace: who has parked and lost the link is heard again", "[launcher]") {
  GangWorld world = training_gang(2);
  world.say(1, channel::Parked{.generation = 1, .step = 10, .why = "connection reset"});
  world.cut_link(1);
  world.pass(300ms);
  CHECK(world.status().generation == 1);
  park(world, 0, 10);
  CHECK(world.status().generation == 2);
  CHECK(world.status().base_generation == 1);
}

TEST_CASE("replace: whose place is another's stops, and changes nothing", "[launcher]") {
  GangWorld world = training_gang();
  world.nodes[2].is_frozen = true;
  world.pass(3s);
  park(world, 0, 10);
  park(world, 1, 10);
  const std::size_t other = world.replace_pod(2);
  world.pass(200ms);
  REQUIRE(world.status().generation == 2);
  come_up(world, other);
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

TEST_CASE("replace: the operator gives a place away while its launcher is still heard",
          "[launcher]") {
  GangWorld world = training_gang();
  const std::size_t other = world.replace_pod(1);
  world.pass(200ms);
  REQUIRE(world.told<channel::Park>(0) != nullptr);
  park(world, 0, 10);
  park(world, 2, 10);
  come_up(world, other);
  world.pass(200ms);
  CHECK(world.status().generation == 2);
  CHECK(world.told<channel::Welcome>(other)->rank == 1);
  world.pass(3s);
  CHECK(world.node(1).was_stopped);
}

TEST_CASE("replace: a member that is told to terminate leaves its state with the others",
          "[launcher]") {
  GangWorld world = training_gang();
  world.give(2, TerminationAsked{});
  world.settle();
  for (std::size_t i = 0; i < 3; ++i) REQUIRE(world.told<channel::Park>(i) != nullptr);
  park(world, 2, 11);
  park(world, 0, 10);
  CHECK_FALSE(world.node(2).was_stopped);  // what rank 1 holds is not known yet
  park(world, 1, 11);
  CHECK(world.node(2).was_stopped);
  CHECK(world.told<channel::Stop>(2) == nullptr);
  world.obey_stops();
  world.pass(200ms);
  CHECK(world.node(2).exit_code == api::kExitRetry);
  CHECK(world.node(2).terminations.empty());
  CHECK(world.status().generation == 1);
  come_up(world, world.replace_pod(2));
  world.pass(200ms);
  CHECK(world.status().generation == 2);
  CHECK(world.status().start_step == 11);
  CHECK(world.status().failures.empty());
}

TEST_CASE("replace: the only one that has the state gives it away before it leaves", "[launcher]") {
  GangWorld world = training_gang(2);
  world.exit_process(0, 137, 9);
  world.give(1, TerminationAsked{});
  world.settle();
  park(world, 1, 11);
  CHECK_FALSE(world.node(1).was_stopped);
  REQUIRE(world.status().generation == 2);
  SECTION("in time") {
    come_up(world, 0);
    REQUIRE(world.told<channel::Welcome>(0)->source_rank == 1);
    world.report(12);
    park(world, 0, 12, 2);
    park(world, 1, 12, 2);
    CHECK(world.node(1).was_stopped);
    world.obey_stops();
    world.pass(200ms);
    CHECK(world.node(1).exit_code == api::kExitRetry);
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
  GangWorld world = training_gang();
  world.cut_link(1);
  world.kill_launcher(2);
  world.pass(1s);
  park(world, 0, 10);
  park(world, 1, 10);
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
  GangWorld world = training_gang(2);
  world.kill_launcher(1);
  park(world, 0, 10);
  world.is_api_down = true;
  world.pass(300s);
  CHECK_FALSE(world.node(0).was_stopped);
}

TEST_CASE("replace: a gang that has trained to the end is not formed anew", "[launcher]") {
  GangWorld world = training_gang();
  world.exit_process(1, 0);
  world.kill_launcher(2);
  world.pass(1s);
  CHECK(world.node(0).was_stopped);
  world.obey_stops();
  world.pass(20s);
  CHECK(world.node(0).exit_code.has_value());
}

TEST_CASE("replace: the leading launcher is told to terminate while a new process starts",
          "[launcher]") {
  GangWorld world = training_gang(2);
  world.exit_process(1, 137, 9);
  park(world, 0, 10);
  REQUIRE(world.status().generation == 2);
  world.give(0, TerminationAsked{});
  world.pass(1s);
  CHECK_FALSE(world.node(0).was_stopped);
  come_up(world, 1);
  world.pass(200ms);
  REQUIRE(world.told<channel::Stop>(0) != nullptr);
  CHECK(world.told<channel::Stop>(0)->is_saving);
}

TEST_CASE("replace: who is leaving says so to the next leader", "[launcher]") {
  GangWorld world = training_gang();
  world.give(2, TerminationAsked{});
  world.kill_launcher(0);
  world.pass(1s);
  REQUIRE(world.leader() == 1);
  park(world, 1, 10);
  park(world, 2, 10);
  world.pass(200ms);
  CHECK(world.node(2).was_stopped);
  CHECK_FALSE(world.node(1).was_stopped);
}

TEST_CASE("replace: all are to stop while a place is empty: those who are there save",
          "[launcher]") {
  GangWorld world = training_gang();
  world.kill_launcher(2);
  park(world, 0, 10);
  park(world, 1, 10);
  SECTION("suspended") {
    world.edit_spec([](api::WorkerGroupSpec& spec) { spec.is_stopping = true; });
  }
  SECTION("the leading launcher is told to terminate") { world.give(0, TerminationAsked{}); }
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

TEST_CASE("replace: a member is lost while the generation is committed", "[launcher]") {
  GangWorld world = training_gang();
  world.exit_process(2, 137, 9);
  park(world, 0, 10);
  world.is_api_down = true;
  park(world, 1, 10);
  world.kill_launcher(1);
  world.pass(1s);
  world.is_api_down = false;
  world.pass(10s);
  const std::size_t other = world.replace_pod(1);
  come_up(world, other);
  come_up(world, 2);
  world.pass(1s);
  CHECK(world.status().members[1].ref.uid == "uid-3");
  REQUIRE(world.told<channel::Welcome>(0)->generation == world.status().generation);
  CHECK(world.told<channel::Welcome>(0)->start_step == 10);
  CHECK(world.told<channel::Welcome>(0)->source_rank == 0);
}

TEST_CASE("replace: the last holder of the state is lost: storage, once its place is void",
          "[launcher]") {
  GangWorld world = training_gang(2);
  world.stored = {.step = 8, .load_uri = "file:///8"};
  world.exit_process(0, 137, 9);
  world.kill_launcher(1);
  world.pass(30s);
  CHECK(world.status().generation == 1);
  const std::size_t other = world.replace_pod(1);
  come_up(world, other);
  come_up(world, 0);
  world.pass(200ms);
  REQUIRE(world.status().generation == 2);
  CHECK(world.status().base_generation == 0);
  CHECK(world.told<channel::Welcome>(other)->load_uri == "file:///8");
}

TEST_CASE("takeover: the leader is lost, the lowest rank leads on, from memory", "[launcher]") {
  GangWorld world = training_gang();
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
    park(world, node, 10);
  }
  const std::size_t other = world.replace_pod(0);
  world.pass(200ms);
  CHECK(world.status().generation == 2);
  CHECK(world.writes.size() == writes + 2);  // who leads, and the generation
  CHECK(world.status().base_generation == 1);
  CHECK(world.status().start_step == 10);
  CHECK(world.status().members[0].ref.uid == "uid-3");
  come_up(world, other);
  for (const std::size_t node : {std::size_t{1}, std::size_t{2}, other}) {
    const auto* welcome = world.told<channel::Welcome>(node);
    REQUIRE(welcome != nullptr);
    CHECK(welcome->generation == 2);
    CHECK(welcome->source_rank == 1);
    CHECK(welcome->key == "key-1");
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
  GangWorld world = training_gang();
  world.kill_launcher(1);
  world.kill_launcher(0);
  world.pass(1s);
  CHECK(world.leader() == 2);
  park(world, 2, 10);
  const std::size_t first = world.replace_pod(0);
  const std::size_t second = world.replace_pod(1);
  world.pass(300ms);
  CHECK(world.status().generation == 2);
  come_up(world, first);
  come_up(world, second);
  CHECK(world.told<channel::Welcome>(second)->source_rank == 2);
}

TEST_CASE("takeover: a leader that is back soon leads on", "[launcher]") {
  GangWorld world = training_gang();
  world.cut_link(1);
  world.cut_link(2);
  world.pass(2s);
  CHECK(world.status().term == 1);
  CHECK(world.leader() == 0);
}

TEST_CASE("takeover: who was deposed does not stand against the next", "[launcher]") {
  GangWorld world = training_gang();
  world.nodes[0].is_frozen = true;
  world.pass(4s);
  REQUIRE(world.leader() == 1);
  world.nodes[0].is_frozen = false;
  world.pass(300ms);
  // It is there again, with its state, and has its place.
  for (std::size_t i = 0; i < 3; ++i) park(world, i, 10);
  world.pass(300ms);
  CHECK(world.leader() == 1);
  CHECK(world.status().generation == 2);
  CHECK(world.status().base_members.size() == 3);
  for (std::size_t i = 0; i < 3; ++i) CHECK(world.told<channel::Welcome>(i)->generation == 2);
}

TEST_CASE("takeover: without the API nobody leads, and nothing is lost", "[launcher]") {
  GangWorld world = training_gang(2);
  world.is_api_down = true;
  world.kill_launcher(0);
  world.pass(60s);
  CHECK_FALSE(world.node(1).was_stopped);
  world.is_api_down = false;
  world.pass(6s);
  CHECK(world.leader() == 1);
}

TEST_CASE("takeover: a member that does not come to the new leader is named", "[launcher]") {
  GangWorld world = training_gang();
  world.nodes[2].is_frozen = true;
  world.kill_launcher(0);
  world.pass(8s);
  CHECK(world.leader() == 1);
  CHECK(std::ranges::any_of(world.status().failures,
                            [](const api::Failure& one) { return one.pod == "pod-2"; }));
}
