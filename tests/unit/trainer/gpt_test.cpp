#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <vector>

#include "common/base/random.h"
#include "trainer-runtime/models/model.h"

using namespace pawl;

namespace {

TrainerConfig small_config(bool is_tied) {
  TrainerConfig config;
  config.model = {.kind = "gpt",
                  .layers = 2,
                  .heads = 2,
                  .channels = 12,
                  .context = 70,
                  .vocabulary = 29,
                  .is_tied = is_tied};
  config.batch = {2, 2};
  return config;
}

struct Sample {
  std::vector<std::int32_t> inputs, targets;
  models::MicroBatch batch() const { return {inputs, targets}; }
};

Sample random_sample(const TrainerConfig& config, std::uint64_t seed) {
  Random random(seed);
  Sample sample;
  for (std::int64_t i = 0; i < config.batch.micro * config.model.context; ++i) {
    sample.inputs.push_back(static_cast<std::int32_t>(
        random.below(static_cast<std::uint64_t>(config.model.vocabulary))));
    sample.targets.push_back(static_cast<std::int32_t>(
        random.below(static_cast<std::uint64_t>(config.model.vocabulary))));
  }
  return sample;
}

// Weights large enough that every path has a gradient worth measuring, biases and gains included.
std::vector<double> lively_parameters(const models::Model<double>& model) {
  std::vector<double> parameters(static_cast<std::size_t>(model.parameter_count()));
  models::initialise<double>(model.tensors(), 7, parameters);
  Random random(8);
  for (double& value : parameters)
    value += 0.15 * (static_cast<double>(random.next() >> 11) * 0x1p-52 - 1);
  return parameters;
}

// GPT-2 as its paper and code say, one token and one number at a time. Returns the sum of the
// losses of one sample.
class PlainGpt {
 public:
  PlainGpt(const ModelConfig& config, const models::Model<double>& model,
           const std::vector<double>& parameters)
      : config_(config), model_(model), parameters_(parameters) {}

  double loss(std::span<const std::int32_t> inputs, std::span<const std::int32_t> targets) const {
    const auto c = static_cast<std::size_t>(config_.channels);
    std::vector<Row> x(inputs.size(), Row(c));
    for (std::size_t t = 0; t < x.size(); ++t) {
      for (std::size_t i = 0; i < c; ++i) {
        x[t][i] = at("transformer.wte.weight", static_cast<std::size_t>(inputs[t]) * c + i) +
                  at("transformer.wpe.weight", t * c + i);
      }
    }
    for (std::int64_t layer = 0; layer < config_.layers; ++layer)
      block("transformer.h." + std::to_string(layer) + ".", x);
    double total = 0;
    for (std::size_t t = 0; t < x.size(); ++t) {
      const Row normal = norm("transformer.ln_f", x[t]);
      Row logits(static_cast<std::size_t>(config_.vocabulary));
      double sum = 0;
      for (std::size_t v = 0; v < logits.size(); ++v) {
        for (std::size_t i = 0; i < c; ++i) {
          logits[v] += normal[i] *
                       at(config_.is_tied ? "transformer.wte.weight" : "lm_head.weight", v * c + i);
        }
        sum += std::exp(logits[v]);
      }
      total += std::log(sum) - logits[static_cast<std::size_t>(targets[t])];
    }
    return total;
  }

 private:
  using Row = std::vector<double>;
  double at(const std::string& name, std::size_t index) const {
    for (const models::Tensor& tensor : model_.tensors()) {
      if (tensor.name == name) return parameters_[static_cast<std::size_t>(tensor.offset) + index];
    }
    FAIL("no tensor " << name);
    return 0;
  }
  Row norm(const std::string& name, const Row& x) const {
    double mean = 0, variance = 0;
    for (const double v : x) mean += v / static_cast<double>(x.size());
    for (const double v : x) variance += (v - mean) * (v - mean) / static_cast<double>(x.size());
    Row y(x.size());
    for (std::size_t i = 0; i < x.size(); ++i) {
      y[i] = (x[i] - mean) / std::sqrt(variance + 1e-5) * at(name + ".weight", i) +
             at(name + ".bias", i);
    }
    return y;
  }
  Row linear(const std::string& name, const Row& x, std::size_t outputs) const {
    Row y(outputs);
    for (std::size_t o = 0; o < outputs; ++o) {
      y[o] = at(name + ".bias", o);
      for (std::size_t i = 0; i < x.size(); ++i)
        y[o] += x[i] * at(name + ".weight", i * outputs + o);
    }
    return y;
  }
  void block(const std::string& prefix, std::vector<Row>& x) const {
    const std::size_t c = x[0].size(), heads = static_cast<std::size_t>(config_.heads),
                      depth = c / heads;
    std::vector<Row> qkv;
    for (const Row& row : x)
      qkv.push_back(linear(prefix + "attn.c_attn", norm(prefix + "ln_1", row), 3 * c));
    for (std::size_t t = 0; t < x.size(); ++t) {
      Row mixed(c);
      for (std::size_t head = 0; head < heads; ++head) {
        Row weights(t + 1);
        double sum = 0;
        for (std::size_t s = 0; s <= t; ++s) {
          double dot = 0;
          for (std::size_t i = head * depth; i < (head + 1) * depth; ++i)
            dot += qkv[t][i] * qkv[s][c + i];
          weights[s] = std::exp(dot / std::sqrt(static_cast<double>(depth)));
          sum += weights[s];
        }
        for (std::size_t s = 0; s <= t; ++s) {
          for (std::size_t i = head * depth; i < (head + 1) * depth; ++i)
            mixed[i] += weights[s] / sum * qkv[s][2 * c + i];
        }
      }
      const Row out = linear(prefix + "attn.c_proj", mixed, c);
      for (std::size_t i = 0; i < c; ++i) x[t][i] += out[i];
    }
    for (Row& row : x) {
      Row up = linear(prefix + "mlp.c_fc", norm(prefix + "ln_2", row), 4 * c);
      for (double& v : up)
        v = v / 2 * (1 + std::tanh(std::sqrt(2 / M_PI) * (v + 0.044715 * v * v * v)));
      const Row down = linear(prefix + "mlp.c_proj", up, c);
      for (std::size_t i = 0; i < c; ++i) row[i] += down[i];
    }
  }

  const ModelConfig& config_;
  const models::Model<double>& model_;
  const std::vector<double>& parameters_;
};

}  // namespace

TEST_CASE("gpt: the loss is that of GPT-2 written down plainly", "[trainer]") {
  for (const bool is_tied : {false, true}) {
    TrainerConfig config = small_config(is_tied);
    config.batch = {1, 1};
    const auto model = models::make_model<double>(config);
    const std::vector<double> parameters = lively_parameters(*model);
    const Sample sample = random_sample(config, 2);
    const double expected =
        PlainGpt(config.model, *model, parameters).loss(sample.inputs, sample.targets);
    CHECK(std::abs(model->loss(parameters, sample.batch()) - expected) < 1e-9 * expected);
  }
}

TEST_CASE("gpt: gradients equal central differences in fp64", "[trainer]") {
  for (const bool is_tied : {false, true}) {
    const TrainerConfig config = small_config(is_tied);
    const auto model = models::make_model<double>(config);
    std::vector<double> parameters = lively_parameters(*model), gradients(parameters.size());
    const Sample sample = random_sample(config, 3);
    const double scale = 1.0 / static_cast<double>(sample.inputs.size());
    model->train(parameters, gradients, sample.batch(), scale, [](auto) {});
    Random random(4);
    for (const models::Tensor& tensor : model->tensors()) {
      // Along random directions within one tensor: every element takes part.
      std::vector<double> direction(static_cast<std::size_t>(tensor.elements));
      for (double& d : direction) d = random.one_in(2) ? 1 : -1;
      const auto loss_at = [&](double distance) {
        std::vector<double> moved = parameters;
        for (std::size_t i = 0; i < direction.size(); ++i) {
          moved[static_cast<std::size_t>(tensor.offset) + i] += distance * direction[i];
        }
        return model->loss(moved, sample.batch()) * scale;
      };
      double expected = 0, size = 0;
      for (std::size_t i = 0; i < direction.size(); ++i) {
        const double g = gradients[static_cast<std::size_t>(tensor.offset) + i];
        expected += g * direction[i];
        size += g * g;
      }
      // Fourth-order central difference.
      const double h = 1e-3 / std::sqrt(static_cast<double>(tensor.elements));
      const double measured =
          (8 * (loss_at(h) - loss_at(-h)) - (loss_at(2 * h) - loss_at(-2 * h))) / (12 * h);
      INFO(tensor.name << ": " << measured << " and " << expected);
      CHECK(size > 0);
      CHECK(std::abs(measured - expected) <= 1e-7 * std::max(std::abs(expected), std::sqrt(size)));
    }
  }
}

TEST_CASE("gpt: fp32 gradients are those of fp64 to 1e-5", "[trainer]") {
  TrainerConfig config = small_config(false);
  config.model.channels = 64;
  config.model.context = 128;
  config.model.vocabulary = 256;
  const auto model64 = models::make_model<double>(config);
  const auto model32 = models::make_model<float>(config);
  std::vector<double> parameters(static_cast<std::size_t>(model64->parameter_count())),
      gradients(parameters.size());
  models::initialise<double>(model64->tensors(), 1, parameters);
  std::vector<float> parameters32(parameters.size()), gradients32(parameters.size());
  models::initialise<float>(model32->tensors(), 1, parameters32);
  parameters.assign(parameters32.begin(), parameters32.end());
  const Sample sample = random_sample(config, 5);
  const double scale = 1.0 / static_cast<double>(sample.inputs.size());
  const double loss64 = model64->train(parameters, gradients, sample.batch(), scale, [](auto) {});
  const double loss32 = model32->train(parameters32, gradients32, sample.batch(),
                                       static_cast<float>(scale), [](auto) {});
  CHECK(std::abs(loss32 - loss64) < 1e-6 * loss64);
  for (const models::Tensor& tensor : model64->tensors()) {
    double difference = 0, norm = 0;
    for (auto i = static_cast<std::size_t>(tensor.offset);
         i < static_cast<std::size_t>(tensor.offset + tensor.elements); ++i) {
      difference += std::pow(static_cast<double>(gradients32[i]) - gradients[i], 2);
      norm += gradients[i] * gradients[i];
    }
    // The gradient of the keys' bias is zero but for rounding: softmax does not see it. It is
    // inside c_attn.bias.
    INFO(tensor.name);
    CHECK(std::sqrt(difference / norm) < 1e-5);
  }
}

TEST_CASE("gpt: a prediction does not see later tokens", "[trainer]") {
  TrainerConfig config = small_config(false);
  config.batch = {1, 1};
  const auto model = models::make_model<double>(config);
  const std::vector<double> parameters = lively_parameters(*model);
  const Sample sample = random_sample(config, 9);
  const auto gradients_of = [&](const Sample& of) {
    std::vector<double> gradients(parameters.size());
    model->train(parameters, gradients, of.batch(), 1, [](auto) {});
    return gradients;
  };
  // The prediction at `position` may depend on inputs up to there. So another target there changes
  // the gradient of the position embeddings up to there, and of no later one.
  const auto before = gradients_of(sample);
  const models::Tensor& positions = model->tensors()[1];
  REQUIRE(positions.name == "transformer.wpe.weight");
  const kernels::Index channels = config.model.channels;
  for (const std::size_t position : {0U, 1U, 40U, 63U, 64U, 69U}) {
    Sample other = sample;
    other.targets[position] = (other.targets[position] + 1) % 29;
    const auto after = gradients_of(other);
    for (kernels::Index row = 0; row < config.model.context; ++row) {
      const auto first = positions.offset + row * channels;
      const bool is_same = std::equal(before.begin() + first, before.begin() + first + channels,
                                      after.begin() + first);
      INFO("target " << position << ", input " << row);
      REQUIRE(is_same == (row > static_cast<kernels::Index>(position)));
    }
  }
}

TEST_CASE("gpt: gradients are announced from the end to the start and are final then",
          "[trainer]") {
  const TrainerConfig config = small_config(true);
  const auto model = models::make_model<double>(config);
  const std::vector<double> parameters = lively_parameters(*model);
  std::vector<double> gradients(parameters.size());
  const Sample sample = random_sample(config, 3);
  std::vector<std::pair<kernels::Index, std::vector<double>>> seen;
  model->train(parameters, gradients, sample.batch(), 1, [&](kernels::Index first) {
    if (!seen.empty()) CHECK(first < seen.back().first);
    seen.emplace_back(first, std::vector<double>(gradients.begin() + first, gradients.end()));
  });
  REQUIRE(seen.size() == 4);
  CHECK(seen.back().first == 0);
  for (const auto& [first, values] : seen) {
    CHECK(std::equal(values.begin(), values.end(), gradients.begin() + first));
  }
}

TEST_CASE("gpt: the start depends on the seed and has the planned spread", "[trainer]") {
  const auto model = models::make_model<float>(TrainerConfig{});
  std::vector<float> a(static_cast<std::size_t>(model->parameter_count())), b(a), c(a);
  models::initialise<float>(model->tensors(), 1, a);
  models::initialise<float>(model->tensors(), 1, b);
  models::initialise<float>(model->tensors(), 2, c);
  CHECK(a == b);
  CHECK(a != c);
  const models::Tensor& tensor = model->tensors().front();
  double sum = 0, squares = 0;
  for (kernels::Index i = 0; i < tensor.elements; ++i) {
    const double value = static_cast<double>(a[static_cast<std::size_t>(tensor.offset + i)]);
    sum += value;
    squares += value * value;
  }
  const auto n = static_cast<double>(tensor.elements);
  CHECK(std::abs(sum / n) < 0.02 * 4 / std::sqrt(n));
  CHECK(std::abs(std::sqrt(squares / n) / 0.02 - 1) < 0.02);
}
