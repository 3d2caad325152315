#include "cli/local/api_admission.h"

#include "cli/local/api_objects.h"
#include "common/api/schema.h"
#include "common/api/validate.h"
#include "common/base/json.h"

namespace pawl::local {
namespace {

using nlohmann::json;

constexpr std::int64_t kPodGraceSeconds = 30;

bool is_job(const Kind& kind) { return kind.is_custom && kind.plural == "trainingjobs"; }

const api::Schema& schema_of(const Kind& kind) {
  return is_job(kind) ? api::Schema::of_training_job() : api::Schema::of_worker_group();
}

// Adds the members of `defaults` that `target` lacks.
void add_missing(json& target, const json& defaults) {
  for (const auto& [key, value] : defaults.items()) {
    if (!target.contains(key)) target[key] = value;
  }
}

// Without the status, which a write of the rest does not touch.
std::vector<api::FieldError> validate_whole(const Kind& kind, const json& object) {
  return is_job(kind) ? api::validate_training_job(object) : api::validate_worker_group(object);
}

}  // namespace

std::string conform(const Kind& kind, bool is_strict, json& object) {
  if (!kind.is_custom) return {};
  const api::Schema& schema = schema_of(kind);
  if (is_strict) {
    std::string unknown;
    for (const api::FieldError& error : schema.unknown_fields(object)) {
      unknown += (unknown.empty() ? "" : ", ") + ("unknown field \"" + error.field + "\"");
    }
    if (!unknown.empty()) return "strict decoding error: " + unknown;
  }
  schema.prune(object);
  schema.fill_in(object);
  return {};
}

void conform_status(const Kind& kind, json& status) {
  if (!kind.is_custom || status.is_null()) return;
  json part = {{"status", std::move(status)}};
  schema_of(kind).prune(part);
  schema_of(kind).fill_in(part);
  status = std::move(part["status"]);
}

void fill_in_builtin(const Kind& kind, json& object) {
  if (kind.plural != "pods") return;
  add_missing(object["spec"], {{"restartPolicy", "Always"},
                               {"terminationGracePeriodSeconds", kPodGraceSeconds},
                               {"dnsPolicy", "ClusterFirst"},
                               {"schedulerName", "default-scheduler"},
                               {"serviceAccountName", "default"}});
  object["status"] = {{"phase", "Pending"}};
}

std::vector<api::FieldError> validate_new(const Kind& kind, const json& object) {
  if (!kind.is_custom) return {};
  return validate_whole(kind, object);
}

std::vector<api::FieldError> validate_change(const Kind& kind, bool is_status, const json& before,
                                             const json& after) {
  if (kind.is_custom) {
    std::vector<api::FieldError> errors;
    if (is_status) {
      errors = is_job(kind) ? api::validate_training_job_status(after)
                            : api::validate_worker_group_status(after);
    } else {
      errors = validate_whole(kind, after);
    }
    // With an error of the schema the rules may not be asked: what they read need not be there.
    if (!errors.empty() && (is_status || !schema_of(kind).check(after).empty())) return errors;
    const auto more = is_job(kind) ? api::validate_training_job_update(before, after)
                                   : api::validate_worker_group_update(before, after);
    errors.insert(errors.end(), more.begin(), more.end());
    return errors;
  }
  if (kind.plural != "pods" || is_status || before.at("spec") == after.at("spec")) return {};
  return {{"spec",
           "Forbidden: pod updates may not change fields other than "
           "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,"
           "`spec.tolerations` (only additions to existing tolerations),"
           "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously "
           "negative)"}};
}

}  // namespace pawl::local
