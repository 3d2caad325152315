// What the conditions of a job say. Pure.
#pragma once

#include "common/api/types.h"

namespace pawl::core {

const api::Condition* find_condition(const api::TrainingJobStatus& status, const char* type);
bool is_true(const api::TrainingJobStatus& status, const char* type);

}  // namespace pawl::core
