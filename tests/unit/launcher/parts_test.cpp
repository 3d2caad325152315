#include <catch2/catch_test_macros.hpp>
#include <limits>

#include "launcher/membership/checkpoint_ledger.h"
#include "launcher/membership/lineage.h"
#include "launcher/membership/membership.h"
#include "launcher/membership/progress_view.h"

using namespace pawl;
using namespace pawl::membership;

TEST_CASE("lineage: what began after the new start is off the line; empty generations make room",
          "[launcher]") {
  using Lines = std::vector<api::LineageEntry>;
  struct Row {
    const char* what;
    Lines before;
    api::LineageEntry entry;
    Lines after;
  };
  const Row rows[] = {
      {"the first", {}, {1, 1, 0}, {{1, 1, 0}}},
      {"goes on", {{1, 1, 0}}, {2, 2, 50}, {{1, 1, 0}, {2, 2, 50}}},
      {"falls back behind a later start",
       {{1, 1, 0}, {2, 2, 50}},
       {3, 3, 40},
       {{1, 1, 0}, {3, 3, 40}}},
      {"from the beginning", {{1, 1, 0}, {2, 2, 50}}, {3, 3, 0}, {{3, 3, 0}}},
      {"a crash loop", {{1, 1, 0}, {2, 2, 50}, {3, 3, 50}}, {4, 4, 50}, {{1, 1, 0}, {4, 4, 50}}},
  };
  for (const Row& row : rows) {
    INFO(row.what);
    CHECK(extend_lineage(row.before, row.entry) == row.after);
  }
  // Generation 3 began behind a step that a member of generation 2 then turned out to hold.
  CHECK(extend_lineage({{1, 1, 0}, {1, 2, 40}, {1, 3, 49}}, {1, 4, 50}, 2) ==
        Lines{{1, 1, 0}, {1, 2, 40}, {1, 4, 50}});
  // A gang that was at rest went on only to save: its checkpoint is of the step that it began with.
  CHECK(extend_lineage({{1, 1, 0}, {1, 2, 50}}, {2, 3, 50}, 0, 50) ==
        Lines{{1, 1, 0}, {1, 2, 50}, {2, 3, 50}});
  Lines many;
  for (int i = 0; i < 40; ++i) many = extend_lineage(many, {i, i, 10 * i});
  CHECK(many.size() == kLineageMax);
  CHECK(many.back().start_step == 390);
  // A checkpoint of step 15 lies on the second entry, which stays.
  Lines bare;
  for (int i = 0; i < 40; ++i) bare = extend_lineage(bare, {1, i, 10 * i}, i - 1, 15);
  CHECK(bare.size() == kLineageMax);
  CHECK(bare[1] == api::LineageEntry{1, 1, 10});
  CHECK(bare.back().start_step == 390);
}

TEST_CASE("checkpoint_ledger: a step is published once, whole and confirmed; older ones are let go",
          "[launcher]") {
  CheckpointLedger ledger;
  ledger.begin_generation(2, 0);
  ledger.add({.rank = 1, .step = 10});
  ledger.add({.rank = 1, .step = 10});
  ledger.add({.rank = 7, .step = 10});
  CHECK_FALSE(ledger.publishable());
  ledger.add({.rank = 0, .step = 10, .manifest_json = "m"});
  CHECK_FALSE(ledger.publishable());
  ledger.confirm(10);
  REQUIRE(ledger.publishable() == 10);
  for (const int rank : {0, 1}) ledger.add({.rank = rank, .step = 20});
  CHECK(ledger.publishable() == 10);
  ledger.confirm(25);
  REQUIRE(ledger.publishable() == 20);
  CHECK(ledger.take(20).size() == 2);
  CHECK_FALSE(ledger.publishable());
  for (const int rank : {0, 1}) ledger.add({.rank = rank, .step = 20});
  CHECK_FALSE(ledger.publishable());
}

TEST_CASE("checkpoint_ledger: another generation begins with its start, whatever was before",
          "[launcher]") {
  CheckpointLedger ledger;
  ledger.begin_generation(2, 0);
  ledger.add({.rank = 0, .step = 30});
  for (const int rank : {0, 1}) ledger.add({.rank = rank, .step = 20});
  ledger.confirm(30);
  CHECK(ledger.take(20).size() == 2);
  // From storage, which has not got step 20.
  ledger.begin_generation(2, 10);
  CHECK(ledger.confirmed() == 10);
  CHECK(ledger.newest() == 10);
  ledger.add({.rank = 1, .step = 30});
  for (const int rank : {0, 1}) ledger.add({.rank = rank, .step = 20});
  CHECK_FALSE(ledger.publishable());
  ledger.confirm(30);
  CHECK(ledger.publishable() == 20);
}

TEST_CASE(
    "checkpoint_ledger: a step of which a shard was lost is never published, and named when all "
    "ranks have answered",
    "[launcher]") {
  using Steps = std::vector<std::int64_t>;
  CheckpointLedger ledger;
  ledger.begin_generation(3, 0);
  ledger.confirm(40);
  ledger.add({.rank = 0, .step = 30});
  ledger.drop(30, 1);
  ledger.drop(30, 1);
  ledger.drop(30, 9);
  CHECK(ledger.take_lost().empty());  // rank 2 may still be writing
  ledger.add({.rank = 1, .step = 30});
  CHECK_FALSE(ledger.publishable());
  ledger.add({.rank = 2, .step = 30});
  CHECK_FALSE(ledger.publishable());
  CHECK(ledger.take_lost() == Steps{30});
  CHECK(ledger.take_lost().empty());
  for (const int rank : {0, 1, 2}) ledger.add({.rank = rank, .step = 30});
  ledger.drop(30, 0);
  CHECK_FALSE(ledger.publishable());
  CHECK(ledger.take_lost().empty());
  for (const int rank : {0, 1, 2}) ledger.add({.rank = rank, .step = 40});
  CHECK(ledger.publishable() == 40);
}

TEST_CASE("progress_view: percent, remaining time, numbers as text", "[launcher]") {
  FakeClock clock;
  ProgressView view;
  view.add({.step = 10, .total_steps = 100, .loss = 1.23456}, {clock.steady_now(), clock.now()});
  CHECK(view.value()->percent == 10);
  CHECK_FALSE(view.value()->eta_seconds.has_value());
  clock.advance(std::chrono::seconds{20});
  view.add({.step = 30, .total_steps = 100, .loss = std::numeric_limits<double>::quiet_NaN()},
           {clock.steady_now(), clock.now()});
  CHECK(view.value()->eta_seconds == 70);
  CHECK(view.value()->loss == "NaN");
  view.add({.step = 20, .total_steps = 100}, {clock.steady_now(), clock.now()});
  CHECK(view.value()->step == 30);
}

TEST_CASE("progress_view: a script that tells no loss has none, not one of 0", "[launcher]") {
  FakeClock clock;
  ProgressView view;
  view.add({.step = 1, .has_loss = false}, {clock.steady_now(), clock.now()});
  CHECK(view.value()->step == 1);
  CHECK(view.value()->loss.empty());
}

TEST_CASE("progress_view: who is slow is told after half a minute, and for as long", "[launcher]") {
  FakeClock clock;
  ProgressView view;
  std::int64_t step = 0;
  const auto pass = [&](int seconds, const std::optional<api::Straggler>& slow) {
    for (int i = 0; i < seconds; ++i) {
      clock.advance(std::chrono::seconds{1});
      view.add({.step = ++step, .slow_factor = 2.04}, {clock.steady_now(), clock.now()}, slow);
    }
  };
  const api::Straggler one{.rank = 1, .pod = "pod-1", .node = "a"};
  const api::Straggler other{.rank = 2, .pod = "pod-2", .node = "b"};
  pass(30, one);
  CHECK_FALSE(view.value()->straggler);
  pass(1, one);
  REQUIRE(view.value()->straggler);
  CHECK(view.value()->straggler->pod == "pod-1");
  CHECK(view.value()->straggler->factor == "2.0");
  pass(29, std::nullopt);
  pass(1, one);
  pass(30, other);
  CHECK(view.value()->straggler->rank == 1);
  pass(1, other);
  CHECK(view.value()->straggler->rank == 2);
  pass(31, std::nullopt);
  CHECK_FALSE(view.value()->straggler);
}

TEST_CASE("progress_view: what held-out data says stands beside the step", "[launcher]") {
  FakeClock clock;
  ProgressView view;
  const auto add = [&](api::channel::Report report) {
    report.total_steps = 100;
    view.add(report, {clock.steady_now(), clock.now()});
  };
  add({.step = 1});
  CHECK_FALSE(view.value()->validation);
  api::channel::Report report{.step = 9};
  report.validation_step = 8;
  report.validation_loss = 1.25;
  report.best_step = 4;
  report.best_loss = 0.5;
  add(report);
  CHECK(view.value()->validation ==
        api::Validation{.step = 8, .loss = "1.2500", .best_step = 4, .best_loss = "0.5000"});
  report.validation_accuracy = 1.0 / 3;
  report.validation_step = std::numeric_limits<std::int64_t>::max();
  report.best_step = -1;
  report.best_loss = -1e300;
  add(report);
  CHECK(view.value()->validation->accuracy == "0.3333");
  CHECK(view.value()->validation->step == 9'007'199'254'740'991);
  CHECK(view.value()->validation->best_step == 0);
  CHECK(view.value()->validation->best_loss.size() <= 32);
  report.validation_accuracy = 1e300;
  add(report);
  CHECK(view.value()->validation->accuracy.size() <= 32);
}

TEST_CASE("progress_view: a cut leaves nothing of behind it", "[launcher]") {
  api::Progress progress{.step = 90};
  cut(progress, 100);
  CHECK(progress.step == 90);
  progress.validation = {.step = 80, .loss = "1", .best_step = 60, .best_loss = "1"};
  cut(progress, 80);
  CHECK(progress.step == 80);
  CHECK(progress.validation);
  cut(progress, 79);
  CHECK(progress.step == 79);
  CHECK_FALSE(progress.validation);
}

TEST_CASE("progress_view: whatever a process says, the record's limits hold",
          "[launcher][B15][B16][B17][B18][B19][B20]") {
  FakeClock clock;
  ProgressView view;
  view.add({.step = -5, .total_steps = -1, .epoch = -1}, {clock.steady_now(), clock.now()});
  CHECK(view.value()->step == 0);
  CHECK(view.value()->epoch == 0);
  clock.advance(std::chrono::hours{100});
  view.add({.step = 300, .total_steps = 200, .loss = 1e300}, {clock.steady_now(), clock.now()});
  CHECK(view.value()->percent == 100);
  CHECK(view.value()->eta_seconds == 0);
  CHECK(view.value()->loss.size() <= 32);
  view.add({.step = 301, .total_steps = std::numeric_limits<std::int64_t>::max()},
           {clock.steady_now(), clock.now()});
  CHECK(view.value()->percent == 0);
  CHECK(view.value()->eta_seconds <= 9'007'199'254'740'991);
}

TEST_CASE("membership: resourceVersions compare as numbers of any length", "[launcher]") {
  CHECK(is_older("9", "10"));
  CHECK(is_older("99999999999999999999", "100000000000000000000"));
  CHECK_FALSE(is_older("10", "10"));
  CHECK_FALSE(is_older("11", "10"));
}

TEST_CASE("message: text that is no message is Invalid, a newer type is NotFound", "[launcher]") {
  CHECK(decode("").error().code == Code::kInvalid);
  CHECK(decode("{}").error().code == Code::kInvalid);
  CHECK(decode(R"({"type":"join","version":"x"})").error().code == Code::kInvalid);
  CHECK(decode(R"({"type":"from_the_future"})").error().code == Code::kNotFound);
}
