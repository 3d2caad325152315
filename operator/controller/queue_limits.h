// Between TrainingQueue objects and the quotas that they stand for. Pure.
#pragma once

#include <string>

#include "common/api/training_job.h"
#include "common/api/training_queue.h"
#include "operator/admission/quotas.h"

namespace pawl::controller {

std::string queue_name(const api::TrainingJob& job);  // "": none
// What is no quantity counts as 0; the API server lets none through.
admission::Queue limits_of(const api::TrainingQueue& queue);
// `pending`: jobs in line.
api::TrainingQueueStatus status_of(const api::TrainingQueue& queue, const admission::Quotas& quotas,
                                   int pending);
// As a user would write it: thousandths of processors, and bytes in the largest unit without rest.
// `name`: of the resource, or as quota_name() has it.
std::string quantity_text(const std::string& name, std::int64_t quantity);

}  // namespace pawl::controller
