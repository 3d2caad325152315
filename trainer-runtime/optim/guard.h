// Whether a step may change the parameters: not where its loss or gradient is not finite, nor where
// the gradient's norm is a spike beside those of the steps before. All ranks have the same numbers,
// and what is remembered goes into checkpoints, so that every rank, and a run that goes on,
// concludes the same. Pure; any thread.
#pragma once

#include <cstdint>
#include <string>

#include "trainer-runtime/include/pawl/config.h"

namespace pawl::optim {

// Of the run so far.
struct GuardState {
  double usual_norm = 0;    // mean of the last hundred good steps or so
  std::int64_t steps = 0;   // good ones
  std::int64_t in_row = 0;  // skipped since the last good one
  std::int64_t skipped = 0;
  bool operator==(const GuardState&) const = default;
};

enum class Verdict { kGood, kSkip, kFail };

struct Judgement {
  Verdict verdict = Verdict::kGood;
  std::string why;  // of a step that is not good, for people
};

// Of a step that all ranks have made, before it changes anything. `norm`: of the whole gradient,
// before it is clipped.
Judgement judge(const GuardConfig& config, double loss, double norm, GuardState& state);

// Good steps before a norm can be a spike.
inline constexpr std::int64_t kStepsToKnow = 20;

}  // namespace pawl::optim
