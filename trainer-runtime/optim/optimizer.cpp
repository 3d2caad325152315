#include "trainer-runtime/optim/optimizer.h"

#include <cmath>

#include "trainer-runtime/optim/schedule.h"

namespace pawl::optim {

double clip_factor(const OptimizerConfig& config, double norm) {
  return config.clip_norm > 0 && norm > config.clip_norm ? config.clip_norm / norm : 1;
}

AdamW::AdamW(const TrainerConfig& config, const std::vector<models::Tensor>& tensors)
    : config_(config) {
  for (const models::Tensor& tensor : tensors) {
    if (!ranges_.empty() && ranges_.back().is_decayed == tensor.is_decayed &&
        ranges_.back().offset + ranges_.back().elements == tensor.offset) {
      ranges_.back().elements += tensor.elements;
    } else {
      ranges_.push_back({tensor.offset, tensor.elements, tensor.is_decayed});
    }
  }
}

void AdamW::apply(std::int64_t step, double gradient_scale, std::span<const float> gradients,
                  TrainingArrays& arrays) const {
  const OptimizerConfig& c = config_.optimizer;
  const auto power = static_cast<double>(step + 1);
  kernels::AdamW settings{.learning_rate = static_cast<float>(learning_rate(config_, step)),
                          .beta1 = static_cast<float>(c.beta1),
                          .beta2 = static_cast<float>(c.beta2),
                          .epsilon = static_cast<float>(c.epsilon),
                          .correction1 = static_cast<float>(1 / (1 - std::pow(c.beta1, power))),
                          .correction2 = static_cast<float>(1 / (1 - std::pow(c.beta2, power))),
                          .gradient_scale = static_cast<float>(gradient_scale)};
  for (const Range& range : ranges_) {
    settings.weight_decay = range.is_decayed ? static_cast<float>(c.weight_decay) : 0.0F;
    kernels::exact().adamw(range.elements, settings, gradients.data() + range.offset,
                           arrays.parameters.data() + range.offset,
                           arrays.moment1.data() + range.offset,
                           arrays.moment2.data() + range.offset);
  }
}

}  // namespace pawl::optim
