// When a job that has been placed will have ended.
#pragma once

#include <optional>

#include "common/api/types.h"

namespace pawl::controller {

// When its pods will have ended, if its time began then; nothing: it may run for ever. Pure.
std::optional<TimePoint> end_after(const api::TrainingJob& job, std::optional<TimePoint> start);

}  // namespace pawl::controller
