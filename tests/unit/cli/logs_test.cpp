#include "cli/logs/log_lines.h"

#include <catch2/catch_test_macros.hpp>

#include "tests/unit/cli/snapshot_fixture.h"

using namespace pawl;
using namespace pawl::cli;

namespace {

std::string pods_of(const Result<LogChoice>& choice) {
  if (!choice) return "error: " + choice.error().message;
  std::string text;
  for (const LogSource& source : choice->sources) text += source.prefix + source.pod + " ";
  return text;
}

}  // namespace

TEST_CASE("logs: a rank is found through the gang's record, not by its slot", "[cli]") {
  SnapshotFixture fixture;
  fixture.add_workers(3);
  fixture.form_gang({2, 0, 1});
  CHECK(pods_of(choose_logs(fixture.snapshot(), {})) == "gpt-2-1-0 ");
  CHECK(pods_of(choose_logs(fixture.snapshot(), {.rank = 2})) == "gpt-2-0-0 ");
  CHECK(pods_of(choose_logs(fixture.snapshot(), {.has_all_ranks = true})) ==
        "[0] gpt-2-1-0 [1] gpt-2-2-0 [2] gpt-2-0-0 ");
  CHECK(pods_of(choose_logs(fixture.snapshot(), {.rank = 3})) ==
        "error: attempt 2 has no pod with rank 3; there are ranks 0 to 2");
  CHECK(choose_logs(fixture.snapshot(), {})->notice.empty());
  CHECK(choose_logs(fixture.snapshot(), {})->sources[0].container == "worker");
}

TEST_CASE("logs: a spare that waits has a rank that is no member's", "[cli][I50][I51]") {
  SnapshotFixture fixture;
  fixture.add_workers(3);
  fixture.form_gang({2, 0, 1});
  auto& members = fixture.group->status.members;
  std::erase_if(members, [](const api::Member& member) { return member.rank == 2; });
  for (api::Member& member : members) member.rank = 1 - member.rank;
  CHECK(pods_of(choose_logs(fixture.snapshot(), {})) == "gpt-2-2-0 ");
  CHECK(choose_logs(fixture.snapshot(), {})->notice.empty());
  CHECK(pods_of(choose_logs(fixture.snapshot(), {.has_all_ranks = true})) ==
        "[0] gpt-2-2-0 [1] gpt-2-1-0 [2] gpt-2-0-0 ");
  CHECK_FALSE(choose_logs(fixture.snapshot(), {.rank = 2})->notice.empty());
}

TEST_CASE("logs: before the gang has formed the slot stands for the rank, and the reader is told",
          "[cli]") {
  SnapshotFixture fixture;
  fixture.add_workers(2);
  const auto choice = choose_logs(fixture.snapshot(), {.rank = 1});
  CHECK(pods_of(choice) == "gpt-2-1-0 ");
  CHECK(choice->notice.find("their place stands for the rank") != std::string::npos);
}

TEST_CASE("logs: a pod without a node has no log, and the reader is told so", "[cli]") {
  SnapshotFixture fixture;
  fixture.add_workers(2);
  fixture.workers[1].pod.node.clear();
  CHECK(pods_of(choose_logs(fixture.snapshot(), {.rank = 1})) ==
        "error: pod gpt-2-1-0 has no node yet, so there is no log; `pawl why gpt -n team-a` says "
        "what it waits for");
  const auto all = choose_logs(fixture.snapshot(), {.has_all_ranks = true});
  CHECK(pods_of(all) == "[0] gpt-2-0-0 ");
  CHECK(all->notice.ends_with("1 more has no node yet"));
  fixture.workers[0].pod.node.clear();
  CHECK(pods_of(choose_logs(fixture.snapshot(), {.has_all_ranks = true}))
            .starts_with("error: the pods of attempt 2 have no node yet"));
}

TEST_CASE("logs: several processes of a pod are told apart by the launcher's prefix", "[cli]") {
  SnapshotFixture fixture;
  fixture.job.spec.processes_per_worker = 2;
  fixture.add_workers(2);
  fixture.form_gang({1, 0});
  const auto one = choose_logs(fixture.snapshot(), {.rank = 3});
  CHECK(pods_of(one) == "gpt-2-0-0 ");
  CHECK(one->sources[0].only_rank == 3);
  CHECK(pods_of(choose_logs(fixture.snapshot(), {.has_all_ranks = true})) ==
        "gpt-2-1-0 gpt-2-0-0 ");
  CHECK_FALSE(choose_logs(fixture.snapshot(), {})->sources[0].only_rank.has_value());

  CHECK(is_line_of("[3] step 4", 3));
  CHECK_FALSE(is_line_of("[2] step 4", 3));
  CHECK(is_line_of("a line of the launcher", 3));
  CHECK(is_line_of("[info] x", 3));
  CHECK(is_line_of("[2]x", 3));
  CHECK(is_line_of("[", 3));
}

TEST_CASE("logs: pods of ended attempts can be read as long as they are there", "[cli]") {
  SnapshotFixture fixture;
  fixture.add_worker(0, 1);
  fixture.add_worker(0, 2);
  CHECK(pods_of(choose_logs(fixture.snapshot(), {.is_previous = true})) == "gpt-1-0-0 ");
  CHECK(pods_of(choose_logs(fixture.snapshot(), {.attempt = 1})) == "gpt-1-0-0 ");
  CHECK(choose_logs(fixture.snapshot(), {.attempt = 1})
            ->notice.starts_with("this is attempt 1; the job is in attempt 2"));
  fixture.job.status.attempt = 3;  // raised, and nothing created yet
  CHECK(pods_of(choose_logs(fixture.snapshot(), {})) == "gpt-2-0-0 ");
}

TEST_CASE("logs: where the pods are gone, what the last failure kept is shown and said to be that",
          "[cli]") {
  SnapshotFixture fixture;
  api::Failure failure;
  failure.rank = 1;
  failure.cause = "Error";
  failure.exit_code = 7;
  failure.attempt = 2;
  failure.log_tail = "Traceback\nValueError";
  fixture.job.status.last_failure = failure;
  const auto kept = choose_logs(fixture.snapshot(), {});
  REQUIRE(kept);
  CHECK(kept->sources.empty());
  CHECK(kept->kept == "Traceback\nValueError");
  CHECK(kept->notice ==
        "the pods of attempt 2 are gone or were never made; this is the end of the log that the "
        "last failure kept: rank 1 ended with exit code 7");
  const auto message = [&](const LogOptions& options) {
    return choose_logs(fixture.snapshot(), options).error().message;
  };
  CHECK(message({.attempt = 1}) == "the pods of attempt 1 are gone or were never made");
  CHECK(message({.attempt = 0}) == "there was no such attempt: attempts are numbered from 1 to 2");
  fixture.job.status.last_failure.reset();
  CHECK(message({}).ends_with(": `pawl why gpt -n team-a` says more"));
  fixture.job.status.attempt = 0;
  CHECK(message({}) ==
        "gpt has not started, so there is no log; `pawl why gpt -n team-a` says what it waits for");
}

TEST_CASE("logs: lines come whole, whatever the pieces", "[cli]") {
  LogLines lines{{{"a", "worker", "[0] ", {}}, {"b", "worker", "", 3}}};
  CHECK(lines.add(0, "one\ntw").compare("[0] one\n") == 0);
  CHECK(lines.add(1, "[2] no\n[3] yes\nlaunch").compare("[3] yes\n") == 0);
  CHECK(lines.add(0, "o\n\n").compare("[0] two\n[0] \n") == 0);
  CHECK(lines.add(0, "").empty());
  CHECK(lines.finish(0).empty());
  CHECK(lines.finish(1) == "launch\n");
  const std::string bar(70'000, '=');
  CHECK(lines.add(0, bar) == "[0] " + bar + "\n");
}
