// Exact sums: neither the number of ranks, nor who makes which micro-batch, nor a recovery changes
// a bit.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <thread>

#include "tests/unit/trainer/gang.h"

using namespace pawl;
using test::Rank;

namespace {

// As fast as a machine that is too hot: a pass takes `more` longer, and then `times` as long. Only
// with both is a rank slow on every machine: on a busy one the pass itself is longer than `more`.
class SlowModel final : public models::Model<float> {
 public:
  SlowModel(std::unique_ptr<models::Model<float>> inner, std::chrono::milliseconds more, int times)
      : inner_(std::move(inner)), more_(more), times_(times) {}
  const std::vector<models::Tensor>& tensors() const override { return inner_->tensors(); }
  models::Index parameter_count() const override { return inner_->parameter_count(); }
  std::size_t activation_bytes() const override { return inner_->activation_bytes(); }
  models::SampleShape sample_shape() const override { return inner_->sample_shape(); }
  double loss(std::span<const float> parameters, const models::MicroBatch& batch) override {
    return inner_->loss(parameters, batch);
  }
  double train(std::span<const float> parameters, std::span<float> gradients,
               const models::MicroBatch& batch, float scale,
               const models::GradientsReady& ready) override {
    passes += 1;
    const auto began = std::chrono::steady_clock::now();
    std::this_thread::sleep_for(more_);
    const double loss = inner_->train(parameters, gradients, batch, scale, ready);
    std::this_thread::sleep_for((times_ - 1) * (std::chrono::steady_clock::now() - began));
    return loss;
  }
  std::int64_t passes = 0;

 private:
  std::unique_ptr<models::Model<float>> inner_;
  std::chrono::milliseconds more_;
  int times_;
};

}  // namespace

TEST_CASE("trainer: an exact run has the same bits with any number of ranks, and when it changes",
          "[trainer]") {
  const test::Folder folder;
  TrainerConfig config = test::small_config(folder.write("text", test::small_text(40'000)));
  config.determinism = "exact";
  config.batch.dealing = "measured";
  config.steps = 20;
  const auto alone = test::run_gang(config, {});
  const auto expected = test::losses_of(alone[0]);
  REQUIRE(expected.size() == 20);
  const std::string uri = "file://" + folder.path() + "/checkpoints";
  for (const int world_size : {2, 3, 4, 7}) {  // of six micro-batches a step
    const auto ranks = test::run_gang(
        config, {.world_size = world_size, .checkpoint_uri = uri, .prepare = [](Rank& rank) {
                   test::order_at(rank, 9, {.is_checkpoint_wanted = true});
                 }});
    for (const Rank& rank : ranks) REQUIRE(rank.outcome);
    CHECK(test::losses_of(ranks[0]) == expected);
    CHECK(ranks[0].session.reports.back().note == alone[0].session.reports.back().note);
    for (const Rank& rank : ranks) CHECK(test::is_equal(*rank.arrays, *alone[0].arrays));
    const auto resumed = test::run_gang(
        config, {.world_size = 3, .checkpoint_uri = uri, .load_step = 10, .attempt = 2});
    for (const Rank& rank : resumed) REQUIRE(rank.outcome);
    CHECK(test::is_equal(*resumed[0].arrays, *alone[0].arrays));
    std::filesystem::remove_all(folder.path() + "/checkpoints");
  }
  config.determinism = "none";
  const auto other = test::run_gang(config, {.world_size = 3});
  CHECK_FALSE(test::is_equal(*other[0].arrays, *alone[0].arrays));  // or this test says nothing
}

TEST_CASE("trainer: a slow rank makes fewer micro-batches, is named, and no bit changes",
          "[trainer]") {
  const test::Folder folder;
  TrainerConfig config = test::small_config(folder.write("text", test::small_text(40'000)));
  config.determinism = "exact";
  config.batch = {24, 2};
  const auto alone = test::run_gang(config, {});
  const auto ranks =
      test::run_gang(config, {.world_size = 3, .prepare = [](Rank& rank) {
                                rank.model = std::make_unique<SlowModel>(
                                    std::move(rank.model), std::chrono::milliseconds(15),
                                    rank.ring->rank() == 1 ? 4 : 1);
                              }});
  for (const Rank& rank : ranks) REQUIRE(rank.outcome);
  const auto passes = [&](std::size_t rank) {
    return dynamic_cast<const SlowModel&>(*ranks[rank].model).passes;
  };
  CHECK(passes(0) + passes(1) + passes(2) == 50 * 12);
  // Four a step for each, until the first window has ended; then fewer in most. Who of the others
  // makes them depends on what else this machine does.
  CHECK(passes(1) < 16 * 4 + 34 * 4 - 34 / 2);
  CHECK(std::ranges::any_of(ranks[0].session.reports, [](const api::channel::Report& report) {
    return report.note.starts_with("rank 1 is slow: ");
  }));
  CHECK(ranks[0].session.reports.front().slow_rank == -1);
  CHECK(ranks[0].session.reports.back().slow_rank == 1);
  CHECK(ranks[0].session.reports.back().slow_factor > 1.25);
  for (const Rank& rank : ranks) CHECK(test::is_equal(*rank.arrays, *alone[0].arrays));
}

TEST_CASE("trainer: an exact run that diverges on one rank ends on all", "[trainer]") {
  const test::Folder folder;
  TrainerConfig config = test::small_config(folder.write("text", test::small_text(10'000)));
  config.determinism = "exact";
  const auto ranks =
      test::run_gang(config, {.world_size = 3, .prepare = [](Rank& rank) {
                                if (rank.ring->rank() == 1)
                                  std::ranges::fill(rank.arrays->parameters.span(), NAN);
                              }});
  for (const Rank& rank : ranks) {
    REQUIRE(!rank.outcome);
    CHECK(rank.outcome.error().code == Code::kCorrupt);
    CHECK(rank.outcome.error().message.find("Diverged: step 1 ") == 0);
  }
}

TEST_CASE("gradient_reducer: exact sums do not depend on order, and say what they cannot hold",
          "[trainer]") {
  const auto ring = collective::make_self();
  const std::vector<float> parts{1e-9F, 3.0F, -0.25F, 7e-12F, -1e3F, 0.1F};
  const auto sum = [&](const std::vector<std::size_t>& order) {
    std::vector<float> gradients(5);
    const auto reducer = parallel::make_exact_reducer(*ring, gradients, 6, {.bucket_elements = 2});
    for (std::size_t i = 0; i < order.size(); ++i) {
      for (float& gradient : gradients) gradient += parts[order[i]];
      if (i + 1 < order.size()) reducer->end_micro_batch();
    }
    REQUIRE(reducer->finish());
    return gradients[4];
  };
  CHECK(sum({0, 1, 2, 3, 4, 5}) == sum({5, 4, 3, 2, 1, 0}));
  CHECK(sum({0, 1, 2, 3, 4, 5}) == sum({2, 4, 0, 5, 1, 3}));
  CHECK(std::abs(sum({0, 1, 2, 3, 4, 5}) - -997.15F) < 1e-4F);
  CHECK(std::abs(sum({0, 3}) - 1.007e-9F) < 2 * parallel::kFixedUnit);
  for (const float bad : {1e4F, -INFINITY, NAN}) {
    std::vector<float> gradients(3);
    const auto reducer = parallel::make_exact_reducer(*ring, gradients, 2, {.bucket_elements = 2});
    gradients[1] = bad;
    const Status status = reducer->finish();
    REQUIRE(!status);
    CHECK(status.error().code == Code::kCorrupt);
    std::ranges::fill(gradients, 1.0F);
    CHECK(reducer->finish());
    CHECK(gradients == std::vector<float>(3, 1));
  }
}
