// ZeRO stage 1: the optimizer's states are sharded, and no bit of the parameters is another.
#include "trainer-runtime/parallel/sharding.h"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <filesystem>

#include "tests/unit/trainer/gang.h"

using namespace pawl;
using parallel::Index;
using test::Rank;

namespace {

TrainerConfig config_of(const test::Folder& folder, const OptimizerConfig& optimizer) {
  TrainerConfig config = test::small_config(folder.write("text", test::small_text(40'000)));
  config.steps = 20;
  config.optimizer = optimizer;
  config.guard.digest_every = 4;
  return config;
}

bool has_equal_parameters(const Rank& a, const Rank& b) {
  return std::ranges::equal(a.arrays->parameters.span(), b.arrays->parameters.span());
}

const OptimizerConfig kAdamW{.learning_rate = 3e-3};
const OptimizerConfig kSgd{.kind = "sgd", .learning_rate = 0.3, .weight_decay = 1e-4};
const OptimizerConfig kPlainSgd{
    .kind = "sgd", .learning_rate = 0.3, .momentum = 0, .weight_decay = 1e-4};

}  // namespace

TEST_CASE("sharding: each state has one owner, whatever the size and the number of ranks",
          "[trainer]") {
  for (const Index count : {1, 4096, 50'000, 262'144, 262'145, 1'000'003, 5'000'000}) {
    for (const int world_size : {1, 2, 3, 7, 48, 70, 128}) {
      std::vector<int> owners(static_cast<std::size_t>(count));
      Index held = 0;
      for (int rank = 0; rank < world_size; ++rank) {
        const optim::Ownership owned = parallel::ownership_of(count, rank, world_size);
        Index at = 0;
        for (const optim::Owned& range : owned.ranges()) {
          REQUIRE(range.first < range.last);
          REQUIRE(range.first % kernels::kNormBlock == 0);
          CHECK(range.at == at);
          at += range.count();
          for (Index i = range.first; i < range.last; ++i) owners[static_cast<std::size_t>(i)] += 1;
        }
        CHECK(owned.count() == at);
        held = std::max(held, at);
        if (world_size == 1) CHECK(owned.ranges().size() == 1);
      }
      CHECK(std::ranges::count(owners, 1) == static_cast<std::ptrdiff_t>(owners.size()));
      // No rank has much more than its part, but for two units.
      const auto unit = static_cast<Index>(collective::kChunkUnit);
      CHECK(held <= count / world_size * 9 / 8 + 2 * unit);
    }
  }
}

TEST_CASE("ownership: the held parts of a range", "[trainer]") {
  const auto owned = optim::Ownership::of({{10, 20}, {30, 40}, {50, 60}});
  CHECK(owned.count() == 30);
  CHECK(owned.within(0, 10).empty());
  CHECK(owned.within(20, 30).empty());
  CHECK(owned.within(60, 90).empty());
  const auto parts = owned.within(15, 51);
  REQUIRE(parts.size() == 3);
  CHECK((parts[0].first == 15 && parts[0].last == 20 && parts[0].at == 5));
  CHECK((parts[1].first == 30 && parts[1].last == 40 && parts[1].at == 10));
  CHECK((parts[2].first == 50 && parts[2].last == 51 && parts[2].at == 20));
}

TEST_CASE("sharding: the norm has the bits of the whole array's", "[trainer]") {
  Random random(3);
  std::vector<float> values(600'011);
  for (float& value : values)
    value = static_cast<float>(static_cast<double>(random.next() >> 11) * 0x1p-52 - 1);
  const auto count = static_cast<Index>(values.size());
  const double whole = kernels::exact().squared_norm(count, values.data());
  for (const int world_size : {1, 2, 5}) {
    std::vector<double> blocks(parallel::norm_blocks(values.size()));
    for (int rank = 0; rank < world_size; ++rank)
      parallel::put_squares(values, parallel::ownership_of(count, rank, world_size), blocks);
    double sum = 0;
    for (const double block : blocks) sum += block;
    CHECK(sum == whole);
  }
}

TEST_CASE("trainer: sharded states change no bit of the parameters", "[trainer]") {
  for (const OptimizerConfig& optimizer : {kAdamW, kSgd, kPlainSgd}) {
    for (const char* determinism : {"none", "exact"}) {
      INFO(optimizer.kind << " " << optimizer.momentum << " " << determinism);
      const test::Folder folder;
      TrainerConfig config = config_of(folder, optimizer);
      config.steps = 8;
      config.determinism = determinism;
      config.optimizer.clip_norm = 0.5;  // it counts in every step
      const auto alone = test::run_gang(config, {});
      for (const int world_size : {1, 2, 3, 5}) {
        config.parallel.zero = 0;
        const auto plain = test::run_gang(config, {.world_size = world_size});
        config.parallel.zero = 1;
        const auto sharded = test::run_gang(config, {.world_size = world_size});
        Index states = 0;
        for (const Rank& rank : sharded) {
          REQUIRE(rank.outcome);
          CHECK(has_equal_parameters(rank, plain[0]));
          if (config.is_exact()) CHECK(has_equal_parameters(rank, alone[0]));
          states += rank.arrays->owned.count();
          for (const auto& state : rank.arrays->states)
            CHECK(static_cast<Index>(state.size()) == rank.arrays->owned.count());
        }
        CHECK(states == sharded[0].model->parameter_count());
        CHECK(test::losses_of(sharded[0]) == test::losses_of(plain[0]));
      }
    }
  }
}

TEST_CASE("trainer: checkpoints of sharded states go to any number of ranks, sharded or not",
          "[trainer]") {
  const test::Folder folder;
  TrainerConfig config = config_of(folder, kAdamW);
  config.determinism = "exact";
  config.model.layers = 3;
  config.model.channels = 96;  // several buckets: a shard has several pieces of a tensor
  config.steps = 9;
  const auto whole = test::run_gang(config, {});
  REQUIRE(
      parallel::buckets_of(whole[0].model->parameter_count(), parallel::kBucketElements).size() >
      1);
  const std::string uri = "file://" + folder.path() + "/checkpoints";
  for (const int saving : {0, 1}) {
    for (const int saved_by : {1, 3}) {
      config.parallel.zero = saving;
      const auto saved = test::run_gang(
          config, {.world_size = saved_by, .checkpoint_uri = uri, .prepare = [](Rank& rank) {
                     test::order_at(rank, 4, {.is_checkpoint_wanted = true});
                   }});
      for (const Rank& rank : saved) REQUIRE(rank.outcome);
      for (const int loading : {0, 1}) {
        if (saving + loading == 0) continue;
        for (const int world_size : {1, 2, 5}) {
          config.parallel.zero = loading;
          INFO(saved_by << " ranks save with " << saving << ", " << world_size << " load with "
                        << loading);
          const auto ranks = test::run_gang(config, {.world_size = world_size,
                                                     .checkpoint_uri = uri,
                                                     .load_step = 5,
                                                     .attempt = 2 + world_size + 10 * loading});
          for (const Rank& rank : ranks) {
            REQUIRE(rank.outcome);
            CHECK(rank.start.optimizer_step == 5);
            CHECK(has_equal_parameters(rank, whole[0]));
          }
        }
      }
      std::filesystem::remove_all(folder.path() + "/checkpoints");
    }
  }
}
