#include "trainer-runtime/optim/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace pawl::optim {
namespace {

// How far the warm-up is with the step, and when it has ended in which step that was.
struct WarmUp {
  double progress, steps;
};

WarmUp warm_up_of(const TrainerConfig& config, std::int64_t step, std::uint64_t samples) {
  const ScheduleConfig& schedule = config.schedule;
  const auto now = static_cast<double>(step);
  if (schedule.warmup_tokens == 0) {
    const auto steps = static_cast<double>(schedule.warmup_steps);
    return {now < steps ? (now + 1) / steps : 1, steps};
  }
  const double needed =
      static_cast<double>(schedule.warmup_tokens) / static_cast<double>(config.model.context);
  const auto done = static_cast<double>(samples);
  if (done < needed)
    return {std::min(1.0, (done + static_cast<double>(config.batch.global)) / needed), now};
  // By the batches so far. It moves by less than the step when they change, so that the learning
  // rate does not rise.
  return {1, done > 0 ? now * needed / done : 0};
}

// What is left of the way from the peak to the final fraction, 1 to 0.
double height(const ScheduleConfig& schedule, double progress) {
  if (schedule.kind == "constant") return 1;
  if (schedule.kind == "linear") return 1 - progress;
  if (schedule.kind == "wsd") {
    const double stable = 1 - schedule.decay_fraction;
    return progress <= stable ? 1 : (1 - progress) / schedule.decay_fraction;
  }
  return (1 + std::cos(std::numbers::pi * progress)) / 2;
}

}  // namespace

double peak_learning_rate(const TrainerConfig& config) {
  const OptimizerConfig& optimizer = config.optimizer;
  if (optimizer.scaling == "none") return optimizer.learning_rate;
  const double ratio =
      static_cast<double>(config.batch.global) / static_cast<double>(optimizer.scaling_batch);
  return optimizer.learning_rate * (optimizer.scaling == "linear" ? ratio : std::sqrt(ratio));
}

double learning_rate(const TrainerConfig& config, std::int64_t step, std::uint64_t samples) {
  const ScheduleConfig& schedule = config.schedule;
  const double peak = peak_learning_rate(config);
  const WarmUp warm_up = warm_up_of(config, step, samples);
  if (warm_up.progress < 1) return peak * warm_up.progress;
  const double left = static_cast<double>(config.steps - 1) - warm_up.steps;
  if (left <= 0) return peak;
  const double progress = std::clamp((static_cast<double>(step) - warm_up.steps) / left, 0.0, 1.0);
  return peak *
         (schedule.final_fraction + (1 - schedule.final_fraction) * height(schedule, progress));
}

}  // namespace pawl::optim
