#include "common/api/validate.h"

#include <algorithm>

#include "common/api/contract.h"
#include "common/api/schema.h"
#include "common/api/validate_parts.h"
#include "common/base/json.h"

namespace pawl::api {

using nlohmann::json;
using namespace validation;

namespace {

bool is_name_character(char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); }

bool is_job_name(const std::string& name) {
  if (name.empty() || name.size() > kJobNameMax) return false;
  const bool has_right_ends =
      name.front() >= 'a' && name.front() <= 'z' && is_name_character(name.back());
  return has_right_ends &&
         std::ranges::all_of(name, [](char c) { return is_name_character(c) || c == '-'; });
}

// Checks what the generated name will be where only a prefix is given.
void check_name(const json& job, Errors& errors) {
  constexpr char kGeneratedSuffix[] = "x0000";
  std::string name = text_at_path(job, {"metadata", "name"});
  if (name.empty()) {
    const std::string prefix = text_at_path(job, {"metadata", "generateName"});
    if (!prefix.empty()) name = prefix + kGeneratedSuffix;
  }
  if (is_job_name(name)) return;
  errors.push_back({"metadata.name",
                    "metadata.name must be at most 46 characters of a-z, 0-9 and '-', begin with a "
                    "letter and end with "
                    "a letter or digit, because pod names derive from it: rename the job"});
}

void check_kind(const json& object, const char* kind, Errors& errors) {
  if (text_at_path(object, {"apiVersion"}) != kApiVersion) {
    errors.push_back({"apiVersion", std::string("must be ") + kApiVersion});
  }
  if (text_at_path(object, {"kind"}) != kind)
    errors.push_back({"kind", std::string("must be ") + kind});
}

void check_number_or_auto(const json& value, std::int64_t max, const FieldError& error,
                          Errors& errors) {
  if (value.is_null()) return;
  const bool is_auto = value.is_string() && value.get<std::string>() == "auto";
  const bool is_in_range = value.is_number() && value.get<double>() >= 1 &&
                           value.get<double>() <= static_cast<double>(max);
  if (!is_auto && !is_in_range) errors.push_back(error);
}

const json* worker_container(const json& containers) {
  const auto named = std::ranges::find_if(containers, [](const json& container) {
    return text_at_path(container, {"name"}) == "worker";
  });
  if (named != containers.end()) return &*named;
  return containers.empty() ? nullptr : &containers[0];
}

void check_template(const json& job, Errors& errors) {
  const json& containers = at(job, {"spec", "template", "spec", "containers"});
  if (is_native(job)) return;
  if (at(job, {"spec", "template"}).is_null()) {
    errors.push_back(
        {"spec.template",
         "spec.template is required: describe the worker's pod, or set spec.runtime.kind to "
         "Native"});
    return;
  }
  const json* worker = worker_container(containers);
  const json command = worker == nullptr ? json() : at(*worker, {"command"});
  if (!command.is_array() || command.empty()) {
    errors.push_back(
        {"spec.template.spec.containers",
         "the worker container (the one named worker, else the first) needs a command, because "
         "the launcher starts it and cannot see the image's entry point: set command"});
  }
  const bool has_images = std::ranges::all_of(containers, [](const json& container) {
    return !text_at_path(container, {"image"}).empty();
  });
  if (!has_images) {
    errors.push_back(
        {"spec.template.spec.containers",
         "every container needs an image: set image, or set spec.runtime.kind to Native"});
  }
}

// Names that the operator adds to the pod by itself.
void check_reserved_names(const json& list, const std::string& path, Errors& errors) {
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (!text_at_path(list[i], {"name"}).starts_with("pawl-")) continue;
    errors.push_back({path + "[" + std::to_string(i) + "].name",
                      "names that begin with pawl- are reserved: rename it"});
  }
}

void check_reserved_env(const json& container, const std::string& path, Errors& errors) {
  const json& env = at(container, {"env"});
  for (std::size_t i = 0; i < env.size(); ++i) {
    const std::string name = text_at_path(env[i], {"name"});
    if (!name.starts_with("PAWL_") || name == kEnvHealthGate || name == kEnvStandbySeconds)
      continue;
    errors.push_back(
        {path + ".env[" + std::to_string(i) + "].name",
         "environment variables that begin with PAWL_ are set by the operator: rename it"});
  }
}

void check_reserved(const json& job, Errors& errors) {
  const json& pod = at(job, {"spec", "template", "spec"});
  for (const char* kind : {"containers", "initContainers"}) {
    const json& containers = at(pod, {kind});
    const std::string path = std::string("spec.template.spec.") + kind;
    check_reserved_names(containers, path, errors);
    for (std::size_t i = 0; i < containers.size(); ++i) {
      check_reserved_env(containers[i], path + "[" + std::to_string(i) + "]", errors);
    }
  }
  check_reserved_names(at(pod, {"volumes"}), "spec.template.spec.volumes", errors);
  const json& policy = at(pod, {"restartPolicy"});
  if (policy.is_string() && policy.get<std::string>() != "Never") {
    errors.push_back(
        {"spec.template.spec.restartPolicy",
         "must be Never: the launcher restarts processes and the operator replaces pods; remove "
         "restartPolicy"});
  }
}

void check_rules(const json& job, Errors& errors) {
  const json rules = at(job, {"spec", "failurePolicy", "rules"});
  for (std::size_t i = 0; i < rules.size(); ++i) {
    const std::string path = "spec.failurePolicy.rules[" + std::to_string(i) + "]";
    const json causes = at(rules[i], {"onCauses"});
    if (at(rules[i], {"onExitCodes"}).is_null() && causes.is_null())
      errors.push_back(
          {path, "a rule needs onExitCodes or onCauses: say which failures it is for"});
    const bool is_for_slow = std::ranges::find(causes, kCauseStraggler) != causes.end();
    if (is_for_slow && at(rules[i], {"action"}) != "ReplaceNode")
      errors.push_back(
          {path,
           "cause Straggler goes with action ReplaceNode only: a slow worker has not failed"});
  }
}

void check_elastic(const json& job, Errors& errors) {
  const json& elastic = at(job, {"spec", "elastic"});
  if (elastic.is_null()) return;
  const auto number = [&](const json& from, const char* field, std::int64_t fallback) {
    return at(from, {field}).is_null() ? fallback : integer_at(from, {field});
  };
  const std::int64_t replicas = number(at(job, {"spec"}), "replicas", 1);
  refuse_if(number(elastic, "minReplicas", 1) > replicas, "spec.elastic.minReplicas",
            "spec.elastic.minReplicas must be at most spec.replicas: lower it, or raise "
            "spec.replicas",
            errors);
  refuse_if(number(elastic, "maxReplicas", replicas) < replicas, "spec.elastic.maxReplicas",
            "spec.elastic.maxReplicas must be at least spec.replicas: raise it, or lower "
            "spec.replicas",
            errors);
  refuse_if(!is_native(job) && !is_in_place(job), "spec.elastic",
            "spec.elastic needs spec.runtime.kind Native, or runtime.inPlace: set one, or remove "
            "spec.elastic",
            errors);
  refuse_if(text_at_path(job, {"spec", "failurePolicy", "strategy"}, "InPlace") != "InPlace",
            "spec.elastic",
            "spec.elastic needs spec.failurePolicy.strategy InPlace: set that, or remove "
            "spec.elastic",
            errors);
}

void check_spares(const json& job, Errors& errors) {
  constexpr std::int64_t kPodsMax = 2048;  // of a record
  const std::int64_t spares = integer_at(job, {"spec", "scheduling", "spares"});
  if (spares <= 0) return;
  refuse_if(text_at_path(job, {"spec", "failurePolicy", "strategy"}, "InPlace") != "InPlace",
            "spec.scheduling.spares",
            "spec.scheduling.spares needs spec.failurePolicy.strategy InPlace: set that, or remove "
            "spares",
            errors);
  const std::int64_t replicas = or_default(at(job, {"spec", "replicas"}), 1).get<std::int64_t>();
  refuse_if(replicas + spares > kPodsMax, "spec.scheduling.spares",
            "spec.replicas and spec.scheduling.spares together must be at most 2048: lower one of "
            "them",
            errors);
}

void check_slices(const json& job, Errors& errors) {
  if (at(job, {"spec", "scheduling", "slices"}).is_null()) return;
  const std::int64_t size = integer_at(job, {"spec", "scheduling", "slices", "size"});
  const std::int64_t replicas = or_default(at(job, {"spec", "replicas"}), 1).get<std::int64_t>();
  refuse_if(size > 0 && replicas % size != 0, "spec.scheduling.slices.size",
            "spec.replicas must be a multiple of spec.scheduling.slices.size: change one of them",
            errors);
  refuse_if(!at(job, {"spec", "elastic"}).is_null(), "spec.scheduling.slices",
            "spec.scheduling.slices cannot be kept by a gang of another size: remove it, or "
            "spec.elastic",
            errors);
  refuse_if(integer_at(job, {"spec", "scheduling", "spares"}) > 0, "spec.scheduling.slices",
            "spec.scheduling.slices cannot be kept where a spare may take any worker's place: "
            "remove it, or spares",
            errors);
}

void check_capacity(const json& job, Errors& errors) {
  const std::int64_t least = integer_at(job, {"spec", "capacity", "onDemandMin"});
  const std::int64_t replicas = or_default(at(job, {"spec", "replicas"}), 1).get<std::int64_t>();
  refuse_if(least > replicas, "spec.capacity.onDemandMin",
            "spec.capacity.onDemandMin must be at most spec.replicas: lower it, or raise "
            "spec.replicas",
            errors);
  refuse_if(text_at_path(job, {"spec", "capacity", "spot"}) == "Never" && least > 0,
            "spec.capacity.onDemandMin",
            "with spec.capacity.spot Never no worker is on spot: remove spec.capacity.onDemandMin, "
            "or set spot to Allow or Prefer",
            errors);
}

void check_parameter_servers(const json& job, Errors& errors) {
  const std::int64_t count = integer_at(job, {"spec", "runtime", "parameterServers"});
  const json& replicas = at(job, {"spec", "replicas"});
  const bool is_tensorflow =
      text_at_path(job, {"spec", "runtime", "kind"}, "Custom") == "TensorFlow";
  refuse_if(count > 0 && (!is_tensorflow || count >= or_default(replicas, 1).get<std::int64_t>()),
            "spec.runtime.parameterServers",
            "spec.runtime.parameterServers needs spec.runtime.kind TensorFlow, and must be below "
            "spec.replicas, because the first worker is the chief: lower it, or remove it",
            errors);
}

void check_status_attempt(const json& group, Errors& errors) {
  refuse_if(integer_at(group, {"status", "attempt"}) > integer_at(group, {"spec", "attempt"}),
            "status.attempt",
            "status.attempt cannot be above spec.attempt, which only the operator raises: read the "
            "object "
            "again",
            errors);
}

}  // namespace

Errors validate_training_job(const json& object) {
  Errors errors = Schema::of_training_job().check(object);
  if (!errors.empty()) return errors;  // the rules below may rely on types
  check_kind(object, "TrainingJob", errors);
  check_name(object, errors);
  check_template(object, errors);
  check_reserved(object, errors);
  check_rules(object, errors);
  check_elastic(object, errors);
  check_spares(object, errors);
  check_slices(object, errors);
  check_capacity(object, errors);
  check_parameter_servers(object, errors);
  check_number_or_auto(at(object, {"spec", "processesPerWorker"}), kProcessesMax,
                       {"spec.processesPerWorker", "must be a number from 1 to 64, or auto"},
                       errors);
  check_number_or_auto(
      at(object, {"spec", "checkpoint", "everySeconds"}), 86'400,
      {"spec.checkpoint.everySeconds", "must be a number of seconds from 1 to 86400, or auto"},
      errors);
  refuse_if(
      !at(object, {"spec", "runtime", "config"}).is_null() && !is_native(object), "spec.runtime",
      "spec.runtime.config is read by the Native trainer only: remove it, or set spec.runtime.kind "
      "to Native",
      errors);
  const std::string kind = text_at_path(object, {"spec", "runtime", "kind"}, "Custom");
  refuse_if(is_in_place(object) && (kind == "Native" || kind == "MPI" || kind == "Ray"),
            "spec.runtime.inPlace",
            "spec.runtime.inPlace is for Torch, JAX, TensorFlow and Custom: remove it, Native "
            "always is",
            errors);
  refuse_if(is_in_place(object) && integer_at(object, {"spec", "runtime", "parameterServers"}) > 0,
            "spec.runtime.inPlace",
            "spec.runtime.inPlace does not go with parameterServers: remove one of them", errors);
  return errors;
}

Errors validate_worker_group(const json& object) {
  Errors errors = Schema::of_worker_group().check(object);
  if (!errors.empty()) return errors;
  check_kind(object, "WorkerGroup", errors);
  check_status_attempt(object, errors);
  return errors;
}

Errors validate_training_queue(const json& object) {
  Errors errors = Schema::of_training_queue().check(object);
  if (!errors.empty()) return errors;
  check_kind(object, "TrainingQueue", errors);
  refuse_if(text_at_path(object, {"metadata", "name"}).size() > kQueueNameMax, "metadata.name",
            "metadata.name must be at most 63 characters: rename the queue", errors);
  const json& quotas = at(object, {"spec", "quotas"});
  for (std::size_t i = 0; i < quotas.size(); ++i) {
    for (const char* field : {"nominal", "borrowingLimit", "lendingLimit"}) {
      const json& value = at(quotas[i], {field});
      const std::string path = "spec.quotas[" + std::to_string(i) + "]." + field;
      // The rule sees no fraction, not even a whole one.
      const bool is_wrong = value.is_number_float() || (value.is_number() && value < 0);
      refuse_if(is_wrong, path.c_str(), "must be 0 or more", errors);
    }
  }
  return errors;
}

Errors validate_training_job_status(const json& object) {
  return Schema::of_training_job().check_status(object);
}

Errors validate_worker_group_status(const json& object) {
  Errors errors = Schema::of_worker_group().check_status(object);
  if (errors.empty()) check_status_attempt(object, errors);
  return errors;
}

std::string join_errors(const Errors& errors) {
  std::string text;
  for (const FieldError& error : errors) {
    if (!text.empty()) text += "; ";
    text += error.field.empty() ? error.message : error.field + ": " + error.message;
  }
  return text;
}

}  // namespace pawl::api
