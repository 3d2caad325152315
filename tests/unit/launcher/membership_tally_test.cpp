// What losses cost, as the leader counts it.
#include <catch2/catch_test_macros.hpp>
#include <chrono>

#include "gang_world.h"
#include "launcher/membership/loss_ledger.h"

using namespace pawl;
using namespace pawl::membership;
using namespace pawl::membership::test;
using namespace std::chrono_literals;
using Counts = std::map<std::string, int>;

namespace {

constexpr int kKill = 9;

SteadyPoint at(std::chrono::seconds time) { return SteadyPoint{} + time; }

// At 100 s, which is 12:00:00 here.
constexpr TimePoint kNoon{12h};
api::GangTime time_of(const LossLedger& ledger) { return ledger.time(Now{at(100s), kNoon}); }

// Of attempt 2, at its first step, 40; attempt 1 had made 50, in 30 s.
LossLedger begun() {
  api::Tally known;
  known.time.attempt = 1;
  known.time.step = 50;
  known.time.productive_seconds = 30;
  LossLedger ledger;
  ledger.begin(known, 2);
  ledger.on_commit(7, 39);
  ledger.on_step(40, at(100s));
  return ledger;
}

}  // namespace

TEST_CASE("loss_ledger: the time between steps is productive, or is made again", "[launcher]") {
  LossLedger ledger = begun();
  CHECK(time_of(ledger).productive_seconds == 30);  // what came before the first is the start's
  CHECK(time_of(ledger).attempt == 2);
  ledger.on_step(45, at(105s));
  CHECK(time_of(ledger).lost_by_cause == Counts{{"Redone", 5}});
  ledger.on_step(55, at(115s));  // half of them had been made before
  CHECK(time_of(ledger).lost_by_cause == Counts{{"Redone", 10}});
  CHECK(time_of(ledger).productive_seconds == 35);
  CHECK(time_of(ledger).step == 55);
  ledger.on_step(55, at(125s));  // nothing new
  ledger.on_step(56, at(135s));
  CHECK(time_of(ledger).productive_seconds == 55);
}

TEST_CASE("loss_ledger: when the attempt began to train is told, with what was counted before",
          "[launcher][I39]") {
  api::Tally known;
  known.time.attempt = 1;
  known.time.since = kNoon - 1h;
  known.time.productive_seconds = 30;
  known.time.lost_by_cause = {{"Error", 12}};
  LossLedger ledger;
  ledger.begin(known, 2);
  ledger.on_commit(7, 39);
  CHECK(time_of(ledger).since == kNoon - 1h);
  ledger.on_step(40, at(60s));
  ledger.on_step(70, at(90s));
  const api::GangTime time = time_of(ledger);
  CHECK(time.since == kNoon - 40s);
  CHECK(time.counted_seconds == 42);
  CHECK(time.productive_seconds == 60);
  // A record keeps what it was told first of an attempt, and goes on with a newer one.
  api::GangTime record = time, later = time;
  later.since = kNoon;
  later.counted_seconds = 50;
  raise(record, later);
  CHECK(record == time);
  later.attempt = 3;
  raise(record, later);
  CHECK(record.since == kNoon);
  CHECK(record.counted_seconds == 50);
}

TEST_CASE("loss_ledger: a change costs the time from the last step to the next", "[launcher]") {
  LossLedger ledger = begun();
  ledger.on_step(60, at(120s));
  ledger.on_change(Change::kResized, at(121s));
  SECTION("another size") {
    ledger.on_commit(8, 60);
    ledger.on_step(61, at(124s));
    CHECK(time_of(ledger).lost_by_cause.at("ResizedInPlace") == 4);
  }
  SECTION("and a loss meanwhile") {
    ledger.on_commit(8, 60);
    ledger.on_change(Change::kConnection, at(122s));
    ledger.on_change(Change::kSignal, at(122s));
    ledger.on_change(Change::kWorkerLeft, at(123s));
    api::Recoveries recoveries;
    ledger.count(recoveries);
    CHECK(recoveries.by_cause == Counts{{"Signal", 1}});
    CHECK(recoveries.in_place == 1);
    CHECK(recoveries.resizes == 0);
    ledger.on_commit(9, 60);
    ledger.on_step(61, at(130s));
    CHECK(time_of(ledger).lost_by_cause.at("RecoveredInPlace") == 10);
    CHECK_FALSE(time_of(ledger).lost_by_cause.contains("ResizedInPlace"));
  }
  const std::int64_t productive = time_of(ledger).productive_seconds;
  ledger.on_end(at(200s));
  CHECK(time_of(ledger).productive_seconds == productive);
}

TEST_CASE("loss_ledger: what a change has cost so far is told with its commit", "[launcher][I39]") {
  LossLedger ledger = begun();
  ledger.on_change(Change::kWorkerLost, at(110s));
  ledger.on_proposal(at(140s));
  CHECK(time_of(ledger).lost_by_cause == Counts{{"RecoveredInPlace", 40}});
  ledger.on_proposal(at(141s));  // the first was void
  ledger.on_commit(8, 40);
  ledger.on_step(41, at(145s));
  CHECK(time_of(ledger).lost_by_cause == Counts{{"RecoveredInPlace", 45}});
  ledger.on_proposal(at(150s));  // nothing is being changed
  CHECK(time_of(ledger).lost_by_cause == Counts{{"RecoveredInPlace", 45}});
}

TEST_CASE("loss_ledger: programs that tell no steps count while they run", "[launcher]") {
  LossLedger ledger;
  ledger.begin({}, 1);
  ledger.on_commit(1, 0);
  ledger.on_programs_start(at(10s));
  CHECK(time_of(ledger).productive_seconds == 0);
  ledger.on_change(Change::kWorkerLost, at(70s));
  CHECK(time_of(ledger).productive_seconds == 60);
  CHECK(time_of(ledger).generation == 1);
  ledger.on_commit(2, 0);
  ledger.on_programs_start(at(75s));
  CHECK(time_of(ledger).lost_by_cause == Counts{{"RecoveredInPlace", 5}});

  // Its successor counts what the record does not tell, and not what it does.
  api::Tally told;
  told.time = ledger.time(Now{at(100s), kNoon});
  LossLedger next;
  next.begin(told, 1);
  next.on_programs_ran(2, at(75s), at(175s));
  CHECK(time_of(next).productive_seconds == 160);
  next.on_programs_ran(2, at(75s), at(175s));
  CHECK(time_of(next).productive_seconds == 160);
  SECTION("the first step that is told after all") {
    ledger.on_step(1, at(100s));
    CHECK(time_of(ledger).productive_seconds == 85);
    ledger.on_step(2, at(101s));
    CHECK(time_of(ledger).productive_seconds == 86);
  }
}

TEST_CASE("tally: a recovery in place is counted with its commit", "[launcher][I38]") {
  GangWorld world = GangWorld::training();
  world.pass(5s);
  world.report(20);
  world.exit_process(2, 128 + kKill, kKill);
  const std::size_t writes = world.writes.size();
  SECTION("and once where the reply is lost") { world.lose_replies = 1; }
  SECTION("") {}
  world.park(0, 20);
  world.park(1, 20);
  world.pass(1s);
  REQUIRE(world.status().generation == 2);
  CHECK(world.writes.size() == writes + 1);
  CHECK(world.status().tally.recoveries.in_place == 1);
  CHECK(world.status().tally.recoveries.by_cause == Counts{{"Signal", 1}});
  CHECK(world.status().tally.time.attempt == 1);
  CHECK(world.status().tally.time.step == 20);
  const std::int64_t productive = world.status().tally.time.productive_seconds;
  CHECK(productive >= 4);
  CHECK(productive <= 6);

  world.come_up(2);
  world.pass(3s);
  world.report(21);
  world.pass(11s);
  world.report(22);
  world.pass(11s);
  CHECK(world.status().tally.time.lost_by_cause.at("RecoveredInPlace") >= 3);
  CHECK(world.status().tally.time.productive_seconds >= productive + 10);
}

TEST_CASE("tally: whoever leads next goes on from what the record tells", "[launcher][I38]") {
  GangWorld world = GangWorld::training();
  world.pass(11s);
  world.report(20);
  world.pass(11s);
  world.report(30);
  world.pass(200ms);
  const std::int64_t productive = world.status().tally.time.productive_seconds;
  CHECK(productive >= 21);
  world.kill_launcher(0);
  world.pass(700ms);
  REQUIRE(world.leader() == 1);
  for (const std::size_t node : {std::size_t{1}, std::size_t{2}}) world.park(node, 30);
  const std::size_t other = world.replace_pod(0);
  world.pass(200ms);
  world.come_up(other);
  REQUIRE(world.status().generation == 2);
  CHECK(world.status().tally.recoveries.in_place == 1);
  CHECK(world.status().tally.time.productive_seconds == productive);
}

TEST_CASE("tally: who leads a gang whose programs it never ran does not know how long they did",
          "[launcher][I39]") {
  GangWorld world({.launchers = 2, .runtime = api::RuntimeKind::kTorch, .has_checkpoints = false});
  world.run_to_training();
  world.pass(20s);
  world.kill_launcher(1);
  world.pass(1s);
  const std::size_t other = world.replace_pod(1);
  world.pass(200ms);
  world.nodes[other].is_frozen = true;
  world.obey_stops(128 + 15);
  world.pass(200ms);
  REQUIRE(world.status().generation == 2);
  world.give(0, TerminationAsked{});
  world.pass(200ms);
  REQUIRE(world.leader() == other);
  // It reads that it leads before it hears of the generation.
  std::erase_if(world.nodes[other].inbox,
                [](const Input& input) { return std::holds_alternative<PeerSaid>(input); });
  world.nodes[other].is_frozen = false;
  world.pass(1s);
  CHECK(world.node(other).starts == 0);
  world.obey_stops(128 + 15);
  world.replace_pod(0);
  world.pass(5s);
  CHECK(world.status().generation == 3);
  CHECK(world.status().tally.time.productive_seconds <= 21);
}
