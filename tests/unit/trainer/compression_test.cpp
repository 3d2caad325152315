// Training with compressed gradients: ranks agree, checkpoints keep what is kept, and it learns.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <filesystem>

#include "tests/unit/trainer/gang.h"
#include "trainer-runtime/parallel/make_reducer.h"

using namespace pawl;
using test::Rank;

namespace {

constexpr std::array kCompressions = {"bf16", "int8", "sign", "top_k"};

TrainerConfig compressed_config(const test::Folder& folder, const std::string& compression) {
  TrainerConfig config = test::small_config(folder.write("text", test::small_text(40'000)));
  config.steps = 16;
  config.guard.digest_every = 4;
  config.parallel.compression = compression;
  config.parallel.compression_share = 0.1;
  return config;
}

bool has_equal_residual(const Rank& a, const Rank& b) {
  return a.arrays->residual.is_summed == b.arrays->residual.is_summed &&
         std::ranges::equal(a.arrays->residual.values.span(), b.arrays->residual.values.span());
}

double size_of_residual(const Rank& rank) {
  double sum = 0;
  for (const float value : rank.arrays->residual.values.span()) sum += std::abs(double{value});
  return sum;
}

test::GangOptions saving_at(std::int64_t poll, int world_size, const std::string& uri) {
  return {.world_size = world_size, .checkpoint_uri = uri, .prepare = [poll](Rank& rank) {
            test::order_at(rank, poll, {.is_checkpoint_wanted = true});
          }};
}

}  // namespace

TEST_CASE("trainer: a compressed run that resumes has the bits of one that saved and went on",
          "[trainer]") {
  for (const char* compression : kCompressions) {
    for (const int world_size : {1, 2, 3}) {
      INFO(compression << ", " << world_size << " ranks");
      const test::Folder folder;
      const TrainerConfig config = compressed_config(folder, compression);
      const std::string uri = "file://" + folder.path() + "/checkpoints";
      const auto whole = test::run_gang(config, saving_at(6, world_size, uri));
      for (const Rank& rank : whole) {
        REQUIRE(rank.outcome);
        CHECK(test::is_equal(*rank.arrays, *whole[0].arrays));
        CHECK(has_equal_residual(rank, whole[0]));  // summed for the last checkpoint
      }
      CHECK(size_of_residual(whole[0]) > 0);
      double loaded = 0;
      const auto resumed = test::run_gang(config, {.world_size = world_size,
                                                   .checkpoint_uri = uri,
                                                   .load_step = 7,
                                                   .attempt = 2,
                                                   .prepare = [&](Rank& rank) {
                                                     CHECK(rank.arrays->residual.is_summed);
                                                     if (rank.ring->rank() == 0)
                                                       loaded = size_of_residual(rank);
                                                   }});
      CHECK(loaded > 0);
      for (const Rank& rank : resumed) {
        REQUIRE(rank.outcome);
        CHECK(test::is_equal(*rank.arrays, *whole[0].arrays));
        CHECK(has_equal_residual(rank, whole[0]));
      }
    }
  }
}

TEST_CASE("trainer: what compressed ranks saved another number of ranks loads, compressed or not",
          "[trainer]") {
  const test::Folder folder;
  TrainerConfig config = compressed_config(folder, "top_k");
  const std::string uri = "file://" + folder.path() + "/checkpoints";
  const auto saved = test::run_gang(config, saving_at(6, 3, uri));
  for (const Rank& rank : saved) REQUIRE(rank.outcome);
  std::vector<double> sizes;
  for (const int world_size : {1, 2, 5}) {
    const auto ranks = test::run_gang(config, {.world_size = world_size,
                                               .checkpoint_uri = uri,
                                               .load_step = 7,
                                               .attempt = 1 + world_size,
                                               .prepare = [&](Rank& rank) {
                                                 if (rank.ring->rank() == 0)
                                                   sizes.push_back(size_of_residual(rank));
                                               }});
    for (const Rank& rank : ranks) {
      REQUIRE(rank.outcome);
      CHECK(test::is_equal(*rank.arrays, *ranks[0].arrays));
    }
    const double before = test::losses_of(saved[0]).back();
    CHECK(std::abs(test::losses_of(ranks[0]).back() / before - 1) < 0.02);
  }
  CHECK(sizes[0] > 0);
  CHECK(sizes == std::vector<double>(3, sizes[0]));
  const auto other = [&](const std::string& compression, std::int64_t attempt) {
    config.parallel.compression = compression;
    double size = -1;
    auto ranks =
        test::run_gang(config, {.world_size = 1,
                                .checkpoint_uri = uri,
                                .load_step = 7,
                                .attempt = attempt,
                                .prepare = [&](Rank& rank) { size = size_of_residual(rank); }});
    REQUIRE(ranks[0].outcome);
    return size;
  };
  CHECK(other("none", 10) == 0);
  CHECK(other("int8", 11) == sizes[0]);  // of whatever kind it was
  // And of a run that kept nothing.
  std::filesystem::remove_all(folder.path() + "/checkpoints");
  config.parallel.compression = "none";
  REQUIRE(test::run_gang(config, saving_at(6, 2, uri))[0].outcome);
  CHECK(other("sign", 2) == 0);
}

TEST_CASE("trainer: a compressed step that is skipped, or ends the run, leaves what is kept",
          "[trainer]") {
  const test::Folder folder;
  TrainerConfig config = compressed_config(folder, "int8");
  config.steps = 60;
  config.guard = {.on_bad_step = "skip", .spike = 1.5, .skips_max = 40, .digest_every = 3};
  config.optimizer.learning_rate = 0.1;  // wild enough
  config.optimizer.clip_norm = 0;
  const std::string uri = "file://" + folder.path() + "/checkpoints";
  const auto skips = [](const Rank& rank) {
    std::vector<std::int64_t> steps;
    for (const auto& report : rank.session.reports)
      if (report.note.find("skipped") != std::string::npos) steps.push_back(report.step);
    return steps;
  };
  const auto plain = test::run_gang(config, {.world_size = 2});
  INFO((plain[0].outcome ? "" : plain[0].outcome.error().message));
  REQUIRE(plain[0].outcome);
  REQUIRE(!skips(plain[0]).empty());
  // Saved right before a step that is skipped: from there the sum is what is left.
  const std::int64_t bad = skips(plain[0]).front();
  const auto whole = test::run_gang(config, saving_at(bad - 2, 2, uri));
  REQUIRE(whole[0].outcome);
  CHECK(skips(whole[0]).front() == bad);
  const auto resumed = test::run_gang(
      config, {.world_size = 2, .checkpoint_uri = uri, .load_step = bad - 1, .attempt = 2});
  for (const Rank& rank : resumed) {
    REQUIRE(rank.outcome);
    CHECK(test::is_equal(*rank.arrays, *whole[0].arrays));
    CHECK(has_equal_residual(rank, whole[0]));
  }
  CHECK(skips(resumed[0]).front() == bad);
  config.guard = {};
  const auto ended = test::run_gang(config, {.world_size = 2, .prepare = [](Rank& rank) {
                                               rank.arrays->parameters.span().back() = NAN;
                                             }});
  for (const Rank& rank : ended) {
    REQUIRE(!rank.outcome);
    CHECK(rank.outcome.error().message.find("Diverged: step 1 ") != std::string::npos);
    CHECK(size_of_residual(rank) == 0);
  }
}

TEST_CASE("make_reducer: the memory it needs", "[trainer]") {
  TrainerConfig config;
  CHECK(parallel::reducer_bytes(config, 1'000, 4) == 4'000);
  config.parallel.compression = "bf16";
  CHECK(parallel::reducer_bytes(config, 1'000, 4) == 12'000 + 4 * (4 + 2'000));
  config.parallel.compression = "none";
  config.determinism = "exact";
  CHECK(parallel::reducer_bytes(config, 1'000, 4) == 12'000);
}

// With momentum, sign and top-k lose some percent (docs/trainer.md).
TEST_CASE("trainer: 500 compressed steps reach the loss of 500 that are not", "[trainer][.long]") {
  const test::Folder folder;
  for (const bool has_momentum : {false, true}) {
    TrainerConfig config = compressed_config(folder, "none");
    config.steps = 500;
    config.parallel.compression_share = 0.01;
    if (!has_momentum) {
      config.optimizer = {.kind = "sgd", .learning_rate = 0.5, .momentum = 0, .weight_decay = 1e-4};
    }
    const auto mean_of = [&](const std::string& compression) {
      config.parallel.compression = compression;
      const auto ranks = test::run_gang(config, {.world_size = 2});
      REQUIRE(ranks[0].outcome);
      const auto losses = test::losses_of(ranks[0]);
      double sum = 0;
      for (auto loss = losses.end() - 20; loss != losses.end(); ++loss) sum += *loss;
      return sum / 20;
    };
    const double want = mean_of("none");
    CHECK(want < 2);
    for (const std::string compression : kCompressions) {
      if (has_momentum && (compression == "sign" || compression == "top_k")) continue;
      const double got = mean_of(compression);
      INFO(config.optimizer.kind << " " << compression << " " << got << ", wanted " << want);
      CHECK(got < 1.01 * want);
    }
  }
}
