// What a worker's pod gets for schedulers besides the user's own template: nodes that it avoids,
// whether it may be on spot machines, and the marks by which Kueue takes an attempt's pods as one
// group. Used by worker_pod.cpp; the two questions also by operator/core. Pure.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <vector>

#include "common/api/children.h"
#include "common/api/types.h"

namespace pawl::api {

// An excluded node that is used where there is no other: for a while, or as long as it says that it
// goes, or as a slow one.
bool is_only_avoided(const ExcludedNode& node);

// Adds status.excludedNodes to each of the pod's required node selector terms. Nodes of which it
// was only said that they go, and those in quarantine, are avoided as long as there are others:
// they may stay after all, come back by the same name, or be mended, and a pod cannot be told.
// Where all are avoided, the last of the list, the newest, is avoided most. `now`, of the pod's
// creation: a quarantine that is over counts for nothing.
void avoid_excluded_nodes(const TrainingJob& job, std::optional<TimePoint> now,
                          nlohmann::json& pod_spec);
// A job without spec.capacity is left to its template: false.
bool may_be_on_spot(const TrainingJob& job, int slot);
// spec.capacity: required of the nodes of workers that are never on spot, beside the user's own
// terms; else a toleration of spot taints, and a preference: for spot, or in a fall-back against
// it, so that no pod waits for what is not there. Without spec.capacity, or a table: nothing.
void place_by_capacity(const TrainingJob& job, int slot, const ChildOptions& options,
                       nlohmann::json& pod_spec);
// Required beside the user's own terms: the node that was decided on for this pod. Nothing where
// none was, or any will do.
void place_on_node(const TrainingJob& job, std::int64_t attempt, int slot, int n,
                   nlohmann::json& pod_spec);
// Of a pod that is to be anywhere (kAnyNode): beside the others of its attempt within the level
// that the job requires, and at all others of `levels` if there is room.
void place_near_others(const TrainingJob& job, std::int64_t attempt,
                       const std::vector<LevelLabel>& levels, nlohmann::json& pod_spec);
// The job's kueue.x-k8s.io/* labels, and the group of the attempt where one of them names a queue.
// Kueue's webhook adds its scheduling gate by itself.
void mark_for_kueue(const TrainingJob& job, std::int64_t attempt, nlohmann::json& metadata);

}  // namespace pawl::api
