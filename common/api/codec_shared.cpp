#include "common/api/codec_shared.h"

#include "common/api/codec.h"
#include "common/api/contract.h"

namespace pawl::api {

using nlohmann::json;

ObjectMeta read_meta(Fields& object) {
  ObjectMeta meta;
  object.child("metadata", [&](Fields& fields) {
    fields.read("name", meta.name);
    fields.read("namespace", meta.ns);
    fields.read("uid", meta.uid);
    fields.read("resourceVersion", meta.resource_version);
    fields.read("generation", meta.generation);
    fields.read("creationTimestamp", meta.creation_time);
    fields.read("deletionTimestamp", meta.deletion_time);
    fields.read("labels", meta.labels);
    fields.read("annotations", meta.annotations);
    fields.each("ownerReferences", [&](Fields& owner) {
      OwnerReference reference;
      owner.read("apiVersion", reference.api_version);
      owner.read("kind", reference.kind);
      owner.read("name", reference.name);
      owner.read("uid", reference.uid);
      owner.read("controller", reference.is_controller);
      meta.owners.push_back(std::move(reference));
    });
  });
  return meta;
}

json write_meta(const ObjectMeta& meta) {
  json object = json::object();
  put(object, "name", meta.name);
  put(object, "namespace", meta.ns);
  put(object, "uid", meta.uid);
  put(object, "resourceVersion", meta.resource_version);
  if (meta.generation != 0) object["generation"] = meta.generation;
  put(object, "creationTimestamp", meta.creation_time);
  put(object, "deletionTimestamp", meta.deletion_time);
  if (!meta.labels.empty()) object["labels"] = meta.labels;
  if (!meta.annotations.empty()) object["annotations"] = meta.annotations;
  for (const OwnerReference& owner : meta.owners) {
    json reference = {{"apiVersion", owner.api_version},
                      {"kind", owner.kind},
                      {"name", owner.name},
                      {"uid", owner.uid}};
    if (owner.is_controller) {
      reference["controller"] = true;
      reference["blockOwnerDeletion"] = true;
    }
    object["ownerReferences"].push_back(std::move(reference));
  }
  return object;
}

Progress read_progress(Fields& fields) {
  Progress progress;
  fields.read("step", progress.step);
  fields.read("totalSteps", progress.total_steps);
  fields.read("percent", progress.percent);
  fields.read("etaSeconds", progress.eta_seconds);
  fields.read("loss", progress.loss);
  fields.read("samplesPerSecond", progress.samples_per_second);
  fields.read("tokensPerSecond", progress.tokens_per_second);
  fields.read("epoch", progress.epoch);
  fields.child("validation", [&progress](Fields& child) {
    Validation& validation = progress.validation.emplace();
    child.read("step", validation.step);
    child.read("loss", validation.loss);
    child.read("accuracy", validation.accuracy);
    child.read("bestStep", validation.best_step);
    child.read("bestLoss", validation.best_loss);
  });
  fields.child("straggler", [&progress](Fields& child) {
    Straggler& slow = progress.straggler.emplace();
    child.read("rank", slow.rank);
    child.read("pod", slow.pod);
    child.read("node", slow.node);
    child.read("factor", slow.factor);
  });
  fields.read("time", progress.time);
  return progress;
}

json write_progress(const Progress& progress) {
  json object = {{"step", progress.step},
                 {"totalSteps", progress.total_steps},
                 {"percent", progress.percent},
                 {"epoch", progress.epoch}};
  put(object, "etaSeconds", progress.eta_seconds);
  put(object, "loss", progress.loss);
  put(object, "samplesPerSecond", progress.samples_per_second);
  put(object, "tokensPerSecond", progress.tokens_per_second);
  if (const auto& validation = progress.validation) {
    json& part =
        object["validation"] = {{"step", validation->step}, {"bestStep", validation->best_step}};
    put(part, "loss", validation->loss);
    put(part, "accuracy", validation->accuracy);
    put(part, "bestLoss", validation->best_loss);
  }
  if (const auto& slow = progress.straggler) {
    object["straggler"] = {
        {"rank", slow->rank}, {"pod", slow->pod}, {"node", slow->node}, {"factor", slow->factor}};
  }
  put(object, "time", progress.time);
  return object;
}

CheckpointStatus read_checkpoint(Fields& fields) {
  CheckpointStatus checkpoint;
  fields.read("step", checkpoint.step);
  fields.read("uri", checkpoint.uri);
  fields.read("time", checkpoint.time);
  fields.read("sizeBytes", checkpoint.size_bytes);
  fields.read("digest", checkpoint.digest);
  fields.read("count", checkpoint.count);
  return checkpoint;
}

json write_checkpoint(const CheckpointStatus& checkpoint) {
  json object = {
      {"step", checkpoint.step}, {"sizeBytes", checkpoint.size_bytes}, {"count", checkpoint.count}};
  put(object, "uri", checkpoint.uri);
  put(object, "time", checkpoint.time);
  put(object, "digest", checkpoint.digest);
  return object;
}

Failure read_failure(Fields& fields) {
  Failure failure;
  fields.read("rank", failure.rank);
  fields.read("pod", failure.pod);
  fields.read("podUid", failure.pod_uid);
  fields.read("node", failure.node);
  fields.read("exitCode", failure.exit_code);
  fields.read("signal", failure.signal);
  fields.read("cause", failure.cause);
  fields.read("message", failure.message);
  fields.read("logTail", failure.log_tail);
  fields.read("attempt", failure.attempt);
  fields.read("generation", failure.generation);
  fields.read("time", failure.time);
  return failure;
}

json encode_failure(const Failure& failure) {
  json object = json::object();
  if (failure.rank >= 0) object["rank"] = failure.rank;
  put(object, "pod", failure.pod);
  put(object, "podUid", failure.pod_uid);
  put(object, "node", failure.node);
  put(object, "exitCode", failure.exit_code);
  put(object, "signal", failure.signal);
  put(object, "cause", failure.cause);
  put(object, "message", clip_front(failure.message, kMessageBytesMax));
  put(object, "logTail", clip_back(failure.log_tail, kLogTailBytesMax));
  if (failure.attempt != 0) object["attempt"] = failure.attempt;
  if (failure.generation != 0) object["generation"] = failure.generation;
  put(object, "time", failure.time);
  return object;
}

json encode_condition(const Condition& condition) {
  json object = {{"type", condition.type}, {"status", condition.status}};
  put(object, "reason", condition.reason);
  object["message"] = clip_front(condition.message, kMessageBytesMax);
  if (condition.observed_generation != 0) {
    object["observedGeneration"] = condition.observed_generation;
  }
  put(object, "lastTransitionTime", condition.last_transition_time);
  return object;
}

void read_recoveries(Fields& fields, Recoveries& recoveries) {
  fields.child("recoveries", [&](Fields& child) {
    child.read("inPlace", recoveries.in_place);
    child.read("resizes", recoveries.resizes);
    child.read("byCause", recoveries.by_cause);
  });
}

void write_recoveries(json& object, const Recoveries& recoveries) {
  if (recoveries == Recoveries{}) return;
  object["recoveries"] = {{"inPlace", recoveries.in_place}, {"resizes", recoveries.resizes}};
  if (!recoveries.by_cause.empty()) object["recoveries"]["byCause"] = recoveries.by_cause;
}

void read_tally(Fields& fields, Tally& tally) {
  read_recoveries(fields, tally.recoveries);
  fields.child("goodput", [&](Fields& child) {
    child.read("attempt", tally.time.attempt);
    child.read("since", tally.time.since);
    child.read("countedSeconds", tally.time.counted_seconds);
    child.read("generation", tally.time.generation);
    child.read("step", tally.time.step);
    child.read("productiveSeconds", tally.time.productive_seconds);
    child.read("byCause", tally.time.lost_by_cause);
  });
}

void write_tally(json& object, const Tally& tally) {
  write_recoveries(object, tally.recoveries);
  const GangTime& time = tally.time;
  if (time == GangTime{}) return;
  object["goodput"] = {{"attempt", time.attempt},
                       {"generation", time.generation},
                       {"step", time.step},
                       {"productiveSeconds", time.productive_seconds}};
  put(object["goodput"], "since", time.since);
  if (time.since) object["goodput"]["countedSeconds"] = time.counted_seconds;
  if (!time.lost_by_cause.empty()) object["goodput"]["byCause"] = time.lost_by_cause;
}

json merge_patch_between(const json& before, const json& after) {
  if (!before.is_object() || !after.is_object()) return after;
  json patch = json::object();
  for (const auto& [key, value] : before.items()) {
    if (!after.contains(key)) patch[key] = nullptr;
  }
  for (const auto& [key, value] : after.items()) {
    const auto old = before.find(key);
    if (old == before.end()) {
      patch[key] = value;
    } else if (*old != value) {
      patch[key] = merge_patch_between(*old, value);
    }
  }
  return patch;
}

std::string encode_termination(const Failure& failure) {
  constexpr std::size_t kTerminationBytesMax = 4096;  // the kubelet cuts what is longer
  Failure shorter = failure;
  shorter.log_tail = clip_back(failure.log_tail, kLogTailBytesMax);
  shorter.message = clip_front(failure.message, kMessageBytesMax);
  for (;;) {
    std::string text = dump({{"pawl", kContractVersion}, {"failure", encode_failure(shorter)}});
    const bool is_minimal = shorter.log_tail.empty() && shorter.message.empty();
    if (text.size() <= kTerminationBytesMax || is_minimal) return text;
    // Escapes may make the text several times longer than its bytes: halve until it fits.
    if (!shorter.log_tail.empty()) {
      shorter.log_tail = clip_back(shorter.log_tail, shorter.log_tail.size() / 2);
    } else {
      shorter.message = clip_front(shorter.message, shorter.message.size() / 2);
    }
  }
}

Result<Failure> decode_termination(const std::string& text) {
  const json object = parse_json(text);
  if (!object.is_object() || !object.contains("pawl") || !object.contains("failure")) {
    return fail(Code::kInvalid, "not a launcher's termination message");
  }
  std::optional<Error> error;
  Fields fields(object["failure"], "failure", error);
  Failure failure = read_failure(fields);
  if (error) return tl::make_unexpected(*error);
  return failure;
}

}  // namespace pawl::api
