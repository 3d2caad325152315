// The rules for changes of objects.
#include <algorithm>

#include "common/api/validate.h"
#include "common/api/validate_parts.h"

namespace pawl::api {

using namespace validation;

namespace {

bool has_condition(const json& job, const std::string& type) {
  const json& conditions = at(job, {"status", "conditions"});
  return std::ranges::any_of(conditions, [&](const json& condition) {
    return text_at_path(condition, {"type"}) == type &&
           text_at_path(condition, {"status"}) == "True";
  });
}

// Absent and there are two values: an immutable field cannot be added or removed either.
void check_immutable(const json& before, const json& after, Errors& errors) {
  const auto kind = [](const json& job) {
    return text_at_path(job, {"spec", "runtime", "kind"}, "Custom");
  };
  refuse_if(kind(before) != kind(after), "spec.runtime.kind",
            "spec.runtime.kind cannot change: create a new job", errors);
  refuse_if(is_in_place(before) != is_in_place(after), "spec.runtime.inPlace",
            "spec.runtime.inPlace cannot change: create a new job", errors);
  const auto success_policy = [](const json& job) {
    return text_at_path(job, {"spec", "successPolicy"}, "AllRanks");
  };
  refuse_if(success_policy(before) != success_policy(after), "spec.successPolicy",
            "spec.successPolicy cannot change: create a new job", errors);
  const auto hostnames = [](const json& job) {
    return or_default(at(job, {"spec", "hostnames"}), false);
  };
  refuse_if(hostnames(before) != hostnames(after), "spec.hostnames",
            "spec.hostnames cannot change: create a new job", errors);
  refuse_if(at(before, {"spec", "managedBy"}) != at(after, {"spec", "managedBy"}), "spec.managedBy",
            "spec.managedBy cannot change, be added or be removed: create a new job", errors);
  refuse_if(at(before, {"spec", "checkpoint", "uri"}) != at(after, {"spec", "checkpoint", "uri"}),
            "spec.checkpoint",
            "spec.checkpoint.uri cannot change, be added or be removed, because the job resumes "
            "from there: "
            "create a new job",
            errors);
}

void check_frozen(const json& before, const json& after, Errors& errors) {
  const json& was_suspended = at(before, {"spec", "suspend"});
  if (was_suspended.is_boolean() && was_suspended.get<bool>()) return;
  refuse_if(
      at(before, {"spec", "template"}) != at(after, {"spec", "template"}), "spec.template",
      "spec.template cannot change while the job is not suspended: set spec.suspend to true first, "
      "change it afterwards",
      errors);
  refuse_if(or_default(at(before, {"spec", "processesPerWorker"}), "auto") !=
                or_default(at(after, {"spec", "processesPerWorker"}), "auto"),
            "spec.processesPerWorker",
            "spec.processesPerWorker cannot change while the job is not suspended: set "
            "spec.suspend to true "
            "first, change it afterwards",
            errors);
  refuse_if(integer_at(before, {"spec", "runtime", "parameterServers"}) !=
                integer_at(after, {"spec", "runtime", "parameterServers"}),
            "spec.runtime.parameterServers",
            "spec.runtime.parameterServers cannot change while the job is not suspended: set "
            "spec.suspend to true first, change it afterwards",
            errors);
  const auto queue = [](const json& job) {
    return text_at_path(job, {"spec", "scheduling", "queueName"});
  };
  refuse_if(queue(before) != queue(after), "spec.scheduling",
            "spec.scheduling.queueName cannot change while the job is not suspended: set "
            "spec.suspend to true first, change it afterwards",
            errors);
}

}  // namespace

Errors validate_training_job_update(const json& before, const json& after) {
  Errors errors;
  check_frozen(before, after, errors);
  check_immutable(before, after, errors);
  const bool is_finished = has_condition(before, "Complete") || has_condition(before, "Failed");
  refuse_if(is_finished && or_default(at(before, {"spec", "replicas"}), 1) !=
                               or_default(at(after, {"spec", "replicas"}), 1),
            "spec.replicas",
            "the job is finished, so spec.replicas cannot change: create a new job", errors);
  for (const char* type : {"Complete", "Failed"}) {
    if (!has_condition(before, type) || has_condition(after, type)) continue;
    errors.push_back(
        {"status.conditions", std::string("the condition ") + type + " is final: leave it True"});
  }
  refuse_if(integer_at(after, {"status", "attempt"}) < integer_at(before, {"status", "attempt"}),
            "status.attempt",
            "status.attempt never goes back: write the present value or a higher one", errors);
  return errors;
}

Errors validate_worker_group_update(const json& before, const json& after) {
  Errors errors;
  refuse_if(integer_at(after, {"spec", "attempt"}) < integer_at(before, {"spec", "attempt"}),
            "spec.attempt", "spec.attempt never goes back: write the present value or a higher one",
            errors);
  refuse_if(integer_at(after, {"status", "attempt"}) < integer_at(before, {"status", "attempt"}),
            "status.attempt", "status.attempt never goes back: read the object again", errors);
  refuse_if(integer_at(after, {"status", "term"}) < integer_at(before, {"status", "term"}),
            "status.term", "status.term never goes back: read the object again", errors);
  const std::int64_t old_generation = integer_at(before, {"status", "generation"});
  const std::int64_t generation = integer_at(after, {"status", "generation"});
  refuse_if(
      generation < old_generation || generation > old_generation + 1, "status.generation",
      "status.generation stays or grows by exactly 1, across attempts too: read the object again",
      errors);
  return errors;
}

}  // namespace pawl::api
