// What patches of the random sequences want: right and wrong values of the fields that clients
// write. Pure.
#pragma once

#include "common/base/json.h"
#include "common/base/random.h"

namespace pawl::conformance {

// For spec.replicas: within its limits, at them, beyond, and of another type.
nlohmann::json one_in_range(Random& random);
nlohmann::json job_change(Random& random);  // of spec
nlohmann::json group_change(Random& random);
nlohmann::json job_status(Random& random);  // of status; null: away with it
nlohmann::json group_status(Random& random);

}  // namespace pawl::conformance
