#include "trainer-runtime/optim/guard.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

namespace pawl::optim {
namespace {

constexpr double kTaken = 0.01;  // of a new norm into the mean, once there are many

std::string format(const char* pattern, auto... values) {
  std::array<char, 200> text{};
  std::snprintf(text.data(), text.size(), pattern, values...);
  return text.data();
}

std::string fault_of(const GuardConfig& config, double loss, double norm, const GuardState& state) {
  if (!std::isfinite(loss) || !std::isfinite(norm))
    return format("loss %g and gradient norm %g", loss, norm);
  const bool is_known = config.spike > 0 && state.steps >= kStepsToKnow;
  if (!is_known || norm <= config.spike * state.usual_norm) return "";
  return format("gradient norm %.4g, %.1f times the usual %.4g (guard.spike is %g)", norm,
                norm / state.usual_norm, state.usual_norm, config.spike);
}

}  // namespace

Judgement judge(const GuardConfig& config, double loss, double norm, GuardState& state) {
  const std::string fault = fault_of(config, loss, norm, state);
  if (fault.empty()) {
    state.steps += 1;
    state.in_row = 0;
    const double weight = std::max(1 / static_cast<double>(state.steps), kTaken);
    state.usual_norm += weight * (norm - state.usual_norm);
    return {};
  }
  if (config.on_bad_step == "fail") return {Verdict::kFail, fault};
  if (state.in_row >= config.skips_max) {
    return {Verdict::kFail, fault + ", after " + std::to_string(state.in_row) +
                                " in a row that were skipped (guard.skips_max)"};
  }
  state.in_row += 1;
  state.skipped += 1;
  return {Verdict::kSkip, fault + ": skipped, " + std::to_string(state.in_row) + " in a row, " +
                              std::to_string(state.skipped) + " of the run"};
}

}  // namespace pawl::optim
