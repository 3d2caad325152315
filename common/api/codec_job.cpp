#include <algorithm>
#include <array>
#include <utility>

#include "common/api/codec.h"
#include "common/api/codec_shared.h"
#include "common/api/contract.h"

namespace pawl::api {

using nlohmann::json;

namespace {

constexpr std::array<std::pair<RuntimeKind, const char*>, 7> kRuntimeNames{{
    {RuntimeKind::kNative, "Native"},
    {RuntimeKind::kTorch, "Torch"},
    {RuntimeKind::kTensorFlow, "TensorFlow"},
    {RuntimeKind::kJax, "JAX"},
    {RuntimeKind::kMpi, "MPI"},
    {RuntimeKind::kRay, "Ray"},
    {RuntimeKind::kCustom, "Custom"},
}};

RuntimeKind read_runtime_kind(Fields& fields) {
  std::string name = runtime_name(RuntimeKind::kCustom);
  fields.read("kind", name);
  if (const auto kind = runtime_kind(name)) return *kind;
  fields.set_error(fields.path_of("kind"),
                   "must be Native, Torch, TensorFlow, JAX, MPI, Ray or Custom");
  return RuntimeKind::kCustom;
}

constexpr std::array<std::pair<RuleAction, const char*>, 4> kActionNames{{
    {RuleAction::kFail, "Fail"},
    {RuleAction::kRestart, "Restart"},
    {RuleAction::kRestartFree, "RestartFree"},
    {RuleAction::kReplaceNode, "ReplaceNode"},
}};
constexpr std::array<std::pair<Strategy, const char*>, 2> kStrategyNames{{
    {Strategy::kInPlace, "InPlace"},
    {Strategy::kRecreateAll, "RecreateAll"},
}};
constexpr std::array<std::pair<SuccessPolicy, const char*>, 2> kSuccessNames{{
    {SuccessPolicy::kAllRanks, "AllRanks"},
    {SuccessPolicy::kRank0, "Rank0"},
}};
constexpr std::array<std::pair<CleanPodPolicy, const char*>, 3> kCleanNames{{
    {CleanPodPolicy::kRunning, "Running"},
    {CleanPodPolicy::kAll, "All"},
    {CleanPodPolicy::kNone, "None"},
}};

constexpr std::array<std::pair<OnShortage, const char*>, 3> kShortageNames{{
    {OnShortage::kWait, "Wait"},
    {OnShortage::kShrink, "Shrink"},
    {OnShortage::kFail, "Fail"},
}};

template <typename Names, typename Value>
void read_word(Fields& fields, const char* field, const Names& names, Value& out) {
  std::string word;
  fields.read(field, word);
  if (word.empty()) return;
  for (const auto& [value, name] : names) {
    if (word != name) continue;
    out = value;
    return;
  }
  fields.set_error(fields.path_of(field), "has a value that this version does not know");
}

template <typename Names, typename Value>
const char* word_of(const Names& names, Value value) {
  const auto found = std::ranges::find(names, value, [](const auto& pair) { return pair.first; });
  return found == names.end() ? "" : found->second;
}

FailureRule read_rule(Fields& fields) {
  FailureRule rule;
  fields.read("name", rule.name);
  read_word(fields, "action", kActionNames, rule.action);
  fields.child("onExitCodes", [&](Fields& child) {
    std::string comparison;
    child.read("operator", comparison);
    rule.is_not_in = comparison == "NotIn";
    child.read("values", rule.exit_codes);
  });
  fields.read("onCauses", rule.causes);
  return rule;
}

json write_rule(const FailureRule& rule) {
  json object = {{"name", rule.name}, {"action", word_of(kActionNames, rule.action)}};
  if (!rule.exit_codes.empty()) {
    object["onExitCodes"] = {{"operator", rule.is_not_in ? "NotIn" : "In"},
                             {"values", rule.exit_codes}};
  }
  if (!rule.causes.empty()) object["onCauses"] = rule.causes;
  return object;
}

void read_policies(Fields& fields, TrainingJobSpec& spec) {
  fields.child("failurePolicy", [&](Fields& policy) {
    read_word(policy, "strategy", kStrategyNames, spec.strategy);
    policy.read("maxRestarts", spec.max_restarts);
    policy.read("resetAfterSeconds", spec.reset_after_seconds);
    std::optional<std::int64_t> timeout;
    policy.read("podTerminationTimeoutSeconds", timeout);
    if (timeout) spec.pod_termination_timeout_seconds = *timeout;
    policy.each("rules", [&](Fields& rule) { spec.failure_rules.push_back(read_rule(rule)); });
  });
  read_word(fields, "successPolicy", kSuccessNames, spec.success_policy);
  fields.read("hostnames", spec.has_hostnames);
  read_word(fields, "cleanPodPolicy", kCleanNames, spec.clean_pod_policy);
  fields.child("deadlines", [&](Fields& deadlines) {
    deadlines.read("activeSeconds", spec.deadlines.active_seconds);
    deadlines.read("startSeconds", spec.deadlines.start_seconds);
    deadlines.read("progressSeconds", spec.deadlines.progress_seconds);
  });
}

void write_policies(const TrainingJobSpec& spec, json& object) {
  json policy = {{"strategy", word_of(kStrategyNames, spec.strategy)},
                 {"maxRestarts", spec.max_restarts},
                 {"podTerminationTimeoutSeconds", spec.pod_termination_timeout_seconds}};
  put(policy, "resetAfterSeconds", spec.reset_after_seconds);
  for (const FailureRule& rule : spec.failure_rules) policy["rules"].push_back(write_rule(rule));
  object["failurePolicy"] = std::move(policy);
  object["successPolicy"] = word_of(kSuccessNames, spec.success_policy);
  object["hostnames"] = spec.has_hostnames;
  object["cleanPodPolicy"] = word_of(kCleanNames, spec.clean_pod_policy);
  json deadlines = json::object();
  put(deadlines, "activeSeconds", spec.deadlines.active_seconds);
  put(deadlines, "startSeconds", spec.deadlines.start_seconds);
  put(deadlines, "progressSeconds", spec.deadlines.progress_seconds);
  if (!deadlines.empty()) object["deadlines"] = std::move(deadlines);
}

CheckpointSpec read_checkpoint_spec(Fields& fields) {
  CheckpointSpec checkpoint;
  fields.read("uri", checkpoint.uri);
  if (checkpoint.uri.empty()) fields.set_error(fields.path_of("uri"), "must be set");
  fields.read_auto("everySeconds", checkpoint.every_seconds);
  fields.read("keep", checkpoint.keep);
  return checkpoint;
}

Elastic read_elastic(Fields& fields) {
  Elastic elastic;
  fields.read("minReplicas", elastic.min_replicas);
  fields.read("maxReplicas", elastic.max_replicas);
  fields.read("stabilizationSeconds", elastic.stabilization_seconds);
  read_word(fields, "onShortage", kShortageNames, elastic.on_shortage);
  fields.read("shortageSeconds", elastic.shortage_seconds);
  return elastic;
}

TrainingJobSpec read_job_spec(Fields& fields) {
  TrainingJobSpec spec;
  fields.read("suspend", spec.is_suspended);
  fields.read("replicas", spec.replicas);
  fields.child("elastic", [&](Fields& child) { spec.elastic = read_elastic(child); });
  fields.child("capacity", [&](Fields& child) { spec.capacity = read_capacity(child); });
  fields.child("scheduling", [&](Fields& child) { spec.scheduling = read_scheduling(child); });
  fields.read_auto("processesPerWorker", spec.processes_per_worker);
  fields.read_object_text("template", spec.template_json);
  fields.read("managedBy", spec.managed_by);
  read_policies(fields, spec);
  fields.child("checkpoint",
               [&](Fields& checkpoint) { spec.checkpoint = read_checkpoint_spec(checkpoint); });
  fields.child("runtime", [&](Fields& runtime) {
    spec.runtime_kind = read_runtime_kind(runtime);
    runtime.read_object_text("config", spec.runtime_config_json);
    runtime.read("inPlace", spec.is_in_place);
    runtime.read("parameterServers", spec.parameter_servers);
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

void read_goodput(Fields& fields, Goodput& goodput) {
  fields.read("productiveSeconds", goodput.productive_seconds);
  fields.read("lostSeconds", goodput.lost_seconds);
  fields.read("percent", goodput.percent);
  fields.read("byCause", goodput.lost_by_cause);
  fields.read("losing", goodput.losing);
  fields.read("beforeSeconds", goodput.before_seconds);
}

json write_goodput(const Goodput& goodput) {
  json object = {{"productiveSeconds", goodput.productive_seconds},
                 {"lostSeconds", goodput.lost_seconds}};
  put(object, "percent", goodput.percent);
  put(object, "losing", goodput.losing);
  if (!goodput.lost_by_cause.empty()) object["byCause"] = goodput.lost_by_cause;
  if (goodput.before_seconds > 0) object["beforeSeconds"] = goodput.before_seconds;
  return object;
}

TrainingJobStatus read_job_status(Fields& fields) {
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
    status.restarts.spent = status.restarts.counted;  // of before there was a reset
    child.read("spent", status.restarts.spent);
    child.read("byCause", status.restarts.by_cause);
    child.read("withoutProgress", status.restarts.without_progress);
    child.read("progressStep", status.restarts.progress_step);
  });
  fields.child("capacity", [&](Fields& child) { read_capacity_status(child, status.capacity); });
  fields.child("placement", [&](Fields& child) { read_placement(child, status.placement); });
  fields.read("placedBy", status.placed_by);
  read_recoveries(fields, status.recoveries);
  fields.child("goodput", [&](Fields& child) { read_goodput(child, status.goodput); });
  fields.child("lastFailure", [&](Fields& child) { status.last_failure = read_failure(child); });
  fields.read("attemptTime", status.attempt_time);
  fields.read("progressTime", status.progress_time);
  fields.read("microBatch", status.micro_batch);
  fields.each("excludedNodes", [&](Fields& item) {
    ExcludedNode node;
    item.read("name", node.name);
    item.read("cause", node.cause);
    item.read("time", node.time);
    item.read("until", node.until);
    item.read("message", node.message);
    item.read("pods", node.pods);
    status.excluded_nodes.push_back(std::move(node));
  });
  return status;
}

json write_spec(const TrainingJobSpec& spec) {
  json object = {{"replicas", spec.replicas},
                 {"runtime", {{"kind", runtime_name(spec.runtime_kind)}}}};
  put(object, "managedBy", spec.managed_by);
  write_policies(spec, object);
  if (spec.is_suspended) object["suspend"] = true;
  if (spec.elastic) {
    json elastic = {{"minReplicas", spec.elastic->min_replicas},
                    {"stabilizationSeconds", spec.elastic->stabilization_seconds},
                    {"onShortage", word_of(kShortageNames, spec.elastic->on_shortage)},
                    {"shortageSeconds", spec.elastic->shortage_seconds}};
    put(elastic, "maxReplicas", spec.elastic->max_replicas);
    object["elastic"] = std::move(elastic);
  }
  if (spec.capacity) object["capacity"] = write_capacity(*spec.capacity);
  if (spec.scheduling) object["scheduling"] = write_scheduling(*spec.scheduling);
  put(object, "processesPerWorker", spec.processes_per_worker);
  if (!spec.template_json.empty()) {
    object["template"] = parse_json(spec.template_json);
  }
  if (spec.checkpoint) {
    json checkpoint = {{"uri", spec.checkpoint->uri}, {"keep", spec.checkpoint->keep}};
    put(checkpoint, "everySeconds", spec.checkpoint->every_seconds);
    object["checkpoint"] = std::move(checkpoint);
  }
  if (!spec.runtime_config_json.empty()) {
    object["runtime"]["config"] = parse_json(spec.runtime_config_json);
  }
  if (spec.is_in_place) object["runtime"]["inPlace"] = true;
  if (spec.parameter_servers > 0) object["runtime"]["parameterServers"] = spec.parameter_servers;
  put(object, "ttlSecondsAfterFinished", spec.ttl_seconds_after_finished);
  return object;
}

}  // namespace

const char* runtime_name(RuntimeKind kind) {
  const auto found =
      std::ranges::find(kRuntimeNames, kind, [](const auto& pair) { return pair.first; });
  return found == kRuntimeNames.end() ? "Custom" : found->second;
}

std::optional<RuntimeKind> runtime_kind(const std::string& name) {
  const auto found =
      std::ranges::find_if(kRuntimeNames, [&](const auto& pair) { return name == pair.second; });
  return found == kRuntimeNames.end() ? std::nullopt : std::optional{found->first};
}

Result<TrainingJob> decode_training_job(const json& object) {
  std::optional<Error> error;
  Fields fields(object, "", error);
  TrainingJob job;
  job.meta = read_meta(fields);
  fields.child("spec", [&](Fields& spec) { job.spec = read_job_spec(spec); });
  fields.child("status", [&](Fields& status) { job.status = read_job_status(status); });
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
  put(object, "attemptTime", status.attempt_time);
  put(object, "progressTime", status.progress_time);
  put(object, "microBatch", status.micro_batch);
  for (const ExcludedNode& node : status.excluded_nodes) {
    json item = {{"name", node.name}};
    put(item, "cause", node.cause);
    put(item, "time", node.time);
    put(item, "until", node.until);
    put(item, "message", node.message);
    if (!node.pods.empty()) item["pods"] = node.pods;
    object["excludedNodes"].push_back(std::move(item));
  }
  object["restarts"] = {{"counted", status.restarts.counted},
                        {"free", status.restarts.free},
                        {"spent", status.restarts.spent}};
  if (!status.restarts.by_cause.empty()) object["restarts"]["byCause"] = status.restarts.by_cause;
  if (status.restarts.without_progress != 0) {
    object["restarts"]["withoutProgress"] = status.restarts.without_progress;
  }
  if (status.restarts.progress_step != 0) {
    object["restarts"]["progressStep"] = status.restarts.progress_step;
  }
  if (status.capacity != CapacityStatus{})
    object["capacity"] = write_capacity_status(status.capacity);
  if (status.placement != PlacementStatus{})
    object["placement"] = write_placement(status.placement);
  put(object, "placedBy", status.placed_by);
  write_recoveries(object, status.recoveries);
  if (status.goodput != Goodput{}) object["goodput"] = write_goodput(status.goodput);
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
