#include "cli/run/table.h"

#include <catch2/catch_test_macros.hpp>

using namespace pawl;
using namespace pawl::cli;

TEST_CASE("table: a row under its header", "[cli]") {
  api::TrainingJob job;
  job.spec.replicas = 2;
  const TimePoint now{std::chrono::seconds{1'800'000'000}};
  job.meta.creation_time = now - std::chrono::seconds{65};
  CHECK(table_header() == "PHASE      READY  STEP         LOSS     TOK/S    ETA     RESTARTS  AGE");
  CHECK(table_row(view_of(job, {}), now) ==
        "Starting   0/2    -            -        -        -       0         1m05s");

  job.status.phase = "Running";
  job.status.ready = "2/2";
  job.status.restarts.counted = 1;
  api::Progress progress;
  progress.step = 40;
  progress.total_steps = 400;
  progress.loss = "2.81";
  progress.tokens_per_second = "12345.6";
  progress.eta_seconds = 3700;
  CHECK(table_row(view_of(job, progress), now) ==
        "Running    2/2    40/400       2.8100   12346    1h01m   1         1m05s");
}

TEST_CASE("table: progress comes from whoever knows more", "[cli]") {
  api::TrainingJob job;
  api::Progress older, newer;
  older.step = 1;
  older.time = TimePoint{std::chrono::seconds{10}};
  newer.step = 2;
  newer.time = TimePoint{std::chrono::seconds{11}};
  job.status.progress = newer;
  CHECK(view_of(job, older).progress.step == 2);
  job.status.progress = older;
  CHECK(view_of(job, newer).progress.step == 2);
  CHECK(view_of(job, {}).progress.step == 1);
}

TEST_CASE("table: what moves by itself is no change", "[cli]") {
  JobView a, b;
  a.phase = b.phase = "Running";
  b.progress.eta_seconds = 5;
  b.progress.tokens_per_second = "7";
  CHECK(change_key(a) == change_key(b));
  b.progress.step = 1;
  CHECK(change_key(a) != change_key(b));
}
