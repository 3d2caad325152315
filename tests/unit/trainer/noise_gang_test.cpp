// The gradient noise scale of whole runs, beside the gradients of each micro-batch.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cmath>

#include "tests/unit/trainer/gang.h"
#include "trainer-runtime/data/permutation.h"

using namespace pawl;
using test::Rank;

namespace {

constexpr std::int64_t kSteps = 40;

// Parameters that stay what they are, as the gradients are computed again below.
TrainerConfig standing_config(const test::Folder& folder) {
  TrainerConfig config = test::small_config(folder.write("text", test::small_text(40'000)));
  config.steps = kSteps;
  config.log_every = kSteps;
  config.optimizer.learning_rate = 1e-12;
  config.optimizer.weight_decay = 0;
  return config;
}

// `first_of`: the micro-batches of a step that are each a rank's first.
double noise_scale_of(const TrainerConfig& config, const std::vector<std::int64_t>& first_of) {
  const auto dataset = *data::open_dataset(config);
  const auto model = models::make_model<float>(config);
  const auto count = static_cast<std::size_t>(model->parameter_count());
  const auto context = static_cast<std::size_t>(config.model.context);
  std::vector<float> parameters(count), gradient(count);
  std::vector<double> whole(count);
  models::initialise<float>(model->tensors(), config.seed, parameters);
  const data::SampleOrder order(dataset->training_samples(), config.seed);
  optim::NoiseScale scale(config.batch.micro, config.batch.global);
  const std::int64_t passes = config.batch.global / config.batch.micro;
  for (std::int64_t step = 0; step < kSteps; ++step) {
    std::ranges::fill(whole, 0);
    double squares = 0, whole_square = 0;
    for (std::int64_t pass = 0; pass < passes; ++pass) {
      std::vector<std::int32_t> inputs, targets;
      for (std::int64_t i = 0; i < config.batch.micro; ++i) {
        std::vector<std::int32_t> in(context), out(context);
        const auto cursor =
            static_cast<std::uint64_t>((step * passes + pass) * config.batch.micro + i);
        REQUIRE(dataset->read_training(order.sample(cursor), {in, out, {}}));
        inputs.insert(inputs.end(), in.begin(), in.end());
        targets.insert(targets.end(), out.begin(), out.end());
      }
      std::ranges::fill(gradient, 0.0F);
      model->train(parameters, gradient, {inputs, targets, {}},
                   1 / static_cast<float>(inputs.size()), [](models::Index) {});
      double square = 0;
      for (std::size_t i = 0; i < count; ++i) {
        square += double{gradient[i]} * double{gradient[i]};
        whole[i] += double{gradient[i]} / static_cast<double>(passes);
      }
      if (std::ranges::find(first_of, pass) != first_of.end())
        squares += square / static_cast<double>(first_of.size());
    }
    for (const double value : whole) whole_square += value * value;
    scale.add(squares, whole_square);
  }
  return scale.samples().value_or(0);
}

double told_by(const Rank& rank) {
  const std::string& line = rank.lines.at(rank.lines.size() - 2);  // the last is the validation
  const auto at = line.find(", noise scale ");
  INFO(line);
  REQUIRE(at != std::string::npos);
  return std::stod(line.substr(at + 14));
}

}  // namespace

TEST_CASE(
    "trainer: the noise scale is that of the micro-batches' gradients, on any number of ranks",
    "[trainer]") {
  const test::Folder folder;
  TrainerConfig config = standing_config(folder);
  struct Case {
    int world_size;
    std::vector<std::int64_t> first_of;
  };
  for (const char* determinism : {"none", "exact"}) {
    config.determinism = determinism;
    for (const Case& c : {Case{1, {0}}, Case{2, {0, 3}}, Case{6, {0, 1, 2, 3, 4, 5}}}) {
      const double wanted = noise_scale_of(config, c.first_of);
      REQUIRE(wanted > 0);
      const auto ranks = test::run_gang(config, {.world_size = c.world_size});
      REQUIRE(ranks[0].outcome);
      INFO(c.world_size << " ranks");
      CHECK(std::abs(told_by(ranks[0]) / wanted - 1) < 6e-3);  // of which three digits are printed
    }
  }
}
