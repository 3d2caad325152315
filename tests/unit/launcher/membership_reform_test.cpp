// A process is killed, the others keep their state: how the gang forms anew.
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

constexpr int kKilled = 9;

channel::Hello hello(std::uint16_t port) { return {.data_port = port, .config_hash = "h"}; }

// A gang at step 10 whose last member's process was killed.
GangWorld broken_gang(int launchers = 3) {
  GangWorld world({.launchers = launchers});
  world.run_to_training();
  world.report(10);
  world.pass(200ms);
  world.exit_process(static_cast<std::size_t>(launchers - 1), 128 + kKilled, kKilled);
  return world;
}

}  // namespace

TEST_CASE("reform: a killed process is replaced, and fed by one that lives",
          "[launcher][A14][A46]") {
  GangWorld world = broken_gang();
  CHECK(world.node(2).replacements == 1);
  REQUIRE(world.told<channel::Park>(0) != nullptr);
  REQUIRE(world.told<channel::Park>(1) != nullptr);
  CHECK(world.told<channel::Park>(2) == nullptr);
  const std::size_t writes = world.writes.size();

  // Rank 1 has applied a step more than rank 0 when the collective broke.
  world.say(0, channel::Parked{.generation = 1, .step = 10});
  CHECK(world.status().generation == 1);
  world.say(1, channel::Parked{.generation = 1, .step = 11});
  REQUIRE(world.status().generation == 2);
  CHECK(world.writes.size() == writes + 1);
  CHECK(world.status().base_generation == 1);
  CHECK(world.status().base_members.size() == 3);
  CHECK(world.status().start_step == 11);
  REQUIRE(world.status().lineage.size() == 2);
  CHECK(world.status().lineage.back() == api::LineageEntry{1, 2, 11});
  REQUIRE(world.status().failures.size() == 1);
  CHECK(world.status().failures[0].rank == 2);
  CHECK(world.status().failures[0].generation == 1);
  CHECK(world.status().failures[0].cause == "Signal");

  // Nobody is welcomed before the new process is there.
  CHECK(world.told<channel::Welcome>(0)->generation == 1);
  world.say(2, hello(5000));
  for (std::size_t i = 0; i < 3; ++i) {
    const auto* welcome = world.told<channel::Welcome>(i);
    REQUIRE(welcome != nullptr);
    CHECK(welcome->generation == 2);
    CHECK(welcome->base_generation == 1);
    CHECK(welcome->start_step == 11);
    CHECK(welcome->source_rank == 1);
    CHECK(welcome->load_uri.empty());
    CHECK(welcome->rank == static_cast<int>(i));
  }
  CHECK(world.told<channel::Welcome>(1)->peers[1].address == "10.0.0.2:5000");
  world.pass(20s);
  for (std::size_t i = 0; i < 3; ++i) CHECK_FALSE(world.node(i).exit_code.has_value());
}

TEST_CASE("reform: a process that parks by itself brings the others to rest", "[launcher]") {
  GangWorld world({.launchers = 2});
  world.run_to_training();
  world.say(1, channel::Parked{.generation = 1, .step = 3, .why = "connection reset"});
  REQUIRE(world.told<channel::Park>(0) != nullptr);
  CHECK(world.told<channel::Park>(1) == nullptr);
  world.say(0, channel::Parked{.generation = 1, .step = 3});
  CHECK(world.status().generation == 2);
  CHECK(world.status().failures.empty());
  REQUIRE(world.told<channel::Welcome>(1)->generation == 2);
  CHECK(world.told<channel::Welcome>(1)->source_rank == 0);
}

TEST_CASE("reform: with no state left in memory the gang goes on from storage", "[launcher]") {
  GangWorld world({.launchers = 2});
  world.run_to_training();
  world.report(10);
  world.pass(200ms);
  world.stored = {.step = 8, .load_uri = "file:///8"};
  world.exit_process(0, 128 + kKilled, kKilled);
  world.exit_process(1, 128 + kKilled, kKilled);
  REQUIRE(world.status().generation == 2);
  CHECK(world.status().base_generation == 0);
  CHECK(world.status().base_members.empty());
  CHECK(world.status().start_step == 8);
  world.say(0, hello(5000));
  world.say(1, hello(5001));
  const auto* welcome = world.told<channel::Welcome>(0);
  REQUIRE(welcome->generation == 2);
  CHECK(welcome->load_uri == "file:///8");
  CHECK(welcome->source_rank == -1);
  CHECK(world.status().failures.size() == 2);
}

TEST_CASE("reform: storage is asked after the checkpoint that is being published", "[launcher]") {
  GangWorld world({.launchers = 1});
  world.run_to_training();
  world.stored = {.step = 8, .load_uri = "file:///8"};
  world.report(12);
  // The leader looks at the record once more before it publishes, and meanwhile its process dies.
  world.is_api_down = true;
  world.seal_all(12);
  world.pass(200ms);
  REQUIRE(world.published.empty());
  world.exit_process(0, 128 + kKilled, kKilled);
  world.pass(1s);
  CHECK(world.status().generation == 1);
  world.stored = {.step = 12, .load_uri = "file:///12"};
  world.is_api_down = false;
  world.pass(6s);
  CHECK(world.published == std::vector<std::int64_t>{12});
  CHECK(world.status().generation == 2);
  CHECK(world.status().start_step == 12);
}

TEST_CASE("reform: who holds the state dies while the generation is committed", "[launcher]") {
  GangWorld world = broken_gang(2);
  world.say(1, hello(5001));
  // The process ends before the answer to the commit comes.
  world.give(0, ProcessSaid{0, channel::Parked{.generation = 1, .step = 10}});
  world.give(0, ProcessExited{.local_rank = 0, .exit_code = 128 + kKilled, .signal = kKilled});
  world.settle();
  world.pass(1s);
  CHECK(world.status().generation == 3);
  CHECK(world.status().base_generation == 0);
  CHECK(world.told<channel::Welcome>(1)->generation == 1);
  world.say(0, hello(5000));
  world.say(1, hello(5001));
  CHECK(world.told<channel::Welcome>(0)->generation == 3);
  CHECK(world.told<channel::Welcome>(0)->source_rank == -1);
  for (std::size_t i = 0; i < 2; ++i) CHECK_FALSE(world.node(i).exit_code.has_value());
}

TEST_CASE("reform: more failures than the record holds are not written for ever", "[launcher]") {
  GangWorld world({.launchers = 20});
  world.run_to_training();
  for (std::size_t i = 0; i < 20; ++i) world.exit_process(i, 128 + kKilled, kKilled);
  world.pass(200ms);
  REQUIRE(world.status().generation == 2);
  CHECK(world.status().failures.size() == 16);
  world.hello_all();
  world.pass(200ms);
  const std::size_t writes = world.writes.size();
  world.pass(5s);
  CHECK(world.writes.size() == writes);
}

TEST_CASE("reform: all processes of a worker that die at once are one loss", "[launcher]") {
  GangWorld world({.launchers = 2, .processes = 8});
  world.run_to_training();
  for (int local = 0; local < 8; ++local) world.exit_process(1, 128 + kKilled, kKilled, local);
  for (int local = 0; local < 8; ++local)
    world.say(0, channel::Parked{.generation = 1, .step = 10}, local);
  CHECK(world.node(1).replacements == 8);
  CHECK(world.status().generation == 2);
  CHECK(world.status().start_step == 10);
  CHECK_FALSE(world.node(1).was_stopped);
}

TEST_CASE("reform: a checkpoint that is being written outlives its process", "[launcher]") {
  GangWorld world({.launchers = 1});
  world.run_to_training();
  world.stored = {.step = 8, .load_uri = "file:///8"};
  world.are_writes_held = true;
  world.say(0, channel::Sealed{.buffer = 0, .step = 12, .bytes = 8, .manifest_json = "{}"});
  world.report(12);
  world.exit_process(0, 128 + kKilled, kKilled);
  world.pass(1s);
  CHECK(world.status().generation == 1);
  REQUIRE(world.held_writes.size() == 1);
  world.stored = {.step = 12, .load_uri = "file:///12"};
  world.give(0, world.held_writes[0].second);
  world.settle();
  world.pass(1s);
  CHECK(world.published == std::vector<std::int64_t>{12});
  CHECK(world.status().generation == 2);
  CHECK(world.status().start_step == 12);
  // The new process has not asked for a buffer, so none is given back to it.
  CHECK(world.told<channel::Released>(0) == nullptr);
}

TEST_CASE("reform: storage that does not answer is not waited for without end", "[launcher]") {
  GangWorld world({.launchers = 1});
  world.run_to_training();
  world.report(12);
  SECTION("it cannot be read") { world.stored.error = "permission denied"; }
  SECTION("a write to it hangs") {
    world.are_writes_held = true;
    world.say(0, channel::Sealed{.buffer = 0, .step = 12, .bytes = 8, .manifest_json = "{}"});
  }
  world.exit_process(0, 128 + kKilled, kKilled);
  world.pass(100s);
  CHECK_FALSE(world.node(0).was_stopped);
  world.pass(25s);
  CHECK(world.node(0).was_stopped);
  CHECK(world.status().generation == 1);
}

TEST_CASE("reform: while the API is away the gang waits with its state in memory", "[launcher]") {
  GangWorld world = broken_gang(2);
  world.is_api_down = true;
  world.say(0, channel::Parked{.generation = 1, .step = 10});
  world.pass(300s);
  for (std::size_t i = 0; i < 2; ++i) CHECK_FALSE(world.node(i).exit_code.has_value());
  world.is_api_down = false;
  world.pass(10s);
  CHECK(world.status().generation == 2);
  CHECK(world.status().start_step == 10);
}

TEST_CASE("reform: from storage, progress is what the gang goes on from", "[launcher]") {
  GangWorld world({.launchers = 1});
  world.run_to_training();
  world.report(90);
  world.pass(1s);
  REQUIRE(world.status().progress->step == 90);
  world.stored = {.step = 8, .load_uri = "file:///8"};
  world.exit_process(0, 128 + kKilled, kKilled);
  CHECK(world.status().progress->step == 8);
  world.say(0, hello(5000));
  world.report(9);
  world.pass(11s);
  CHECK(world.status().progress->step == 9);
}

TEST_CASE("reform: an edited failure policy holds for the next signal", "[launcher]") {
  GangWorld world({.launchers = 2});
  world.run_to_training();
  // Only the leader watches the record.
  world.edit_spec([](api::WorkerGroupSpec& spec) { spec.is_in_place = false; });
  world.exit_process(1, 128 + kKilled, kKilled);
  world.obey_stops();
  world.pass(2s);
  CHECK(world.node(1).exit_code == 128 + kKilled);
  CHECK(world.status().generation == 1);
  REQUIRE(world.status().failures.size() == 1);
  CHECK(world.status().failures[0].cause == "Signal");
}

TEST_CASE("reform: a generation in which nobody was welcomed costs nothing", "[launcher]") {
  GangWorld world = broken_gang(2);
  world.say(0, channel::Parked{.generation = 1, .step = 10});
  REQUIRE(world.status().generation == 2);
  // The new process dies before it says hello.
  world.exit_process(1, 128 + kKilled, kKilled);
  REQUIRE(world.status().generation == 3);
  CHECK(world.status().base_generation == 1);
  CHECK(world.status().start_step == 10);
  // Generation 2 made no step: it is off the line.
  CHECK(world.status().lineage.size() == 2);
  world.say(1, hello(5001));
  CHECK(world.told<channel::Welcome>(0)->generation == 3);
  CHECK(world.told<channel::Welcome>(0)->base_generation == 1);
}

TEST_CASE("reform: a process that does not come to rest is replaced", "[launcher]") {
  GangWorld world = broken_gang();
  world.say(0, channel::Parked{.generation = 1, .step = 10});
  world.pass(29s);
  CHECK(world.node(1).kills == 0);
  world.pass(2s);
  CHECK(world.node(1).kills == 1);
  CHECK(world.status().generation == 1);
  world.exit_process(1, 128 + kKilled, kKilled);
  CHECK(world.status().generation == 2);
  CHECK(world.node(1).replacements == 1);
  REQUIRE(world.status().failures.size() == 2);
  CHECK(world.status().failures[1].message.find("did not come to rest") != std::string::npos);
}

TEST_CASE("reform: the attempt ends where nothing is won", "[launcher]") {
  SECTION("again and again without a new step") {
    GangWorld world({.launchers = 2});
    world.run_to_training();
    for (int i = 0; i < 3; ++i) {
      world.exit_process(1, 128 + kKilled, kKilled);
      world.say(0, channel::Parked{.generation = world.status().generation, .step = 0});
      world.say(1, hello(5000));
    }
    CHECK(world.status().generation == 4);
    world.exit_process(1, 128 + kKilled, kKilled);
    world.pass(200ms);
    world.obey_stops();
    world.pass(2s);
    CHECK(world.node(0).exit_code == api::kExitRetry);
    // It is its process that was killed, and it says so.
    CHECK(world.node(1).exit_code == 128 + kKilled);
    REQUIRE_FALSE(world.node(1).terminations.empty());
    CHECK(world.node(1).terminations.back().cause == "Signal");
    REQUIRE_FALSE(world.status().failures.empty());
    CHECK(world.status().failures.back().generation == world.status().generation);
  }
  SECTION("a rank has trained to the end") {
    GangWorld world({.launchers = 2});
    world.run_to_training();
    world.exit_process(0, 0);
    world.exit_process(1, 128 + kKilled, kKilled);
    world.pass(200ms);
    world.obey_stops();
    world.pass(2s);
    CHECK(world.node(1).exit_code.has_value());
    CHECK(world.status().generation == 1);
  }
  SECTION("a member that never reports") {
    GangWorld world = broken_gang();
    world.say(0, channel::Parked{.generation = 1, .step = 10});
    world.pass(121s);
    world.obey_stops();
    world.pass(2s);
    for (std::size_t i = 0; i < 3; ++i) CHECK(world.node(i).exit_code.has_value());
    CHECK(world.status().generation == 1);
  }
  SECTION("an exit code of the program's own") {
    GangWorld world = broken_gang();
    world.exit_process(1, 1);
    world.obey_stops();
    world.pass(2s);
    CHECK(world.node(1).exit_code == 1);
    CHECK(world.status().generation == 1);
  }
  SECTION("the failure policy has something to say of signals") {
    GangWorld world({.launchers = 2, .is_in_place = false});
    world.run_to_training();
    world.exit_process(1, 128 + kKilled, kKilled);
    world.obey_stops();
    world.pass(2s);
    CHECK(world.node(1).exit_code == 128 + kKilled);
    CHECK(world.node(1).replacements == 0);
  }
  SECTION("before there is a gang") {
    GangWorld world({.launchers = 2});
    world.record.spec.target_members = 3;
    world.settle();
    world.exit_process(1, 128 + kKilled, kKilled);
    CHECK(world.status().generation == 0);
    CHECK(world.node(1).replacements == 0);
  }
}

TEST_CASE("reform: shards of the generation before are nobody's", "[launcher]") {
  GangWorld world({.launchers = 2});
  world.run_to_training();
  // Rank 0 has sealed step 10; rank 1 dies before it does.
  world.say(0, channel::Sealed{.buffer = 0, .step = 10, .bytes = 8, .manifest_json = "{}"});
  world.report(10);
  world.pass(200ms);
  world.exit_process(1, 128 + kKilled, kKilled);
  world.say(0, channel::Parked{.generation = 1, .step = 10});
  world.say(1, hello(5000));
  REQUIRE(world.status().generation == 2);
  world.say(1, channel::Sealed{.buffer = 0, .step = 10, .bytes = 8});
  world.report(11);
  world.pass(200ms);
  CHECK(world.published.empty());
  world.seal_all(12);
  world.report(12);
  world.pass(200ms);
  CHECK(world.published == std::vector<std::int64_t>{12});
}

TEST_CASE("reform: a suspension waits until the gang is whole, and saves", "[launcher]") {
  GangWorld world = broken_gang(2);
  world.edit_spec([](api::WorkerGroupSpec& spec) { spec.is_stopping = true; });
  CHECK(world.told<channel::Stop>(0) == nullptr);
  world.say(0, channel::Parked{.generation = 1, .step = 10});
  world.say(1, hello(5000));
  world.pass(200ms);
  REQUIRE(world.told<channel::Stop>(0) != nullptr);
  CHECK(world.told<channel::Stop>(0)->is_saving);
}
