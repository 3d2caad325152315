// Each optimizer beside its paper's formulas in fp64, over several steps and tensors.
#include "trainer-runtime/optim/optimizer.h"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cmath>

#include "common/base/random.h"

using namespace pawl;

namespace {

using Values = std::vector<double>;

constexpr std::int64_t kSteps = 5;

// Two matrices, one of them zero, and a bias between.
std::vector<models::Tensor> tensors() {
  return {{"a", {70, 61}, 0, 4270, true},
          {"bias", {61}, 4270, 61, false},
          {"zero", {3, 61}, 4331, 183, true}};
}
constexpr std::size_t kCount = 4514;

double norm(const Values& values) {
  double sum = 0;
  for (const double value : values) sum += value * value;
  return std::sqrt(sum);
}

// The reference of one tensor: updates p, and the states.
struct Reference {
  OptimizerConfig config;
  bool is_matrix = false;
  Values p, first, second;

  void step(double rate, std::int64_t number, const Values& gradient) {
    const double decay = is_matrix ? config.weight_decay : 0;
    if (config.kind == "sgd") return sgd(rate, decay, gradient);
    if (config.kind == "lars") return lars(rate, decay, gradient);
    adam(rate, decay, static_cast<double>(number), gradient);
  }
  void sgd(double rate, double decay, const Values& gradient) {
    for (std::size_t i = 0; i < p.size(); ++i) {
      const double g = gradient[i] + decay * p[i];
      first[i] = config.momentum * first[i] + g;
      p[i] -= rate * (config.is_nesterov ? g + config.momentum * first[i] : first[i]);
    }
  }
  void lars(double rate, double decay, const Values& gradient) {
    const double weight = norm(p);
    if (is_matrix && weight > 0)
      rate *= config.trust * weight / (norm(gradient) + decay * weight + config.epsilon);
    for (std::size_t i = 0; i < p.size(); ++i) {
      first[i] = config.momentum * first[i] + rate * (gradient[i] + decay * p[i]);
      p[i] -= first[i];
    }
  }
  void adam(double rate, double decay, double number, const Values& gradient) {
    Values direction(p.size());
    for (std::size_t i = 0; i < p.size(); ++i) {
      first[i] = config.beta1 * first[i] + (1 - config.beta1) * gradient[i];
      second[i] = config.beta2 * second[i] + (1 - config.beta2) * gradient[i] * gradient[i];
      direction[i] = first[i] / (1 - std::pow(config.beta1, number)) /
                     (std::sqrt(second[i] / (1 - std::pow(config.beta2, number))) + config.epsilon);
    }
    const bool is_lamb = config.kind == "lamb";
    for (std::size_t i = 0; is_lamb && i < p.size(); ++i) direction[i] += decay * p[i];
    const double weight = norm(p), length = norm(direction);
    if (is_lamb && is_matrix && weight > 0) rate *= std::min(weight / length, 10.0);
    for (std::size_t i = 0; i < p.size(); ++i)
      p[i] = p[i] * (is_lamb ? 1 : 1 - rate * decay) - rate * direction[i];
  }
};

double relative_distance(std::span<const float> got, const Values& want) {
  double sum = 0;
  for (std::size_t i = 0; i < want.size(); ++i) {
    const double apart = double{got[i]} - want[i];
    sum += apart * apart;
  }
  return std::sqrt(sum) / std::max(norm(want), 1e-30);
}

struct Outcome {
  std::vector<float> parameters;
  std::vector<double> distances;  // of each tensor from its reference
};

// `size`: of the parameters of the matrix.
Outcome run(const OptimizerConfig& config, double size, double gradient_scale = 0.5) {
  const auto optimizer = optim::make_optimizer(config, tensors(), optim::Ownership(kCount));
  optim::TrainingArrays arrays(kCount, optim::state_names(config).size());
  std::vector<Reference> references;
  Random random(5);
  const auto draw = [&](double scale) {
    return scale * (static_cast<double>(random.next() >> 11) * 0x1p-52 - 1);
  };
  for (const models::Tensor& tensor : tensors()) {
    const auto count = static_cast<std::size_t>(tensor.elements);
    Reference reference{config, tensor.is_decayed, Values(count), Values(count), Values(count)};
    for (std::size_t i = 0; i < count; ++i) {
      float& p = arrays.parameters.span()[static_cast<std::size_t>(tensor.offset) + i];
      p = tensor.name == "zero" ? 0 : static_cast<float>(draw(size));
      reference.p[i] = double{p};
    }
    references.push_back(std::move(reference));
  }
  std::vector<float> gradients(kCount);
  for (std::int64_t step = 0; step < kSteps; ++step) {
    for (float& gradient : gradients) gradient = static_cast<float>(draw(0.3));
    const double rate = 0.02 / static_cast<double>(step + 1);
    optimizer->apply({rate, step, gradient_scale}, gradients, arrays);
    for (std::size_t t = 0; t < references.size(); ++t) {
      Values gradient(references[t].p.size());
      for (std::size_t i = 0; i < gradient.size(); ++i) {
        gradient[i] =
            double{gradients[static_cast<std::size_t>(tensors()[t].offset) + i]} * gradient_scale;
      }
      references[t].step(rate, step + 1, gradient);
    }
  }
  Outcome outcome{{arrays.parameters.data(), arrays.parameters.data() + kCount}, {}};
  for (std::size_t t = 0; t < references.size(); ++t) {
    outcome.distances.push_back(relative_distance(
        arrays.parameters.span().subspan(static_cast<std::size_t>(tensors()[t].offset)),
        references[t].p));
  }
  return outcome;
}

OptimizerConfig of_kind(const std::string& kind) {
  OptimizerConfig config;
  config.kind = kind;
  config.trust = 0.02;
  return config;
}

void check_like_paper(const OptimizerConfig& config, double size) {
  INFO(config.kind << " of parameters up to " << size);
  const Outcome outcome = run(config, size);
  for (const double distance : outcome.distances) CHECK(distance < 2e-6);
  // Or the comparison would not see what it is for.
  OptimizerConfig other = config;
  other.weight_decay += 0.5;
  CHECK(run(other, size).parameters != outcome.parameters);
}

}  // namespace

TEST_CASE("optimizer: each is its paper's, step by step, of matrices, biases and what is zero",
          "[trainer]") {
  for (const char* kind : {"adamw", "sgd", "lars", "lamb"}) {
    // LAMB's factor: below 1, and at its limit.
    for (const double size : {0.1, 50.0}) check_like_paper(of_kind(kind), size);
  }
}

TEST_CASE("optimizer: SGD with Nesterov's momentum, and with none and then no memory for it",
          "[trainer]") {
  OptimizerConfig config = of_kind("sgd");
  config.is_nesterov = true;
  check_like_paper(config, 0.1);
  config = of_kind("sgd");
  config.momentum = 0;
  CHECK(optim::state_names(config).empty());
  check_like_paper(config, 0.1);
}

TEST_CASE("optimizer: what each keeps has a name of its own", "[trainer]") {
  using Names = std::vector<std::string>;
  CHECK(optim::state_names(of_kind("adamw")) == Names{"adamw.moment1", "adamw.moment2"});
  CHECK(optim::state_names(of_kind("lamb")) == Names{"lamb.moment1", "lamb.moment2"});
  CHECK(optim::state_names(of_kind("sgd")) == Names{"sgd.velocity"});
  CHECK(optim::state_names(of_kind("lars")) == Names{"lars.velocity"});
}
