// JSON ↔ types.h. Decoding is tolerant of what it does not know and strict about what it uses: a
// wrong type is Invalid with the field's path. Encoding writes only fields that are set. Pure.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "common/api/types.h"
#include "common/base/result.h"

namespace pawl::api {

// Applies the schema's defaults, so that the result has no undefaulted field.
Result<TrainingJob> decode_training_job(const nlohmann::json& object);
Result<WorkerGroup> decode_worker_group(const nlohmann::json& object);
Result<TrainingQueue> decode_training_queue(const nlohmann::json& object);
// The worker container is the one named "worker", else the first.
Result<PodView> decode_pod(const nlohmann::json& object);
Result<ObjectMeta> decode_meta(const nlohmann::json& object);

nlohmann::json encode_training_job(const TrainingJob& job);  // whole object: tests and `pawl run`
nlohmann::json encode_status(const TrainingJobStatus& status);
nlohmann::json encode_worker_group(const WorkerGroup& group);
nlohmann::json encode_spec(const WorkerGroupSpec& spec);
nlohmann::json encode_status(const WorkerGroupStatus& status);
nlohmann::json encode_status(const TrainingQueueStatus& status);
nlohmann::json encode_condition(const Condition& condition);
nlohmann::json encode_failure(const Failure& failure);

// The merge patch that turns `before` into `after` (RFC 7386; null removes). Lists are replaced
// whole.
nlohmann::json merge_patch_between(const nlohmann::json& before, const nlohmann::json& after);

// What a launcher writes to the termination log and the operator reads back from the pod's status,
// ≤ 4,096 bytes.
std::string encode_termination(const Failure& failure);
Result<Failure> decode_termination(const std::string& text);

const char* runtime_name(RuntimeKind kind);  // "Native", "Torch", …
std::optional<RuntimeKind> runtime_kind(const std::string& name);

}  // namespace pawl::api
