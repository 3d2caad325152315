// What a worker's pod gets for schedulers besides the user's own template: nodes that it avoids,
// and the marks by which Kueue takes an attempt's pods as one group. Used by worker_pod.cpp alone.
// Pure.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "common/api/types.h"

namespace pawl::api {

// Adds status.excludedNodes to each of the pod's required node selector terms. Nodes of which it
// was only said that they go are avoided as long as there are others: they may stay after all, or
// come back by the same name, and a pod cannot be told.
void avoid_excluded_nodes(const TrainingJob& job, nlohmann::json& pod_spec);
// The job's kueue.x-k8s.io/* labels, and the group of the attempt where one of them names a queue.
// Kueue's webhook adds its scheduling gate by itself.
void mark_for_kueue(const TrainingJob& job, std::int64_t attempt, nlohmann::json& metadata);

}  // namespace pawl::api
