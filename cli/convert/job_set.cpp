// JobSet (jobset.x-k8s.io/v1alpha2): its replicated jobs become one gang of equal workers.
#include <algorithm>
#include <array>

#include "cli/convert/draft.h"
#include "cli/convert/torchrun.h"

namespace pawl::cli::convert {
namespace {

constexpr char kExclusiveTopology[] = "alpha.jobset.sigs.k8s.io/exclusive-topology";
constexpr char kAnnotations[] = "alpha.jobset.sigs.k8s.io/";

struct Part {
  std::string name, path;
  std::int64_t workers = 0;
  std::optional<std::int64_t> retries;  // backoffLimit
  std::string restart_policy;
  json pod_template;
  std::string rules_field;  // of podFailurePolicy
  json rules = json::array();
};

std::string text_of(const json& value) { return value.is_string() ? value.get<std::string>() : ""; }

std::string restart_policy_of(const json& pod_template) {
  const json::json_pointer path{"/spec/restartPolicy"};
  return pod_template.is_object() && pod_template.contains(path) ? text_of(pod_template[path]) : "";
}

// The counts of a batch Job: as many pods at once as have to succeed.
std::int64_t pods_of(Draft& draft, Source& job) {
  const auto parallelism = job.take_number("parallelism");
  const auto completions = job.take_number("completions");
  if (parallelism && completions && *parallelism != *completions) {
    draft.leave_out(job.path_of("completions"),
                    "differs from parallelism, and a gang runs all its workers at once",
                    "parallelism is taken as the number of workers");
  }
  return parallelism.value_or(completions.value_or(1));
}

// Rules of the child Jobs are carried when it is known what JobSet does with a Job that they fail.
void take_pod_failure_policy(Source& job, Part& part) {
  Source policy = job.take_object("podFailurePolicy");
  part.rules_field = policy.path_of("rules");
  part.rules = policy.take_list("rules");
  policy.finish();
}

void take_job_spec(Draft& draft, Source& job, Part& part) {
  part.workers *= pods_of(draft, job);
  part.retries = job.take_number("backoffLimit");
  part.pod_template = job.take("template");
  part.restart_policy = restart_policy_of(part.pod_template);
  take_pod_failure_policy(job, part);
  job.take("completionMode");
  job.take("manualSelector");
  carry_active_deadline(draft, job);
  job.drop("ttlSecondsAfterFinished", "it is about the child Job",
           "set spec.ttlSecondsAfterFinished if the whole job is to go");
  job.drop("podReplacementPolicy",
           "a new attempt starts only when the pods of the one before have ended", "nothing to do");
  job.finish();
}

Part take_part(Draft& draft, const json& item, const std::string& path) {
  Source source{draft, item.is_object() ? item : json::object(), path};
  Part part;
  part.path = path;
  part.name = source.take_text("name").value_or("");
  part.workers = source.take_number("replicas").value_or(1);
  source.drop("groupName", "all workers are one group", "nothing to do");
  source.leave_out("dependsOn", "all workers of a TrainingJob start together",
                   "wait in the program, or in an init container");
  Source job_template = source.take_object("template");
  Source metadata = job_template.take_object("metadata");
  metadata.take("creationTimestamp");
  metadata.drop("labels", "they are the child Job's",
                "add them to spec.template.metadata if the pods need them");
  metadata.drop("annotations", "they are the child Job's",
                "add them to spec.template.metadata if the pods need them");
  metadata.finish();
  Source job = job_template.take_object("spec");
  take_job_spec(draft, job, part);
  job_template.finish();
  source.finish();
  return part;
}

// One gang of all parts with equal templates; where they differ, of the largest part.
Part merge(Draft& draft, const std::vector<Part>& parts) {
  Part chosen = *std::ranges::max_element(parts, {}, &Part::workers);
  const auto same = [&](const Part& part) { return part.pod_template == chosen.pod_template; };
  if (std::ranges::all_of(parts, same)) {
    chosen.workers = 0;
    for (const Part& part : parts) chosen.workers += part.workers;
    return chosen;
  }
  for (const Part& part : parts) {
    if (part.path == chosen.path) continue;
    std::string fields;
    for (const std::string& field :
         differences(chosen.pod_template, part.pod_template, "template")) {
      fields += (fields.empty() ? "" : ", ") + field;
    }
    draft.leave_out(part.path,
                    "its pods differ from " + chosen.name + "'s (" + fields +
                        "), and all workers of a TrainingJob are equal",
                    "make it a Job or a Deployment of its own, or a sidecar of the workers");
  }
  return chosen;
}

bool is_about(const json& rule, const char* reason) {
  const json reasons = rule.value("onJobFailureReasons", json());
  return reasons.is_array() && reasons.size() == 1 && reasons[0] == reason && rule.size() <= 3;
}

// What happens when a rule of a child Job fails it; rules about anything else are left out.
std::string take_rules(Draft& draft, const json& rules, const std::string& path) {
  std::string action = "Restart";
  for (std::size_t i = 0; i < rules.size(); ++i) {
    const std::string field = path + "[" + std::to_string(i) + "]";
    const std::string word = rules[i].is_object() ? text_of(rules[i].value("action", json())) : "";
    if (!word.empty() && is_about(rules[i], "PodFailurePolicy")) {
      action = word == "FailJobSet"                          ? "Fail"
               : word == "RestartJobSetAndIgnoreMaxRestarts" ? "RestartFree"
                                                             : "Restart";
      draft.change(field, "it is about the rules of child Jobs",
                   "they become rules with the action " + action);
      continue;
    }
    draft.leave_out(field,
                    "it is about the reasons of child Jobs, which a TrainingJob does not have",
                    "disruptions are free already; let the program exit with 93 where a restart "
                    "cannot help");
  }
  return action;
}

// The exit codes of a rule that a TrainingJob can hold; null if there are none.
json exit_codes_of(const json& rule) {
  const json codes = rule.value("onExitCodes", json());
  if (!codes.is_object() || codes.contains("containerName") || rule.contains("onPodConditions")) {
    return nullptr;
  }
  json values = json::array();
  const json given = codes.value("values", json::array());
  for (const json& value : given) {
    const bool is_code = value.is_number_integer() && value >= 1 && value <= 255;
    if (is_code) values.push_back(value);
  }
  const std::string word = text_of(codes.value("operator", json()));
  if (values.empty() || (word != "In" && word != "NotIn")) return nullptr;
  return {{"operator", word}, {"values", values}};
}

bool is_free_disruption(const json& rule) {
  const json conditions = rule.value("onPodConditions", json());
  return rule.value("action", json()) == "Ignore" && conditions.is_array() &&
         conditions.size() == 1 && conditions[0].is_object() &&
         conditions[0].value("type", json()) == "DisruptionTarget";
}

// podFailurePolicy of the child Jobs: `on_failed_job` is what follows where one says FailJob.
void carry_pod_rules(Draft& draft, const Part& part, const std::string& on_failed_job) {
  json carried = json::array();
  for (std::size_t i = 0; i < part.rules.size(); ++i) {
    const json& rule = part.rules[i];
    const std::string field = part.rules_field + "[" + std::to_string(i) + "]";
    if (rule.is_object() && is_free_disruption(rule)) {
      draft.change(field, "disruptions never count against maxRestarts", "nothing to do");
      continue;
    }
    const json codes = rule.is_object() ? exit_codes_of(rule) : json();
    const std::string word = rule.is_object() ? text_of(rule.value("action", json())) : "";
    const std::string action = word == "FailJob"  ? on_failed_job
                               : word == "Ignore" ? "RestartFree"
                               : word == "Count"  ? "Restart"
                                                  : "";
    const bool is_carried =
        !codes.is_null() && !action.empty() && draft.knows("/failurePolicy/rules");
    if (is_carried) {
      carried.push_back({{"name", "pod-failure-policy-" + std::to_string(i)},
                         {"action", action},
                         {"onExitCodes", codes}});
    } else {
      draft.leave_out(field, "a TrainingJob of this version has no such rule",
                      "let the program exit with 93 where a restart cannot help");
    }
  }
  if (!carried.empty()) draft.spec["failurePolicy"]["rules"] = carried;
}

void carry_failure_policy(Draft& draft, Source& spec, const Part& part) {
  const bool has_policy = spec.has("failurePolicy");
  Source policy = spec.take_object("failurePolicy");
  const auto restarts = policy.take_number("maxRestarts");
  const std::string retries_field = part.path + ".template.spec.backoffLimit";
  if (has_policy) {
    set_max_restarts(draft, restarts.value_or(0), policy.path_of("maxRestarts"));
    if (part.retries.value_or(0) > 0) {
      draft.change(retries_field, "pods are not retried one by one: each failure restarts the gang",
                   "raise failurePolicy.maxRestarts if the job is to survive more failures");
    }
  } else if (part.retries) {
    set_max_restarts(draft, *part.retries, retries_field);
  }
  if (part.restart_policy == "OnFailure") {
    draft.change(part.path + ".template.spec.template.spec.restartPolicy",
                 "containers are not restarted in place",
                 "each failure restarts the gang from its last checkpoint and counts");
  }
  const auto strategy = policy.take_text("restartStrategy");
  if (strategy == "InPlaceRestart") {
    draft.leave_out(policy.path_of("restartStrategy"),
                    "only Native jobs go on in place; this gang is created again", "nothing to do");
  }
  const json rules = policy.take_list("rules");
  const std::string action = take_rules(draft, rules, policy.path_of("rules"));
  carry_pod_rules(draft, part, action);
  policy.finish();
}

void carry_network(Draft& draft, Source& spec) {
  Source network = spec.take_object("network");
  const std::string why = "the workers have no host names";
  const std::string instead =
      "use MASTER_ADDR, which the launcher sets, or set spec.hostnames and use NAME-SLOT.NAME";
  network.leave_out("subdomain", why, instead);
  if (network.take_flag("enableDNSHostnames").value_or(false)) {
    draft.leave_out(network.path_of("enableDNSHostnames"), why, instead);
  }
  network.drop("publishNotReadyAddresses", why, instead);
  network.finish();
}

void carry_success_policy(Draft& draft, Source& spec) {
  Source policy = spec.take_object("successPolicy");
  const auto word = policy.take_text("operator");
  if (word == "Any") {
    draft.leave_out(policy.path_of("operator"),
                    "a TrainingJob is Complete when all its workers have succeeded",
                    "let every worker end with 0 when the work is done");
  }
  policy.take("targetReplicatedJobs");
  policy.finish();
}

void carry_annotations(Draft& draft) {
  if (!draft.metadata.contains("annotations")) return;
  json& annotations = draft.metadata["annotations"];
  for (auto item = annotations.begin(); item != annotations.end();) {
    if (!item.key().starts_with(kAnnotations)) {
      ++item;
      continue;
    }
    const bool is_topology = item.key() == kExclusiveTopology;
    draft.leave_out(
        "metadata.annotations." + item.key(),
        is_topology ? "this version places no gang in a domain of its own" : "only JobSet reads it",
        is_topology ? "give spec.template a podAffinity on " + text_of(*item) +
                          " towards this job, and a podAntiAffinity towards others"
                    : "see whether the job needs it");
    item = annotations.erase(item);
  }
  if (annotations.empty()) draft.metadata.erase("annotations");
}

// JobSet starts any program: MASTER_ADDR and the like are set where it looks for them.
bool is_torch(const json& pod_template) {
  const std::string text = pod_template.dump(-1, ' ', false, json::error_handler_t::replace);
  return mentions_torchrun(text) ||
         std::ranges::any_of(
             std::array{"MASTER_ADDR", "WORLD_SIZE", "torch"},
             [&](const char* word) { return text.find(word) != std::string::npos; });
}

}  // namespace

void convert_job_set(Draft& draft, Source& manifest) {
  carry_annotations(draft);
  Source spec = manifest.take_object("spec");
  const json items = spec.take_list("replicatedJobs");
  if (items.empty()) return draft.fail(spec.path_of("replicatedJobs"), "must have a job");
  std::vector<Part> parts;
  for (std::size_t i = 0; i < items.size(); ++i) {
    parts.push_back(
        take_part(draft, items[i], spec.path_of("replicatedJobs[" + std::to_string(i) + "]")));
  }
  const Part part = merge(draft, parts);
  set_replicas(draft, part.workers, part.path);
  PodRules rules{.is_torch = is_torch(part.pod_template), .torchrun_default = 1};
  const std::string name = draft.metadata.value("name", "");
  for (const Part& each : parts) {
    if (!name.empty() && !each.name.empty())
      rules.host_prefixes.push_back(name + "-" + each.name + "-");
  }
  carry_template(draft, part.pod_template, part.path + ".template.spec.template", rules);
  carry_failure_policy(draft, spec, part);
  carry_network(draft, spec);
  carry_success_policy(draft, spec);
  spec.drop("coordinator", "the launcher tells every worker where the first one is: MASTER_ADDR",
            "nothing to do");
  spec.drop("startupPolicy", "all workers start together", "nothing to do");
  spec.leave_out("volumeClaimPolicies", "a TrainingJob makes no claims",
                 "create the claim and mount it in spec.template");
  carry_suspend(draft, spec);
  carry_managed_by(draft, spec, "jobset.sigs.k8s.io/jobset-controller");
  carry_ttl(draft, spec, "ttlSecondsAfterFinished");
  spec.finish();
}

}  // namespace pawl::cli::convert
