#include "trainer-runtime/optim/optimizer.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/base/check.h"

namespace pawl::optim {
namespace {

using models::Index;

constexpr double kTrustMax = 10;  // of LAMB's factor; the paper leaves the limit open

// A run of elements that are updated alike.
struct Range {
  Index offset, elements;
  bool is_decayed;
  Index states = 0;  // where theirs begin
};

// One for each tensor; `is_merged`: neighbours with the same decay are one.
std::vector<Range> ranges_of(const std::vector<models::Tensor>& tensors, bool is_merged) {
  std::vector<Range> ranges;
  for (const models::Tensor& tensor : tensors) {
    if (is_merged && !ranges.empty() && ranges.back().is_decayed == tensor.is_decayed &&
        ranges.back().offset + ranges.back().elements == tensor.offset) {
      ranges.back().elements += tensor.elements;
    } else {
      ranges.push_back({tensor.offset, tensor.elements, tensor.is_decayed});
    }
  }
  return ranges;
}

// What is owned of them.
std::vector<Range> owned_of(const std::vector<Range>& ranges, const Ownership& owned) {
  std::vector<Range> parts;
  for (const Range& range : ranges) {
    for (const Owned& part : owned.within(range.offset, range.offset + range.elements))
      parts.push_back({part.first, part.count(), range.is_decayed, part.at});
  }
  return parts;
}

// The part of each array that is in the range.
struct Slice {
  Slice(const Range& range, std::span<const float> gradients, TrainingArrays& arrays)
      : count(range.elements),
        gradient(gradients.data() + range.offset),
        parameter(arrays.parameters.data() + range.offset) {
    for (std::size_t i = 0; i < arrays.states.size(); ++i)
      states[i] = arrays.states[i].data() + range.states;
  }
  Index count;
  const float* gradient;
  float* parameter;
  float* states[2] = {};
};

kernels::AdamW adam_settings(const OptimizerConfig& c, const Update& update) {
  const auto power = static_cast<double>(update.step + 1);
  return {.learning_rate = static_cast<float>(update.learning_rate),
          .beta1 = static_cast<float>(c.beta1),
          .beta2 = static_cast<float>(c.beta2),
          .epsilon = static_cast<float>(c.epsilon),
          .correction1 = static_cast<float>(1 / (1 - std::pow(c.beta1, power))),
          .correction2 = static_cast<float>(1 / (1 - std::pow(c.beta2, power))),
          .gradient_scale = static_cast<float>(update.gradient_scale)};
}

kernels::Momentum momentum_settings(const OptimizerConfig& c, const Update& update) {
  return {.learning_rate = static_cast<float>(update.learning_rate),
          .momentum = static_cast<float>(c.momentum),
          .gradient_scale = static_cast<float>(update.gradient_scale),
          .is_nesterov = c.is_nesterov};
}

class OfRanges : public Optimizer {
 public:
  OfRanges(const OptimizerConfig& config, std::vector<Range> ranges)
      : config_(config), ranges_(std::move(ranges)) {}
  void apply(const Update& update, std::span<const float> gradients,
             TrainingArrays& arrays) const override {
    for (const Range& range : ranges_) {
      const double decay = range.is_decayed ? config_.weight_decay : 0;
      step(update, decay, range.is_decayed, Slice(range, gradients, arrays));
    }
  }

 protected:
  virtual void step(const Update& update, double decay, bool is_matrix, const Slice& at) const = 0;
  const OptimizerConfig config_;

 private:
  std::vector<Range> ranges_;
};

class AdamW final : public OfRanges {
  using OfRanges::OfRanges;
  void step(const Update& update, double decay, bool, const Slice& at) const override {
    kernels::AdamW settings = adam_settings(config_, update);
    settings.weight_decay = static_cast<float>(decay);
    kernels::exact().adamw(at.count, settings, at.gradient, at.parameter, at.states[0],
                           at.states[1]);
  }
};

class Sgd final : public OfRanges {
  using OfRanges::OfRanges;
  void step(const Update& update, double decay, bool, const Slice& at) const override {
    kernels::Momentum settings = momentum_settings(config_, update);
    settings.weight_decay = static_cast<float>(decay);
    kernels::exact().sgd(at.count, settings, at.gradient, at.parameter, at.states[0]);
  }
};

class Lars final : public OfRanges {
  using OfRanges::OfRanges;
  void step(const Update& update, double decay, bool is_matrix, const Slice& at) const override {
    kernels::Momentum settings = momentum_settings(config_, update);
    settings.weight_decay = static_cast<float>(decay);
    if (is_matrix) {
      const double weight = std::sqrt(kernels::exact().squared_norm(at.count, at.parameter)),
                   slope = std::sqrt(kernels::exact().squared_norm(at.count, at.gradient)) *
                           update.gradient_scale;
      // A tensor that is zero could never grow.
      if (weight > 0 && slope > 0) {
        settings.learning_rate = static_cast<float>(update.learning_rate * config_.trust * weight /
                                                    (slope + decay * weight + config_.epsilon));
      }
    }
    kernels::exact().lars(at.count, settings, at.gradient, at.parameter, at.states[0]);
  }
};

class Lamb final : public OfRanges {
  using OfRanges::OfRanges;
  void step(const Update& update, double decay, bool is_matrix, const Slice& at) const override {
    kernels::AdamW settings = adam_settings(config_, update);
    settings.weight_decay = static_cast<float>(decay);
    const double weight = std::sqrt(kernels::exact().squared_norm(at.count, at.parameter));
    const double step = std::sqrt(kernels::exact().lamb_moments(
        at.count, settings, at.gradient, at.parameter, at.states[0], at.states[1]));
    if (is_matrix && weight > 0 && step > 0) {
      settings.learning_rate =
          static_cast<float>(update.learning_rate * std::min(weight / step, kTrustMax));
    }
    kernels::exact().lamb_step(at.count, settings, at.parameter, at.states[0], at.states[1]);
  }
};

}  // namespace

TrainingArrays::TrainingArrays(Index count, std::size_t state_count)
    : parameters(static_cast<std::size_t>(count)), owned(count) {
  for (std::size_t i = 0; i < state_count; ++i) states.emplace_back(parameters.size());
}

TrainingArrays::TrainingArrays(const TrainerConfig& config, Index count)
    : TrainingArrays(config, count, Ownership(count)) {}

TrainingArrays::TrainingArrays(const TrainerConfig& config, Index count, Ownership of_rank)
    : parameters(static_cast<std::size_t>(count)), owned(std::move(of_rank)) {
  if (config.is_compressed()) residual.values = device::Buffer<float>(parameters.size());
  const std::size_t state_count = state_names(config.optimizer).size();
  for (std::size_t i = 0; i < state_count; ++i)
    states.emplace_back(static_cast<std::size_t>(owned.count()));
}

std::vector<std::span<float>> TrainingArrays::spans() {
  std::vector<std::span<float>> all{parameters.span()};
  for (device::Buffer<float>& state : states) all.push_back(state.span());
  return all;
}

std::vector<std::span<const float>> TrainingArrays::spans() const {
  std::vector<std::span<const float>> all{parameters.span()};
  for (const device::Buffer<float>& state : states) all.push_back(state.span());
  return all;
}

std::vector<std::string> state_names(const OptimizerConfig& config) {
  const std::string& kind = config.kind;
  if (kind == "adamw" || kind == "lamb") return {kind + ".moment1", kind + ".moment2"};
  if (kind == "sgd" && config.momentum == 0) return {};
  return {kind + ".velocity"};
}

double clip_factor(const OptimizerConfig& config, double norm) {
  return config.clip_norm > 0 && norm > config.clip_norm ? config.clip_norm / norm : 1;
}

std::unique_ptr<Optimizer> make_optimizer(const OptimizerConfig& config,
                                          const std::vector<models::Tensor>& tensors,
                                          const Ownership& owned) {
  auto ranges = owned_of(ranges_of(tensors, config.works_on_parts()), owned);
  if (config.kind == "adamw") return std::make_unique<AdamW>(config, std::move(ranges));
  if (config.kind == "sgd") return std::make_unique<Sgd>(config, std::move(ranges));
  if (config.kind == "lars") return std::make_unique<Lars>(config, std::move(ranges));
  PAWL_CHECK(config.kind == "lamb", "no such optimizer");
  return std::make_unique<Lamb>(config, std::move(ranges));
}

}  // namespace pawl::optim
