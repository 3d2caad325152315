// The learning rate of a step: linear warm-up, then one of four curves to the last step. Pure, and
// in fp64 until the end, so that every rank and every resumed run computes the same number.
#pragma once

#include <cstdint>

#include "trainer-runtime/include/pawl/config.h"

namespace pawl::optim {

// optimizer.learning_rate by optimizer.scaling: linear (Goyal et al., "Accurate, Large Minibatch
// SGD", 2017), or by the square root, for Adam and its kin (Malladi et al., "On the SDEs and
// Scaling Rules for Adaptive Gradient Algorithms", 2022).
double peak_learning_rate(const TrainerConfig& config);

// `step` counts from 0; `samples` were trained on before it, whatever the batches were then.
// wsd: warm-up, stable, decay (Hu et al., "MiniCPM", 2024).
double learning_rate(const TrainerConfig& config, std::int64_t step, std::uint64_t samples);

}  // namespace pawl::optim
