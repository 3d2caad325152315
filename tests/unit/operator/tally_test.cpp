// What losses have cost, as the job's status tells it.
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include "tests/unit/operator/world.h"

using namespace pawl;
using namespace pawl::test;
using std::chrono::seconds;
using Counts = std::map<std::string, int>;

namespace {

std::int64_t whole(const World& world) {
  const api::TrainingJobStatus& status = world.job.status;
  return std::chrono::duration_cast<seconds>(world.now - *status.start_time).count();
}

// Its gang makes its first step in this attempt.
void begin_training(World& world, std::int64_t step) {
  world.group->status.members.clear();
  world.group->status.lineage.clear();
  api::GangTime& time = world.group->status.tally.time;
  time.attempt = world.job.status.attempt;
  time.since = world.now;
  time.counted_seconds = sum_of(time);
  world.report(step);
}

// 20 s after its start it trains, and 100 s later it has made 100 steps.
World trained() {
  World world(2, api::RuntimeKind::kNative);
  world.settle();
  world.now += seconds{20};
  begin_training(world, 1);
  world.settle();
  world.now += seconds{100};
  world.group->status.tally.time.productive_seconds = 100;
  world.report(100, 60);
  world.settle();
  return world;
}

}  // namespace

TEST_CASE("tally: recoveries are told with what is written anyway", "[core][I38][I15]") {
  World world = World::training(3);
  world.settle(seconds{60});
  const int writes = world.status_writes;
  api::Recoveries& recoveries = world.group->status.tally.recoveries;
  recoveries.in_place = 2;
  recoveries.by_cause = {{"Signal", 2}};
  recoveries.resizes = 1;
  world.settle(seconds{60});
  CHECK(world.status_writes == writes);
  world.report(20);
  world.settle(seconds{10});
  CHECK(world.status_writes == writes + 1);
  CHECK(world.job.status.recoveries == recoveries);
  CHECK(world.job.status.restarts.by_cause.empty());
}

TEST_CASE("tally: start and steps add up to the time since the start", "[core][I39]") {
  const World world = trained();
  const api::Goodput& goodput = world.job.status.goodput;
  CHECK(goodput.productive_seconds == 100);
  CHECK(goodput.lost_by_cause == Counts{{"Starting", 20}});
  CHECK(goodput.lost_seconds == 20);
  CHECK(goodput.percent == 83);
  CHECK(goodput.losing.empty());
  CHECK(whole(world) == 120);
}

TEST_CASE("tally: a restart costs the time from the last step to the next", "[core][I39]") {
  World world = trained();
  world.now += seconds{15};  // until its end is seen
  world.fail(0, 1, "Error");
  world.settle();
  REQUIRE(world.job.status.attempt == 2);
  CHECK(world.job.status.goodput.losing == "Error");
  CHECK(world.job.status.goodput.lost_by_cause == Counts{{"Starting", 20}});
  world.settle(seconds{40});
  CHECK(world.job.status.goodput.losing == "Error");
  // The record goes on with what it has counted.
  CHECK(world.group->spec.before.time.productive_seconds == 100);
  CHECK(world.group->spec.before.time.step == 100);
  begin_training(world, 61);
  world.settle();
  CHECK(world.job.status.goodput.losing.empty());
  const auto cost = static_cast<int>(whole(world)) - 120;
  CHECK(cost >= 15);
  CHECK(world.job.status.goodput.lost_by_cause == Counts{{"Error", cost}, {"Starting", 20}});
  // The same record, seen again, costs nothing more.
  world.now += seconds{5};
  world.report(62);
  world.settle();
  CHECK(world.job.status.goodput.lost_seconds == cost + 20);
}

TEST_CASE("tally: steps that are made again are lost, with what the gang lost in place",
          "[core][I39]") {
  World world = trained();
  world.group->status.tally.time.lost_by_cause = {{"Redone", 30}, {"RecoveredInPlace", 4}};
  world.now += seconds{34};
  world.report(101);
  world.settle();
  CHECK(world.job.status.goodput.lost_by_cause ==
        Counts{{"RecoveredInPlace", 4}, {"Redone", 30}, {"Starting", 20}});
  CHECK(world.job.status.goodput.percent == 64);
}

TEST_CASE("tally: suspended time is nobody's", "[core][I39][I19][I20]") {
  World world = trained();
  world.set_suspended(true);
  world.settle(seconds{60});
  REQUIRE(world.condition("Suspended") == "True");
  world.now += seconds{10'000};
  world.set_suspended(false);
  world.settle();
  CHECK(world.job.status.goodput.losing == "Starting");
  CHECK(world.job.status.goodput.before_seconds == 120);
  world.settle(seconds{7});
  begin_training(world, 101);
  world.settle();
  CHECK(world.job.status.goodput.lost_by_cause ==
        Counts{{"Starting", 20 + static_cast<int>(whole(world))}});
  CHECK(world.job.status.goodput.productive_seconds == 100);
}

TEST_CASE("tally: in the end all of the time is accounted for", "[core][I39][I10]") {
  World world = trained();
  world.now += seconds{9};
  world.group->status.is_finished = true;
  world.succeed_all();
  world.settle(seconds{10});
  REQUIRE(world.condition("Complete") == "True");
  const api::Goodput goodput = world.job.status.goodput;
  const auto time = *world.job.status.completion_time - *world.job.status.start_time;
  CHECK(seconds{goodput.productive_seconds + goodput.lost_seconds} == time);
  CHECK(goodput.lost_by_cause.at("Other") >= 9);
  // Nothing changes after the end.
  world.group->status.tally.recoveries.in_place = 9;
  world.now += seconds{100};
  world.settle(seconds{60});
  CHECK(world.job.status.goodput == goodput);
  CHECK(world.job.status.recoveries.in_place == 0);
}

TEST_CASE("tally: a program that tells no steps is productive while it runs", "[core][I39]") {
  World world(2);
  world.settle();
  begin_training(world, 0);
  world.group->status.progress.reset();
  world.settle(seconds{5});
  REQUIRE(world.condition("Running") == "True");
  world.now += seconds{1'000};
  world.fail(1, 1, "Error");
  world.settle();
  REQUIRE(world.job.status.attempt == 2);
  const api::Goodput& goodput = world.job.status.goodput;
  CHECK(goodput.productive_seconds >= 1'000);
  CHECK(goodput.productive_seconds + goodput.lost_seconds == whole(world));
  CHECK(goodput.losing == "Error");
}

// What follows the first step is the launchers' to count.
TEST_CASE("tally: a start that is seen late ends when the gang began to train", "[core][I39]") {
  World world(2, api::RuntimeKind::kNative);
  world.settle();
  world.now += seconds{60};
  begin_training(world, 40);
  api::GangTime& time = world.group->status.tally.time;
  time.since = world.now - seconds{40};
  SECTION("it trains on") {
    world.settle();
    CHECK(world.job.status.goodput.lost_by_cause == Counts{{"Starting", 20}});
    CHECK(world.job.status.goodput.losing.empty());
    CHECK(world.job.status.goodput.productive_seconds == 0);
    world.now += seconds{10};
    time.lost_by_cause = {{"RecoveredInPlace", 45}};
    world.report(41);
    world.settle();
    CHECK(world.job.status.goodput.lost_by_cause ==
          Counts{{"RecoveredInPlace", 45}, {"Starting", 20}});
  }
  SECTION("of which the launchers have told a part") {
    time.productive_seconds = 30;
    world.settle();
    CHECK(world.job.status.goodput.lost_by_cause == Counts{{"Starting", 20}});
  }
  SECTION("by a clock that is ahead") {
    time.since = world.now + seconds{100};
    world.settle();
    CHECK(world.job.status.goodput.lost_by_cause == Counts{{"Starting", 60}});
  }
}

TEST_CASE("tally: what began and failed before it was seen has run meanwhile", "[core][I39]") {
  const bool is_silent = GENERATE(true, false);
  World world(2, is_silent ? api::RuntimeKind::kCustom : api::RuntimeKind::kNative);
  world.settle();
  world.now += seconds{60};
  begin_training(world, 40);
  if (is_silent) world.group->status.progress.reset();
  world.group->status.tally.time.since = world.now - seconds{40};
  world.fail(0, 1, "Error");
  world.settle();
  REQUIRE(world.job.status.attempt == 2);
  CHECK(world.job.status.goodput.lost_by_cause == Counts{{"Starting", 20}});
  CHECK(world.job.status.goodput.productive_seconds == (is_silent ? 40 : 0));
  CHECK(world.job.status.goodput.losing == "Error");
}

TEST_CASE("tally: nothing is lost with a record, or with the job's status", "[core][I38][I18]") {
  World world = trained();
  api::Tally& tally = world.group->status.tally;
  tally.recoveries.in_place = 3;
  tally.recoveries.by_cause = {{"Hang", 3}};
  world.report(110);
  world.settle(seconds{5});
  SECTION("the record") {
    world.group.reset();
    world.settle(seconds{30});
    REQUIRE(world.group.has_value());
    REQUIRE(world.job.status.attempt == 2);
    CHECK(world.job.status.goodput.losing == "RecordLost");
    CHECK(world.group->spec.before.recoveries.in_place == 3);
    CHECK(world.group->spec.before.time.productive_seconds == 100);
  }
  SECTION("the status") {
    world.job.status = {};
    world.settle(seconds{30});
    CHECK(world.job.status.goodput.productive_seconds == 100);
  }
  CHECK(world.job.status.recoveries.in_place == 3);
  CHECK(world.job.status.recoveries.by_cause == Counts{{"Hang", 3}});
}
