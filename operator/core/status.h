// When are two statuses the same? A converged job is written never, numbers are written at a
// bounded pace, a change of meaning at once. Pure.
#pragma once

#include "common/api/types.h"

namespace pawl::core {

enum class Difference {
  kNone,
  kMessage,  // only words or numbers inside sentences
  kNumbers,  // ready counts, progress, checkpoint, the reason of a wait
  kMeaning   // phase, attempt, a condition's truth or reason, restarts, a failure, times
};

Difference difference_of(api::TrainingJobStatus before, api::TrainingJobStatus after);

}  // namespace pawl::core
