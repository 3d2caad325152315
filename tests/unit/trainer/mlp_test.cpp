#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <vector>

#include "common/base/random.h"
#include "trainer-runtime/models/model.h"

using namespace pawl;

namespace {

TrainerConfig small_mlp(std::vector<std::int64_t> hidden) {
  TrainerConfig config;
  config.model.kind = "mlp";
  config.model.context = 1;
  config.model.inputs = 7;
  config.model.classes = 5;
  config.model.hidden = std::move(hidden);
  config.batch = {6, 6};
  return config;
}

struct Rows {
  std::vector<float> features;
  std::vector<std::int32_t> targets;
  models::MicroBatch batch() const { return {{}, targets, features}; }
};

double uniform(Random& random) { return static_cast<double>(random.next() >> 11) * 0x1p-52 - 1; }

Rows random_rows(const TrainerConfig& config) {
  Random random(3);
  Rows rows;
  for (std::int64_t row = 0; row < config.batch.micro; ++row) {
    for (std::int64_t i = 0; i < config.model.inputs; ++i)
      rows.features.push_back(static_cast<float>(2 * uniform(random)));
    rows.targets.push_back(
        static_cast<std::int32_t>(random.below(static_cast<std::uint64_t>(config.model.classes))));
  }
  return rows;
}

std::vector<double> mlp_parameters(const models::Model<double>& model) {
  std::vector<double> parameters(static_cast<std::size_t>(model.parameter_count()));
  models::initialise<double>(model.tensors(), 7, parameters);
  Random random(8);
  for (double& value : parameters) value += 0.3 * uniform(random);
  return parameters;
}

// The sum of the losses, written down plainly; `right`: rows whose class is the likeliest.
double plain_loss(const TrainerConfig& config, const std::vector<double>& parameters,
                  const Rows& rows, int& right) {
  std::vector<std::int64_t> widths = config.model.hidden;
  widths.push_back(config.model.classes);
  double total = 0;
  right = 0;
  for (std::size_t row = 0; row < rows.targets.size(); ++row) {
    const auto inputs = static_cast<std::size_t>(config.model.inputs);
    std::vector<double> x(rows.features.begin() + static_cast<std::ptrdiff_t>(row * inputs),
                          rows.features.begin() + static_cast<std::ptrdiff_t>((row + 1) * inputs));
    const double* at = parameters.data();
    for (std::size_t layer = 0; layer < widths.size(); ++layer) {
      std::vector<double> y(static_cast<std::size_t>(widths[layer]));
      for (double& sum : y)
        for (const double value : x) sum += *at++ * value;
      for (double& sum : y) sum += *at++;
      for (double& value : y) {
        if (layer + 1 == widths.size()) continue;
        value *=
            0.5 * (1 + std::tanh(std::sqrt(2 / M_PI) * (value + 0.044715 * std::pow(value, 3))));
      }
      x = std::move(y);
    }
    double sum = 0;
    for (const double logit : x) sum += std::exp(logit);
    const auto target = static_cast<std::size_t>(rows.targets[row]);
    total += std::log(sum) - x[target];
    right += std::ranges::max_element(x) - x.begin() == rows.targets[row] ? 1 : 0;
  }
  return total;
}

}  // namespace

TEST_CASE("mlp: the loss is that of its formula, and the likeliest classes are counted",
          "[trainer]") {
  for (const auto& hidden : std::vector<std::vector<std::int64_t>>{{}, {9}, {9, 4, 11}}) {
    const TrainerConfig config = small_mlp(hidden);
    const auto model = models::make_model<double>(config);
    const std::vector<double> parameters = mlp_parameters(*model);
    const Rows rows = random_rows(config);
    int right = 0;
    const double expected = plain_loss(config, parameters, rows, right);
    CHECK(std::abs(model->loss(parameters, rows.batch()) - expected) < 1e-12 * expected);
    const models::Score score = model->score(parameters, rows.batch());
    CHECK(score.loss == model->loss(parameters, rows.batch()));
    CHECK(score.correct == right);
  }
}

TEST_CASE("mlp: gradients equal central differences in fp64, and fp32 those of fp64", "[trainer]") {
  for (const auto& hidden : std::vector<std::vector<std::int64_t>>{{}, {9}, {9, 4, 11}}) {
    const TrainerConfig config = small_mlp(hidden);
    const auto model = models::make_model<double>(config);
    std::vector<double> parameters = mlp_parameters(*model), gradients(parameters.size());
    const Rows rows = random_rows(config);
    std::vector<models::Index> announced;
    model->train(parameters, gradients, rows.batch(), 0.5,
                 [&](models::Index first) { announced.push_back(first); });
    CHECK(std::ranges::is_sorted(announced, std::greater{}));
    CHECK(announced.size() == hidden.size() + 1);
    CHECK(announced.back() == 0);
    double distance = 0, size = 0;
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const auto loss_at = [&](double by) {
        std::vector<double> moved = parameters;
        moved[i] += by;
        return 0.5 * model->loss(moved, rows.batch());
      };
      constexpr double kStep = 1e-3;
      const double slope =
          (8 * (loss_at(kStep) - loss_at(-kStep)) - (loss_at(2 * kStep) - loss_at(-2 * kStep))) /
          (12 * kStep);
      distance += (slope - gradients[i]) * (slope - gradients[i]);
      size += slope * slope;
    }
    CHECK(std::sqrt(distance / size) < 1e-7);
    const auto single = models::make_model<float>(config);
    std::vector<float> rounded(parameters.begin(), parameters.end()), got(parameters.size());
    single->train(rounded, got, rows.batch(), 0.5F, [](auto) {});
    double apart = 0;
    for (std::size_t i = 0; i < got.size(); ++i)
      apart += (double{got[i]} - gradients[i]) * (double{got[i]} - gradients[i]);
    CHECK(std::sqrt(apart / size) < 1e-5);
  }
}
