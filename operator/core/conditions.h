// What the status of a job says. Pure.
#pragma once

#include "common/api/types.h"

namespace pawl::core {

const api::Condition* find_condition(const api::TrainingJobStatus& status, const char* type);
bool is_true(const api::TrainingJobStatus& status, const char* type);
// The attempt before did not begin in time, and gave its nodes back (late_start.cpp).
bool gave_up_start(const api::TrainingJobStatus& status);
// … because nodes that were to come did not.
bool lacked_nodes(const api::TrainingJobStatus& status);

}  // namespace pawl::core
