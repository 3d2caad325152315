#include "trainer-runtime/optim/noise_scale.h"

#include <algorithm>

namespace pawl::optim {
namespace {

constexpr double kKept = 0.99;  // of what was before, in a step
constexpr int kStepsLeast = 10;

}  // namespace

void NoiseScale::add(double micro_square, double global_square) {
  if (global_ <= micro_) return;
  ++steps_;
  // A mean of all until there are many.
  const double weight = std::max(1.0 / steps_, 1 - kKept);
  const double square = (global_ * global_square - micro_ * micro_square) / (global_ - micro_);
  const double variance = (micro_square - global_square) / (1 / micro_ - 1 / global_);
  square_ += weight * (square - square_);
  variance_ += weight * (variance - variance_);
}

std::optional<double> NoiseScale::samples() const {
  if (steps_ < kStepsLeast || !(square_ > 0) || !(variance_ > 0)) return std::nullopt;
  return variance_ / square_;
}

}  // namespace pawl::optim
