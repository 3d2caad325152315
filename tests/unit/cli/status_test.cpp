#include "cli/status/status_text.h"

#include <catch2/catch_test_macros.hpp>

#include "tests/unit/cli/snapshot_fixture.h"

using namespace pawl;
using namespace pawl::cli;

namespace {

api::Progress some_progress(TimePoint now) {
  api::Progress progress;
  progress.step = 400;
  progress.total_steps = 800;
  progress.percent = 50;
  progress.eta_seconds = 4985;
  progress.loss = "2.1234";
  progress.samples_per_second = "12.345";
  progress.time = now - std::chrono::seconds{5};
  return progress;
}

}  // namespace

TEST_CASE("status: the table shows the ETA as people read it, jobs by namespace and name",
          "[cli]") {
  SnapshotFixture fixture;
  api::TrainingJob running = fixture.job, fresh;
  running.status.phase = "Running";
  running.status.reason = "Running";
  running.status.ready = "4/4";
  running.status.progress = some_progress(fixture.now);
  running.status.restarts = {.counted = 1, .free = 2};
  fresh.meta = {
      .name = "a", .ns = "team-b", .creation_time = fixture.now - std::chrono::seconds{3}};
  CHECK(status_table({fresh, running}, {.has_namespace = true}, fixture.now) ==
        "NAMESPACE  NAME  PHASE    READY  STEP     LOSS    ETA    RESTARTS  AGE\n"
        "team-a     gpt   Running  4/4    400/800  2.1234  1h23m  3         1h00m\n"
        "team-b     a     Pending  -      -        -       -      0         3s\n");
  running.status.recoveries.in_place = 12;
  running.status.goodput.percent = 83;
  CHECK(status_table({running}, {.is_wide = true}, fixture.now) ==
        "NAME  PHASE    READY  STEP     LOSS    ETA    RESTARTS  AGE    REASON   CKPT  RECOVERIES  "
        "GOODPUT  ATTEMPT  MESSAGE\n"
        "gpt   Running  4/4    400/800  2.1234  1h23m  3         1h00m  Running  -     12          "
        "83%      2        0/4 workers ready\n");
}

TEST_CASE("status: the page tells what held-out data says", "[cli]") {
  SnapshotFixture fixture;
  fixture.job.status.progress = some_progress(fixture.now);
  api::Validation& validation = fixture.job.status.progress->validation.emplace();
  validation = {
      .step = 300, .loss = "2.1", .accuracy = "0.52", .best_step = 300, .best_loss = "2.1"};
  const auto has = [&](const std::string& text) {
    return status_page(fixture.snapshot()).find(text + "\n") != std::string::npos;
  };
  CHECK(has("  validation    loss 2.1, accuracy 0.52 after step 300, the best of the run"));
  validation = {.step = 400, .loss = "2.3", .best_step = 300, .best_loss = "2.1"};
  CHECK(
      has("  validation    loss 2.3 after step 400; the best of the run: loss 2.1 after step 300"));
}

TEST_CASE("status: the page tells the whole of one job", "[cli]") {
  SnapshotFixture fixture;
  const TimePoint now = fixture.now;
  fixture.say("Restarting", "OOM", "attempt 2 follows: rank 1 ran out of memory");
  fixture.hold("Restarting", "OOM", "attempt 2 follows: rank 1 ran out of memory");
  fixture.job.status.conditions.push_back({.type = "CheckpointHealthy",
                                           .status = "False",
                                           .reason = "Slow",
                                           .message = "the last took 9 min"});
  fixture.job.status.conditions.push_back(
      {.type = "Running", .status = "False", .reason = "Restarting"});
  fixture.job.status.ready = "1/4";
  fixture.job.status.start_time = now - fixture.minutes(50);
  fixture.job.status.progress = some_progress(now);
  fixture.job.status.checkpoint = {.step = 380,
                                   .uri = "file:///data/step-00000380-a01-g0001",
                                   .time = now - std::chrono::seconds{40},
                                   .size_bytes = 1536,
                                   .count = 12};
  fixture.job.status.restarts = {
      .counted = 1, .free = 2, .by_cause = {{"NodeLost", 2}, {"OOM", 1}}};
  fixture.job.status.recoveries.in_place = 3;
  fixture.job.status.recoveries.resizes = 1;
  fixture.job.status.recoveries.by_cause = {{"Hang", 1}, {"Signal", 2}};
  fixture.job.status.capacity = {
      .is_spot_avoided = true, .until = now + fixture.minutes(4), .times = 2};
  fixture.job.status.goodput.productive_seconds = 2'400;
  fixture.job.status.goodput.lost_seconds = 100;
  fixture.job.status.goodput.percent = 96;
  fixture.job.status.goodput.lost_by_cause = {{"NodeLost", 40}, {"Redone", 60}};
  api::Failure failure;
  failure.rank = 1;
  failure.pod = "gpt-1-1-0";
  failure.node = "node-1";
  failure.cause = "OOM";
  failure.log_tail = "allocating\nkilled\n";
  failure.attempt = 1;
  failure.time = now - fixture.minutes(3);
  fixture.job.status.last_failure = failure;
  fixture.add_worker(0).pod.is_ready = true;
  SeenWorker& pending = fixture.add_worker(1);
  pending.pod.phase = api::PodPhase::kPending;
  pending.pod.node.clear();
  pending.pod.unschedulable_message = "0/3 nodes";
  fixture.form_gang({0});
  fixture.unread = {"nodes: you may not"};
  CHECK(status_page(fixture.snapshot()) ==
        R"(gpt in namespace team-a: Restarting
  why           OOM: attempt 2 follows: rank 1 ran out of memory
  ready         1/4 workers
  attempt       2, started 50m00s ago
  progress      step 400/800 (50%), loss 2.1234, 12.3 samples/s, ETA 1h23m, 5s ago
  checkpoint    step 380, 40s ago, 1.5 KiB, 12 published so far
                file:///data/step-00000380-a01-g0001
  restarts      1 of 6 counted, 2 free (NodeLost 2, OOM 1)
  recoveries    3 in place (Hang 1, Signal 2), 1 for another size
  spot          avoided for another 4m00s, time 2 in a row
  goodput       96%, 40m00s of new steps, 1m40s lost: Redone 1m00s, NodeLost 40s
  conditions    Restarting=True OOM, for 5m00s
                CheckpointHealthy=False Slow: the last took 9 min
  last failure  rank 1 (pod gpt-1-1-0 on node node-1) ran out of memory in attempt 1, cause OOM, 3m00s ago
                | allocating
                | killed
  not shown     nodes: you may not

  RANK  ATTEMPT  POD        PHASE          READY  NODE    AGE
  0     2        gpt-2-0-0  Running        yes    node-0  2m00s
  -     2        gpt-2-1-0  Unschedulable  no     -       2m00s
)");
}

TEST_CASE("status: a job that nobody has looked at has a page too", "[cli]") {
  JobSnapshot snapshot;
  snapshot.job.meta = {.name = "a", .ns = "b"};
  CHECK(status_page(snapshot) == R"(a in namespace b: Pending
  why           no operator has looked at it yet
  ready         - workers
  attempt       none yet
  restarts      0 of 6 counted, 0 free
)");
}

TEST_CASE("status: spot machines that were taken are told as long as they count", "[cli][I41]") {
  SnapshotFixture fixture;
  const TimePoint now = fixture.now;
  api::CapacityStatus& capacity = fixture.job.status.capacity;
  const auto page_with = [&] { return status_page(fixture.snapshot()); };
  capacity.lost_pods = {"gpt-1-1-0"};
  capacity.lost_since = now - fixture.minutes(4);
  CHECK(page_with().find("spot          1 worker taken in the last 4m00s\n") != std::string::npos);
  capacity.lost_pods.emplace_back("gpt-1-2-0");
  capacity.until = now - fixture.minutes(30);
  CHECK(page_with().find("2 workers taken in the last 4m00s; was avoided until 30m00s ago\n") !=
        std::string::npos);
  capacity.lost_since = now - fixture.minutes(11);
  CHECK(page_with().find("spot          was avoided until 30m00s ago\n") != std::string::npos);
  capacity.until.reset();
  CHECK(page_with().find("spot  ") == std::string::npos);
}
