// Whole runs that begin with weights of a file, and that leave their model behind.
#include <atomic>
#include <catch2/catch_test_macros.hpp>
#include <cmath>

#include "tests/unit/trainer/gang.h"
#include "tests/unit/trainer/weights_files.h"
#include "trainer-runtime/trainer/same_run.h"

using namespace pawl;
using test::Rank;

namespace {

TrainerConfig short_config(const test::Folder& folder) {
  TrainerConfig config = test::small_config(folder.write("text", test::small_text(40'000)));
  config.steps = 5;
  return config;
}

std::string write_weights(const test::Folder& folder, const TrainerConfig& config,
                          std::uint64_t seed) {
  return folder.write(std::to_string(seed) + ".safetensors",
                      test::safetensors_of(test::entries_of(config, seed)));
}

}  // namespace

TEST_CASE("weights: ranks that begin with them train as one process does, and not as without",
          "[trainer]") {
  const test::Folder folder;
  TrainerConfig config = short_config(folder);
  const auto random = test::losses_of(test::run_gang(config, {})[0]);
  config.model.weights = write_weights(folder, config, 3);
  const auto expected = test::losses_of(test::run_gang(config, {})[0]);
  REQUIRE(expected.size() == 5);
  CHECK(std::abs(expected[0] - random[0]) > 1e-3);
  // A copy at another place is as good.
  const std::string copy = folder.path() + "/copy";
  std::filesystem::copy_file(config.model.weights, copy);
  test::GangOptions options{.world_size = 2};
  options.configure = [&](TrainerConfig& mine, int rank) {
    if (rank == 1) mine.model.weights = copy;
  };
  const auto ranks = test::run_gang(config, options);
  for (const Rank& rank : ranks) REQUIRE(rank.outcome == trainer::Outcome::kDone);
  const auto losses = test::losses_of(ranks[0]);
  REQUIRE(losses.size() == 5);
  for (std::size_t i = 0; i < 5; ++i) CHECK(std::abs(losses[i] - expected[i]) < 1e-4 * expected[i]);
  CHECK(test::is_equal(*ranks[0].arrays, *ranks[1].arrays));
}

TEST_CASE("weights: ranks that have read different ones do not train", "[trainer]") {
  const test::Folder folder;
  TrainerConfig config = short_config(folder);
  config.model.weights = write_weights(folder, config, 3);
  const std::string other = write_weights(folder, config, 4);
  test::GangOptions options{.world_size = 3};
  options.configure = [&](TrainerConfig& mine, int rank) {
    if (rank == 2) mine.model.weights = other;
  };
  for (const Rank& rank : test::run_gang(config, options)) {
    REQUIRE_FALSE(rank.outcome);
    CHECK(rank.outcome.error().code == Code::kInvalid);
    CHECK(rank.outcome.error().message.starts_with(
        "model.weights: rank 2 has read other parameters than rank 0"));
    CHECK(rank.session.reports.empty());
  }
  // One with weights and one without do not even form a gang.
  TrainerConfig none = config;
  none.model.weights = "";
  const auto dataset = data::open_dataset(config);
  REQUIRE(dataset);
  CHECK(trainer::agreed_hash(config, **dataset) != trainer::agreed_hash(none, **dataset));
}

TEST_CASE("weights: a run that goes on from a checkpoint does not read them", "[trainer]") {
  const test::Folder folder;
  TrainerConfig config = short_config(folder);
  config.model.weights = write_weights(folder, config, 3);
  const std::string uri = "file://" + folder.path() + "/checkpoints";
  const auto saved = test::run_gang(config, {.world_size = 2, .checkpoint_uri = uri});
  REQUIRE(saved[0].outcome);
  std::filesystem::remove(config.model.weights);
  config.steps = 7;
  const auto resumed = test::run_gang(
      config, {.world_size = 2, .checkpoint_uri = uri, .load_step = 5, .attempt = 2});
  for (const Rank& rank : resumed) REQUIRE(rank.outcome == trainer::Outcome::kDone);
  CHECK(test::losses_of(resumed[0]).size() == 2);
  for (const Rank& rank : test::run_gang(config, {.world_size = 2})) {
    REQUIRE_FALSE(rank.outcome);
    CHECK(rank.outcome.error().message.starts_with("model.weights: "));
    CHECK(rank.outcome.error().message.ends_with(".safetensors: does not exist"));
  }
}

TEST_CASE("weights: rank 0 alone delivers, before it says done, and when it cannot it is not done",
          "[trainer]") {
  const test::Folder folder;
  const TrainerConfig config = short_config(folder);
  for (const bool is_failing : {false, true}) {
    std::atomic<int> delivered = 0;
    test::GangOptions options{.world_size = 3};
    options.deliver = [&](Rank& rank) -> Status {
      ++delivered;
      CHECK(rank.ring->rank() == 0);
      CHECK_FALSE(rank.session.done_step);
      if (is_failing) return fail(Code::kUnavailable, "the volume is full");
      return {};
    };
    const auto ranks = test::run_gang(config, options);
    CHECK(delivered == 1);
    CHECK(ranks[0].session.done_step.has_value() == !is_failing);
    CHECK(ranks[0].outcome.has_value() == !is_failing);
    for (std::size_t i : {1U, 2U}) CHECK(ranks[i].outcome == trainer::Outcome::kDone);
  }
}
