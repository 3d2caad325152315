#include "trainer-runtime/optim/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace pawl::optim {
namespace {

// Where a step is, in steps of the batch of now.
struct Place {
  double step, warmup, last;
};

Place place_of(const TrainerConfig& config, std::int64_t step, std::uint64_t samples) {
  const ScheduleConfig& schedule = config.schedule;
  const auto left = static_cast<double>(config.steps - 1 - step);
  if (schedule.warmup_tokens == 0) {
    const auto now = static_cast<double>(step);
    return {now, static_cast<double>(schedule.warmup_steps), now + left};
  }
  const auto batch = static_cast<double>(config.batch.global);
  const double now = static_cast<double>(samples) / batch;
  const double tokens = batch * static_cast<double>(config.model.context);
  return {now, static_cast<double>(schedule.warmup_tokens) / tokens, now + left};
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
  const Place place = place_of(config, step, samples);
  if (place.step < place.warmup) return peak * std::min(1.0, (place.step + 1) / place.warmup);
  const double left = place.last - place.warmup;
  if (left <= 0) return peak;
  const double progress = std::clamp((place.step - place.warmup) / left, 0.0, 1.0);
  return peak *
         (schedule.final_fraction + (1 - schedule.final_fraction) * height(schedule, progress));
}

}  // namespace pawl::optim
