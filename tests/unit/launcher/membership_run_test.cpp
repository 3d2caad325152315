#include <catch2/catch_test_macros.hpp>
#include <chrono>

#include "common/api/contract.h"
#include "gang_world.h"

using namespace pawl;
using namespace pawl::membership;
using namespace pawl::membership::test;
using namespace std::chrono_literals;
namespace channel = pawl::api::channel;

TEST_CASE(
    "membership: a checkpoint is published once all shards are there and the step is confirmed",
    "[launcher]") {
  GangWorld world({.launchers = 2});
  world.run_to_training();
  SECTION("confirmed last") {
    world.seal_all(10);
    CHECK(world.published.empty());
    world.report(10);
    world.pass(200ms);
  }
  SECTION("a shard last") {
    world.report(10);
    world.pass(200ms);
    world.say(0, channel::Sealed{.step = 10, .bytes = 8, .manifest_json = "{}"});
    CHECK(world.published.empty());
    world.say(1, channel::Sealed{.step = 10, .bytes = 8});
  }
  CHECK(world.published == std::vector<std::int64_t>{10});
  REQUIRE(world.status().checkpoint.has_value());
  CHECK(world.status().checkpoint->step == 10);
  CHECK(world.status().checkpoint->count == 1);
  CHECK(world.told<channel::Released>(1) != nullptr);
}

TEST_CASE("membership: a leader that the record has left behind publishes nothing", "[launcher]") {
  GangWorld world({.launchers = 2});
  world.run_to_training();
  world.report(10);
  world.pass(200ms);
  // The watch is late: only the read before the manifest shows what happened.
  world.nodes[0].is_watching = false;
  world.record.status.leader->ref = {"uid-9", "other"};
  world.edit_spec([](api::WorkerGroupSpec&) {});
  world.seal_all(10);
  CHECK(world.published.empty());
}

TEST_CASE("membership: without the API training goes on and publication waits", "[launcher]") {
  GangWorld world({.launchers = 2});
  world.run_to_training();
  world.is_api_down = true;
  world.report(10);
  world.seal_all(10);
  world.pass(20s);
  CHECK(world.published.empty());
  CHECK_FALSE(world.node(0).exit_code.has_value());
  CHECK_FALSE(world.node(1).exit_code.has_value());
  world.is_api_down = false;
  world.pass(6s);
  CHECK(world.published == std::vector<std::int64_t>{10});
  CHECK(world.status().checkpoint->step == 10);
  CHECK(world.status().progress->step == 10);
}

TEST_CASE("membership: progress is written at once the first time, then each reportSeconds",
          "[launcher]") {
  GangWorld world({.launchers = 2});
  world.run_to_training();
  world.report(1);
  world.pass(200ms);
  REQUIRE(world.status().progress.has_value());
  CHECK(world.status().progress->step == 1);
  CHECK(world.status().progress->loss == "2.5000");
  const std::size_t writes = world.writes.size();
  for (int step = 2; step < 32; ++step) {
    world.report(step);
    world.pass(1s);
  }
  CHECK(world.writes.size() - writes == 3);
  CHECK(world.status().progress->eta_seconds.has_value());
}

TEST_CASE("membership: a converged gang writes nothing", "[launcher]") {
  GangWorld world({.launchers = 2});
  world.run_to_training();
  world.report(1);
  world.pass(20s);
  const std::size_t writes = world.writes.size();
  world.pass(300s);
  CHECK(world.writes.size() == writes);
}

TEST_CASE("membership: checkpointNow is passed on once and answered by a later checkpoint",
          "[launcher]") {
  GangWorld world({.launchers = 2});
  world.run_to_training();
  world.report(7);
  world.edit_spec([](api::WorkerGroupSpec& spec) { spec.checkpoint_now = 3; });
  CHECK(world.told<channel::CheckpointNow>(1) != nullptr);
  CHECK(world.status().checkpoint_done == 0);
  world.seal_all(8);
  world.report(8);
  world.pass(200ms);
  CHECK(world.status().checkpoint_done == 3);
  world.nodes[1].told.clear();
  world.pass(1s);
  CHECK(world.told<channel::CheckpointNow>(1) == nullptr);
}

TEST_CASE("membership: the job is finished when all are, and everyone exits 0", "[launcher]") {
  GangWorld world({.launchers = 2});
  world.run_to_training();
  world.seal_all(100);
  world.report(100);
  world.say(0, channel::Done{.step = 100});
  world.exit_process(1, 0);
  world.pass(1s);
  CHECK_FALSE(world.status().is_finished);
  CHECK_FALSE(world.node(1).exit_code.has_value());
  world.exit_process(0, 0);
  CHECK(world.status().is_finished);
  CHECK(world.status().progress->step == 100);
  CHECK(world.status().checkpoint->step == 100);
  CHECK(world.node(0).exit_code == 0);
  CHECK(world.node(1).exit_code == 0);
}

TEST_CASE("membership: with Rank0 the job is finished when the member of rank 0 is",
          "[launcher][A3]") {
  GangWorld world({.launchers = 2});
  world.run_to_training();
  world.edit_spec([](api::WorkerGroupSpec& spec) { spec.is_rank0_enough = true; });
  world.exit_process(1, 0);
  world.pass(1s);
  CHECK_FALSE(world.status().is_finished);
  world.exit_process(0, 0);
  CHECK(world.status().is_finished);

  GangWorld first({.launchers = 2});
  first.run_to_training();
  first.edit_spec([](api::WorkerGroupSpec& spec) { spec.is_rank0_enough = true; });
  first.exit_process(0, 0);
  first.pass(1s);
  CHECK(first.status().is_finished);
  CHECK(first.status().failures.empty());
}

TEST_CASE("membership: a finished member does not wait for ever for the leader", "[launcher]") {
  GangWorld world({.launchers = 2});
  world.run_to_training();
  world.exit_process(1, 0);
  world.pass(11s);
  CHECK(world.node(1).exit_code == 0);
  CHECK_FALSE(world.node(0).exit_code.has_value());  // nor does the leader take that for a failure
}

TEST_CASE("membership: a failed process names itself, the others are victims", "[launcher]") {
  struct Row {
    const char* what;
    std::size_t node;
    int code, signal;
    const char* cause;
  };
  for (const Row& row :
       {Row{"a follower's", 1, 3, 0, "Error"}, Row{"the leader's", 0, 1, 0, "Error"},
        Row{"killed", 1, 137, 9, "Signal"}}) {
    INFO(row.what);
    GangWorld world({.launchers = 2, .is_in_place = false});
    world.run_to_training();
    world.exit_process(row.node, row.code, row.signal);
    CHECK(world.node(1 - row.node).was_stopped);
    world.obey_stops();
    world.pass(200ms);
    REQUIRE(world.status().failures.size() == 1);
    const api::Failure& failure = world.status().failures[0];
    CHECK(failure.rank == static_cast<int>(row.node));
    CHECK(failure.cause == row.cause);
    CHECK(failure.exit_code == row.code);
    CHECK(failure.log_tail == "last words of " + std::to_string(row.node));
    CHECK(world.node(row.node).exit_code == row.code);
    CHECK(world.node(1 - row.node).exit_code == api::kExitRetry);
    REQUIRE(world.node(1 - row.node).terminations.size() == 1);
    CHECK(world.node(1 - row.node).terminations[0].cause == "Victim");
  }
}

TEST_CASE("membership: a victim that reports first does not hide the culprit", "[launcher]") {
  GangWorld world({.launchers = 3});
  world.run_to_training();
  // Rank 2 lost its peer and gave up with "not my fault" before the culprit's own end was seen.
  world.exit_process(2, 75);
  world.pass(300ms);
  CHECK(world.status().failures.empty());
  world.exit_process(1, 137, 9);
  world.obey_stops();
  world.pass(2s);
  REQUIRE(world.status().failures.size() == 1);
  CHECK(world.status().failures[0].rank == 1);
  CHECK(world.node(1).exit_code == 137);
  CHECK(world.node(2).exit_code == 75);
}

TEST_CASE("membership: a victim without a culprit is named after a while", "[launcher]") {
  GangWorld world({.launchers = 2});
  world.run_to_training();
  world.exit_process(1, 75);
  world.obey_stops();
  world.pass(2s);
  REQUIRE(world.status().failures.size() == 1);
  CHECK(world.status().failures[0].cause == "Victim");
}

TEST_CASE("membership: not in place, a lost follower ends the attempt, and is named",
          "[launcher][G3]") {
  GangWorld world({.launchers = 2, .is_in_place = false});
  world.run_to_training();
  SECTION("killed") { world.kill_launcher(1); }
  SECTION("frozen") {
    world.nodes[1].is_frozen = true;
    world.pass(2s);
    CHECK_FALSE(world.node(0).was_stopped);
    world.pass(1s);
  }
  world.obey_stops();
  world.pass(200ms);
  CHECK(world.node(0).exit_code == api::kExitRetry);
  REQUIRE(world.status().failures.size() == 1);
  CHECK(world.status().failures[0].pod == "pod-1");
}

TEST_CASE("membership: not in place, a lost leader ends the attempt within 2.6 s", "[launcher]") {
  GangWorld world({.launchers = 2, .is_in_place = false});
  world.run_to_training();
  SECTION("killed") { world.kill_launcher(0); }
  SECTION("frozen") {
    world.nodes[0].is_frozen = true;
    world.pass(2s);
    CHECK_FALSE(world.node(1).was_stopped);
    world.pass(600ms);
  }
  CHECK(world.node(1).was_stopped);
  world.obey_stops();
  world.pass(100ms);
  CHECK(world.node(1).exit_code == api::kExitRetry);
  CHECK(world.node(1).terminations.at(0).cause == "Victim");
}

TEST_CASE("membership: a launcher that was frozen itself does not take the others for dead",
          "[launcher]") {
  GangWorld world({.launchers = 2});
  world.run_to_training();
  // Both sleep: a suspended machine. Nothing was heard for a minute, and nobody is to blame.
  world.clock.advance(60s);
  world.pass(5s);
  CHECK_FALSE(world.node(0).exit_code.has_value());
  CHECK_FALSE(world.node(1).exit_code.has_value());
}

TEST_CASE("membership: suspend saves, publishes, and everyone leaves with the code for that",
          "[launcher]") {
  GangWorld world({.launchers = 2});
  world.run_to_training();
  world.report(10);
  world.edit_spec([](api::WorkerGroupSpec& spec) { spec.is_stopping = true; });
  for (std::size_t i = 0; i < 2; ++i) {
    const auto* stop = world.told<channel::Stop>(i);
    REQUIRE(stop != nullptr);
    CHECK(stop->is_saving);
  }
  world.report(11);
  world.seal_all(11);
  world.obey_stops();
  world.pass(200ms);
  CHECK(world.published == std::vector<std::int64_t>{11});
  CHECK(world.status().checkpoint->step == 11);
  CHECK(world.node(0).exit_code == api::kExitDrained);
  CHECK(world.node(1).exit_code == api::kExitDrained);
  CHECK(world.status().failures.empty());
}

TEST_CASE("membership: suspended before the gang is whole, or before anybody leads", "[launcher]") {
  GangWorld world({.launchers = 2});
  SECTION("waiting for a member") {
    world.nodes[1].is_frozen = true;
    world.settle();
  }
  SECTION("nobody leads") {
    world.is_api_down = true;
    world.settle();
    world.is_api_down = false;
  }
  world.edit_spec([](api::WorkerGroupSpec& spec) { spec.is_stopping = true; });
  world.nodes[1].is_frozen = false;
  world.pass(200ms);
  world.obey_stops();
  world.pass(1s);
  CHECK(world.node(0).exit_code == api::kExitDrained);
  CHECK(world.node(1).exit_code == api::kExitDrained);
  CHECK(world.status().generation == 0);
}

TEST_CASE("membership: not in place, SIGTERM at one launcher saves and stops the gang",
          "[launcher]") {
  for (const std::size_t told : {std::size_t{0}, std::size_t{1}}) {
    INFO("node " << told);
    GangWorld world({.launchers = 2, .is_in_place = false});
    world.run_to_training();
    world.report(10);
    world.give(told, TerminationAsked{"the cloud takes it back"});
    world.settle();
    REQUIRE(world.told<channel::Stop>(1 - told) != nullptr);
    world.report(11);
    world.seal_all(11);
    world.obey_stops();
    world.pass(300ms);
    CHECK(world.published == std::vector<std::int64_t>{11});
    CHECK(world.node(told).exit_code == api::kExitDrained);
    CHECK(world.node(1 - told).exit_code == api::kExitRetry);
    CHECK(world.status().failures.empty());
    // It says why; the others end because of it.
    REQUIRE(world.node(told).terminations.size() == 1);
    CHECK(world.node(told).terminations[0].cause == "Interrupted");
    REQUIRE(!world.node(1 - told).terminations.empty());
    CHECK(world.node(1 - told).terminations.back().cause == "Victim");
  }
}

TEST_CASE("membership: a process that does not stop is ended, and the launcher leaves",
          "[launcher]") {
  GangWorld world({.launchers = 1});
  world.run_to_training();
  world.give(0, TerminationAsked{});
  world.settle();
  CHECK(world.told<channel::Stop>(0) != nullptr);
  world.nodes[0].was_stopped = false;
  world.pass(21s);
  CHECK(world.nodes[0].was_stopped);  // TERM, then KILL by the supervisor
  world.pass(30s);                    // even KILL does not reach a process in the kernel
  CHECK(world.node(0).exit_code == api::kExitDrained);
}

TEST_CASE("membership: when the job is gone everyone stops, and nothing is published",
          "[launcher]") {
  GangWorld world({.launchers = 2});
  world.run_to_training();
  world.report(10);
  const std::size_t writes = world.writes.size();
  world.give(0, RecordGone{"404"});
  world.settle();
  world.seal_all(10);
  world.obey_stops();
  world.pass(1s);
  CHECK(world.published.empty());
  CHECK(world.writes.size() == writes);
  CHECK(world.node(0).exit_code == api::kExitDrained);
  CHECK(world.node(1).exit_code == api::kExitDrained);
}

TEST_CASE("membership: storage that cannot be read is tried again, and never taken for empty",
          "[launcher]") {
  GangWorld world({.launchers = 1});
  world.stored.error = "stale handle";
  world.settle();
  world.hello_all();
  world.pass(20s);
  CHECK(world.status().generation == 0);
  world.stored = {.step = 30, .load_uri = "u"};
  world.pass(6s);
  CHECK(world.status().start_step == 30);
}
