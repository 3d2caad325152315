// The gradient noise scale: how many samples a step should have. With much fewer, twice the samples
// halve the steps; with much more, they are wasted (McCandlish, Kaplan, Amodei et al., "An
// Empirical Model of Large-Batch Training", 2018, appendix A.1). Pure; one thread.
#pragma once

#include <cstdint>
#include <optional>

namespace pawl::optim {

class NoiseScale {
 public:
  // Samples of a micro-batch and of a step.
  NoiseScale(std::int64_t micro, std::int64_t global)
      : micro_(static_cast<double>(micro)), global_(static_cast<double>(global)) {}

  // Squared norms of a step's mean gradient: over a micro-batch, on average, and over all samples.
  void add(double micro_square, double global_square);
  // In samples, of the last hundred steps or so. None: too few steps so far, all samples of a step
  // are in one micro-batch, or the noise hides the gradient.
  std::optional<double> samples() const;

 private:
  double micro_, global_;
  // Of the gradient of all data: its squared norm, and the variance of one sample's, summed over
  // all parameters. Means that forget; a ratio of means has less bias than a mean of ratios.
  double square_ = 0, variance_ = 0;
  int steps_ = 0;
};

}  // namespace pawl::optim
