// What single fields of a configuration cannot show: those that do not go together.
#pragma once

#include <optional>
#include <string>

#include "trainer-runtime/include/pawl/config.h"

namespace pawl {

// A sentence that says what to change, if anything is to be changed.
std::optional<std::string> inconsistency(const TrainerConfig& config);

}  // namespace pawl
