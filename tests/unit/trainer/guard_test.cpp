#include "trainer-runtime/optim/guard.h"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cmath>

#include "tests/unit/trainer/gang.h"
#include "trainer-runtime/parallel/digests.h"

using namespace pawl;
using optim::Verdict;
using test::Rank;

TEST_CASE("guard: a step that is not finite ends the run, or is skipped so often and no more",
          "[trainer]") {
  optim::GuardState state;
  GuardConfig config;
  CHECK(optim::judge(config, 2.0, 1.0, state).verdict == Verdict::kGood);
  CHECK(optim::judge(config, NAN, 1.0, state).verdict == Verdict::kFail);
  CHECK(optim::judge(config, 2.0, INFINITY, state).verdict == Verdict::kFail);
  config.on_bad_step = "skip";
  config.skips_max = 2;
  CHECK(optim::judge(config, INFINITY, 1.0, state).verdict == Verdict::kSkip);
  CHECK(optim::judge(config, 2.0, NAN, state).why ==
        "loss 2 and gradient norm nan: skipped, 2 in a row, 2 of the run");
  const optim::GuardState before = state;
  CHECK(optim::judge(config, 2.0, NAN, state).why ==
        "loss 2 and gradient norm nan, after 2 in a row that were skipped (guard.skips_max)");
  CHECK(state == before);
  CHECK(optim::judge(config, 2.0, 1.0, state).verdict == Verdict::kGood);
  CHECK(optim::judge(config, 2.0, NAN, state).verdict == Verdict::kSkip);
  CHECK(state == optim::GuardState{.usual_norm = 1, .steps = 2, .in_row = 1, .skipped = 3});
}

TEST_CASE("guard: a spike is a norm far above the usual, once that is known", "[trainer]") {
  optim::GuardState state;
  GuardConfig config{.on_bad_step = "skip", .spike = 5};
  for (int step = 0; step < optim::kStepsToKnow; ++step)
    CHECK(optim::judge(config, 2.0, step == 3 ? 40.0 : 1.0, state).verdict == Verdict::kGood);
  CHECK(std::abs(state.usual_norm - 59.0 / 20) < 1e-12);
  CHECK(optim::judge(config, 2.0, 14.7, state).verdict == Verdict::kGood);
  const double usual = state.usual_norm;
  CHECK(optim::judge(config, 2.0, 5.1 * usual, state).verdict == Verdict::kSkip);
  CHECK(state.usual_norm == usual);  // a spike is nothing to get used to
  for (int step = 0; step < 1'000; ++step) optim::judge(config, 2.0, 2.0, state);
  CHECK(std::abs(state.usual_norm - 2) < 0.01);
  config.on_bad_step = "fail";
  CHECK(optim::judge(config, 2.0, 100, state).verdict == Verdict::kFail);
  config.spike = 0;
  CHECK(optim::judge(config, 2.0, 100, state).verdict == Verdict::kGood);
}

TEST_CASE(
    "trainer: skipped steps change nothing but the place in the data, on all ranks and "
    "after a recovery",
    "[trainer]") {
  const test::Folder folder;
  TrainerConfig config = test::small_config(folder.write("text", test::small_text(40'000)));
  config.steps = 40;
  config.determinism = "exact";
  config.guard = {.on_bad_step = "skip", .spike = 1.5, .skips_max = 40, .digest_every = 3};
  config.optimizer.learning_rate = 0.05;  // wild enough
  config.optimizer.clip_norm = 0;
  const std::string uri = "file://" + folder.path() + "/checkpoints";
  const auto whole =
      test::run_gang(config, {.world_size = 1, .checkpoint_uri = uri, .prepare = [](Rank& rank) {
                                test::order_at(rank, 35, {.is_checkpoint_wanted = true});
                              }});
  REQUIRE(whole[0].outcome);
  const auto skips = [](const Rank& rank) {
    std::vector<std::string> notes;
    for (const auto& report : rank.session.reports)
      if (report.note.find("skipped") != std::string::npos) notes.push_back(report.note);
    return notes;
  };
  REQUIRE(skips(whole[0]).size() >= 2);
  const auto three = test::run_gang(config, {.world_size = 3});
  for (const Rank& rank : three) {
    REQUIRE(rank.outcome);
    CHECK(test::is_equal(*rank.arrays, *whole[0].arrays));
  }
  CHECK(skips(three[0]) == skips(whole[0]));
  const auto resumed = test::run_gang(
      config, {.world_size = 2, .checkpoint_uri = uri, .load_step = 36, .attempt = 2});
  for (const Rank& rank : resumed) {
    REQUIRE(rank.outcome);
    CHECK(test::is_equal(*rank.arrays, *whole[0].arrays));
  }
  CHECK(resumed[0].start.optimizer_step < 36);
  CHECK(resumed[0].start.guard.skipped + resumed[0].start.optimizer_step == 36);
}

TEST_CASE("trainer: a run that skips ends when too many in a row are bad", "[trainer]") {
  const test::Folder folder;
  TrainerConfig config = test::small_config(folder.write("text", test::small_text(40'000)));
  config.guard = {.on_bad_step = "skip", .skips_max = 3};
  const auto ranks = test::run_gang(config, {.world_size = 2, .prepare = [](Rank& rank) {
                                               rank.arrays->parameters.span().back() = NAN;
                                             }});
  for (const Rank& rank : ranks) {
    REQUIRE(!rank.outcome);
    CHECK(rank.outcome.error().message.find("Diverged: step 4 has ") != std::string::npos);
    CHECK(rank.outcome.error().message.find("3 in a row") != std::string::npos);
  }
  CHECK(ranks[0].session.reports.size() == 2);
}

TEST_CASE("digests: who differs from most is named", "[trainer]") {
  const auto message = [](const std::vector<std::string>& digests) {
    const Status status = parallel::compare_digests(digests);
    return status ? std::string() : status.error().message;
  };
  CHECK(message({"a", "a", "a"}).empty());
  CHECK(message({"a", "b", "a"}).find(": rank 1 differs from the others") != std::string::npos);
  CHECK(message({"c", "a", "b", "a", "a"}).find(": ranks 0, 2 ") != std::string::npos);
  CHECK(message({"a", "b"}).find("no value is that of most ranks") != std::string::npos);
  std::vector<std::string> many(40, "a");
  std::fill_n(many.begin(), 10, "b");
  CHECK(message(many).find("ranks 0, 1, 2, 3, 4, 5, 6, 7 and 2 more") != std::string::npos);
}

TEST_CASE("trainer: ranks that no longer hold the same parameters stop before a checkpoint",
          "[trainer]") {
  const test::Folder folder;
  TrainerConfig config = test::small_config(folder.write("text", test::small_text(40'000)));
  config.guard.digest_every = 5;
  const std::string uri = "file://" + folder.path() + "/checkpoints";
  for (const std::int64_t ordered : {std::int64_t{100}, std::int64_t{2}}) {
    const auto ranks =
        test::run_gang(config, {.world_size = 3, .checkpoint_uri = uri, .prepare = [&](Rank& rank) {
                                  test::order_at(rank, ordered, {.is_checkpoint_wanted = true});
                                  if (rank.ring->rank() == 1)
                                    rank.arrays->parameters.span().front() += 1e-3F;
                                }});
    const std::int64_t steps = ordered == 2 ? 3 : 5;
    for (const Rank& rank : ranks) {
      REQUIRE(!rank.outcome);
      CHECK(rank.outcome.error().code == Code::kCorrupt);
      CHECK(rank.outcome.error().message.find("rank 1 differs") != std::string::npos);
    }
    CHECK(static_cast<std::int64_t>(ranks[0].session.reports.size()) == steps - 1);
    CHECK_FALSE(std::filesystem::exists(folder.path() + "/checkpoints"));
  }
}
