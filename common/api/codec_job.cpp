#include <algorithm>
#include <array>
#include <utility>

#include "common/api/codec.h"
#include "common/api/codec_shared.h"
#include "common/api/contract.h"

namespace pawl::api {

using nlohmann::json;

namespace {

constexpr std::array<std::pair<RuntimeKind, const char*>, 3> kRuntimeNames{{
    {RuntimeKind::kNative, "Native"},
    {RuntimeKind::kTorch, "Torch"},
    {RuntimeKind::kCustom, "Custom"},
}};

RuntimeKind read_runtime_kind(Fields& fields) {
  std::string name = runtime_name(RuntimeKind::kCustom);
  fields.read("kind", name);
  for (const auto& [kind, kind_name] : kRuntimeNames) {
    if (name == kind_name) return kind;
  }
  fields.set_error(fields.path_of("kind"), "must be Native, Torch or Custom");
  return RuntimeKind::kCustom;
}

CheckpointSpec read_checkpoint_spec(Fields& fields) {
  CheckpointSpec checkpoint;
  fields.read("uri", checkpoint.uri);
  if (checkpoint.uri.empty()) fields.set_error(fields.path_of("uri"), "must be set");
  fields.read_auto("everySeconds", checkpoint.every_seconds);
  fields.read("keep", checkpoint.keep);
  return checkpoint;
}

TrainingJobSpec read_spec(Fields& fields) {
  TrainingJobSpec spec;
  fields.read("suspend", spec.is_suspended);
  fields.read("replicas", spec.replicas);
  fields.read_auto("processesPerWorker", spec.processes_per_worker);
  fields.read_object_text("template", spec.template_json);
  fields.child("failurePolicy",
               [&](Fields& policy) { policy.read("maxRestarts", spec.max_restarts); });
  fields.child("checkpoint",
               [&](Fields& checkpoint) { spec.checkpoint = read_checkpoint_spec(checkpoint); });
  fields.child("runtime", [&](Fields& runtime) {
    spec.runtime_kind = read_runtime_kind(runtime);
    runtime.read_object_text("config", spec.runtime_config_json);
  });
  fields.read("ttlSecondsAfterFinished", spec.ttl_seconds_after_finished);
  return spec;
}

Condition read_condition(Fields& fields) {
  Condition condition;
  fields.read("type", condition.type);
  fields.read("status", condition.status);
  fields.read("reason", condition.reason);
  fields.read("message", condition.message);
  fields.read("observedGeneration", condition.observed_generation);
  fields.read("lastTransitionTime", condition.last_transition_time);
  return condition;
}

TrainingJobStatus read_status(Fields& fields) {
  TrainingJobStatus status;
  fields.read("observedGeneration", status.observed_generation);
  fields.read("phase", status.phase);
  fields.read("reason", status.reason);
  fields.read("message", status.message);
  fields.read("attempt", status.attempt);
  fields.read("startTime", status.start_time);
  fields.read("completionTime", status.completion_time);
  fields.each("conditions",
              [&](Fields& item) { status.conditions.push_back(read_condition(item)); });
  fields.read("replicas", status.replicas);
  fields.read("readyReplicas", status.ready_replicas);
  fields.read("ready", status.ready);
  fields.read("selector", status.selector);
  fields.child("progress", [&](Fields& child) { status.progress = read_progress(child); });
  fields.child("checkpoint", [&](Fields& child) { status.checkpoint = read_checkpoint(child); });
  fields.child("restarts", [&](Fields& child) {
    child.read("counted", status.restarts.counted);
    child.read("free", status.restarts.free);
    child.read("byCause", status.restarts.by_cause);
    child.read("withoutProgress", status.restarts.without_progress);
    child.read("progressStep", status.restarts.progress_step);
  });
  fields.child("lastFailure", [&](Fields& child) { status.last_failure = read_failure(child); });
  return status;
}

json write_spec(const TrainingJobSpec& spec) {
  json object = {{"replicas", spec.replicas},
                 {"failurePolicy", {{"maxRestarts", spec.max_restarts}}},
                 {"runtime", {{"kind", runtime_name(spec.runtime_kind)}}}};
  if (spec.is_suspended) object["suspend"] = true;
  put(object, "processesPerWorker", spec.processes_per_worker);
  if (!spec.template_json.empty()) {
    object["template"] = json::parse(spec.template_json, nullptr, false);
  }
  if (spec.checkpoint) {
    json checkpoint = {{"uri", spec.checkpoint->uri}, {"keep", spec.checkpoint->keep}};
    put(checkpoint, "everySeconds", spec.checkpoint->every_seconds);
    object["checkpoint"] = std::move(checkpoint);
  }
  if (!spec.runtime_config_json.empty()) {
    object["runtime"]["config"] = json::parse(spec.runtime_config_json, nullptr, false);
  }
  put(object, "ttlSecondsAfterFinished", spec.ttl_seconds_after_finished);
  return object;
}

}  // namespace

const char* runtime_name(RuntimeKind kind) {
  const auto found =
      std::ranges::find(kRuntimeNames, kind, [](const auto& pair) { return pair.first; });
  return found == kRuntimeNames.end() ? "Custom" : found->second;
}

Result<TrainingJob> decode_training_job(const json& object) {
  std::optional<Error> error;
  Fields fields(object, "", error);
  TrainingJob job;
  job.meta = read_meta(fields);
  fields.child("spec", [&](Fields& spec) { job.spec = read_spec(spec); });
  fields.child("status", [&](Fields& status) { job.status = read_status(status); });
  if (error) return tl::make_unexpected(*error);
  return job;
}

Result<ObjectMeta> decode_meta(const json& object) {
  std::optional<Error> error;
  Fields fields(object, "", error);
  ObjectMeta meta = read_meta(fields);
  if (error) return tl::make_unexpected(*error);
  return meta;
}

json encode_status(const TrainingJobStatus& status) {
  json object = {{"observedGeneration", status.observed_generation},
                 {"attempt", status.attempt},
                 {"replicas", status.replicas},
                 {"readyReplicas", status.ready_replicas}};
  put(object, "phase", status.phase);
  put(object, "reason", status.reason);
  put(object, "message", clip_front(status.message, kMessageBytesMax));
  put(object, "startTime", status.start_time);
  put(object, "completionTime", status.completion_time);
  put(object, "ready", status.ready);
  put(object, "selector", status.selector);
  for (const Condition& condition : status.conditions) {
    object["conditions"].push_back(encode_condition(condition));
  }
  if (status.progress) object["progress"] = write_progress(*status.progress);
  if (status.checkpoint) object["checkpoint"] = write_checkpoint(*status.checkpoint);
  object["restarts"] = {{"counted", status.restarts.counted}, {"free", status.restarts.free}};
  if (!status.restarts.by_cause.empty()) object["restarts"]["byCause"] = status.restarts.by_cause;
  if (status.restarts.without_progress != 0) {
    object["restarts"]["withoutProgress"] = status.restarts.without_progress;
  }
  if (status.restarts.progress_step != 0) {
    object["restarts"]["progressStep"] = status.restarts.progress_step;
  }
  if (status.last_failure) object["lastFailure"] = encode_failure(*status.last_failure);
  return object;
}

json encode_training_job(const TrainingJob& job) {
  return {{"apiVersion", kApiVersion},
          {"kind", "TrainingJob"},
          {"metadata", write_meta(job.meta)},
          {"spec", write_spec(job.spec)},
          {"status", encode_status(job.status)}};
}

}  // namespace pawl::api
