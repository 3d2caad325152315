// Values that the tests of the api start from.
#pragma once

#include "common/api/types.h"
#include "common/base/json.h"

namespace pawl::api::samples {

TimePoint time_at(int second);
// Every field set to something that is not its default.
TrainingJob full_job();
WorkerGroup full_group();

// The least that a user can write: Native, and a Torch job with a template.
nlohmann::json native_job();
nlohmann::json torch_job();

// decode(torch_job()) with a UID and a namespace, as the operator sees it.
TrainingJob observed(const nlohmann::json& object);

}  // namespace pawl::api::samples
