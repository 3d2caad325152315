// The learning rate of a step: linear warm-up, then cosine or constant. Pure, and in fp64 until the
// end, so that every rank and every resumed run computes the same number.
#pragma once

#include <cmath>
#include <numbers>

#include "trainer-runtime/include/pawl/config.h"

namespace pawl::optim {

// `step` counts from 0.
inline double learning_rate(const TrainerConfig& config, std::int64_t step) {
  const ScheduleConfig& schedule = config.schedule;
  const double peak = config.optimizer.learning_rate;
  if (step < schedule.warmup_steps) {
    return peak * static_cast<double>(step + 1) / static_cast<double>(schedule.warmup_steps);
  }
  const std::int64_t left = config.steps - 1 - schedule.warmup_steps;
  if (schedule.kind == "constant" || left <= 0) return peak;
  const double progress =
      static_cast<double>(step - schedule.warmup_steps) / static_cast<double>(left);
  const double wave = (1 + std::cos(std::numbers::pi * (progress < 1 ? progress : 1))) / 2;
  return peak * (schedule.final_fraction + (1 - schedule.final_fraction) * wave);
}

}  // namespace pawl::optim
