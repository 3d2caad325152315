// PyTorchJob (kubeflow.org/v1): Master and Worker become one gang of equal workers.
#include "cli/convert/draft.h"

namespace pawl::cli::convert {
namespace {

constexpr char kContainer[] = "pytorch";

struct Role {
  std::string path;
  std::int64_t replicas = 0;
  std::string restart_policy;
  json pod_template;
};

// How often the job may fail, and where the manifest says so.
struct Limit {
  std::string field;
  std::optional<std::int64_t> count;
};

Role take_role(Source& specs, const char* name) {
  Role role;
  if (!specs.has(name)) return role;
  Source source = specs.take_object(name);
  role.path = source.path();
  role.replicas = source.take_number("replicas").value_or(1);
  role.restart_policy = source.take_text("restartPolicy").value_or("");
  role.pod_template = source.take("template");
  source.finish();
  return role;
}

// Without what says nothing about the work: two templates that differ in it are equal.
json comparable(json pod_template) {
  if (pod_template.is_object() && pod_template.contains("metadata") &&
      pod_template["metadata"].is_object()) {
    pod_template["metadata"].erase("creationTimestamp");
    if (pod_template["metadata"].empty()) pod_template.erase("metadata");
  }
  if (pod_template.is_object() && pod_template.contains("spec") &&
      pod_template["spec"].is_object()) {
    pod_template["spec"].erase("restartPolicy");
  }
  return pod_template;
}

void say_differences(Draft& draft, const Role& master, const Role& worker) {
  const json a = comparable(worker.pod_template), b = comparable(master.pod_template);
  for (const std::string& field : differences(a, b, master.path + ".template")) {
    draft.leave_out(field, "differs from the Worker's, and all workers of a TrainingJob are equal",
                    "the Worker's is taken for all; change it if rank 0 needs the Master's");
  }
}

// Exit codes below 128 ended the job, those of signals restarted the pod.
void carry_exit_codes(Draft& draft, const std::string& field) {
  json codes = json::array();
  for (int code = 1; code < 128; ++code) codes.push_back(code);
  const json rule = {
      {"name", "permanent-exit-codes"}, {"action", "Fail"}, {"onExitCodes", {{"values", codes}}}};
  draft.carry("/failurePolicy/rules", json::array({rule}), field,
              "let the program exit with 93 where a restart cannot help: every other failure "
              "restarts the gang");
}

void carry_restart_policy(Draft& draft, const Role& role, const Limit& limit) {
  const std::string field = role.path + ".restartPolicy";
  if (role.restart_policy == "Never") return set_max_restarts(draft, 0, field);
  if (limit.count) set_max_restarts(draft, *limit.count, limit.field);
  if (role.restart_policy == "ExitCode") carry_exit_codes(draft, field);
  if (!limit.count && !role.restart_policy.empty()) {
    draft.change(field, "it restarted without a limit",
                 "failurePolicy.maxRestarts is 6, the default; raise it if need be");
  }
  if (role.restart_policy == "Always") {
    draft.change(field, "workers that end well are not started again",
                 "the job is Complete when all have");
  }
}

void carry_scheduling(Draft& draft, Source& policy, std::int64_t replicas) {
  Source scheduling = policy.take_object("schedulingPolicy");
  const auto least = scheduling.take_number("minAvailable");
  if (least && *least != replicas) {
    draft.leave_out(scheduling.path_of("minAvailable"),
                    "a TrainingJob starts when all its workers run",
                    "lower replicas if fewer are enough");
  }
  scheduling.leave_out("queue", "it is a queue of Volcano",
                       "label the job for Kueue: kueue.x-k8s.io/queue-name");
  scheduling.drop("minResources", "what a gang needs follows from its template", "nothing to do");
  const auto priority = scheduling.take_text("priorityClass");
  json& pod = draft.spec["template"]["spec"];
  if (priority && pod.is_object() && !pod.contains("priorityClassName"))
    pod["priorityClassName"] = *priority;
  if (const auto seconds = scheduling.take_number("scheduleTimeoutSeconds")) {
    draft.carry("/deadlines/startSeconds", *seconds, scheduling.path_of("scheduleTimeoutSeconds"),
                "watch for jobs that stay in Starting");
  }
  scheduling.finish();
}

void carry_run_policy(Draft& draft, Source& spec, std::int64_t replicas, Limit& limit) {
  Source policy = spec.take_object("runPolicy");
  if (const auto clean = policy.take_text("cleanPodPolicy")) {
    draft.carry(
        "/cleanPodPolicy", *clean, policy.path_of("cleanPodPolicy"),
        "nothing: pods that still run at the end are deleted, the others stay for their logs");
  }
  carry_ttl(draft, policy, "ttlSecondsAfterFinished");
  carry_active_deadline(draft, policy);
  carry_suspend(draft, policy);
  carry_managed_by(draft, policy, "kubeflow.org/training-operator");
  const Limit own{policy.path_of("backoffLimit"), policy.take_number("backoffLimit")};
  if (own.count) limit = own;
  carry_scheduling(draft, policy, replicas);
  policy.finish();
}

void carry_elastic(Source& spec, PodRules& rules, Limit& limit) {
  Source elastic = spec.take_object("elasticPolicy");
  const std::string fixed =
      "set spec.replicas to the size that you want; `kubectl scale tj` changes it later";
  for (const char* name : {"minReplicas", "maxReplicas"}) {
    elastic.leave_out(
        name,
        "a PyTorchJob's program is started again at another size, and spec.elastic "
        "is for those that stay",
        fixed + "; for a script that keeps its state, runtime.inPlace and spec.elastic");
  }
  elastic.leave_out("metrics", "no autoscaler is made", fixed);
  for (const char* name :
       {"rdzvBackend", "rdzvPort", "rdzvHost", "rdzvId", "rdzvConf", "standalone"}) {
    elastic.drop(name, "the launchers find each other without torchrun's rendezvous",
                 "nothing to do");
  }
  if (elastic.has("nProcPerNode")) {
    rules.processes_field = elastic.path_of("nProcPerNode");
    rules.processes = elastic.take("nProcPerNode");
  }
  limit = {elastic.path_of("maxRestarts"), elastic.take_number("maxRestarts")};
  elastic.finish();
}

}  // namespace

void convert_pytorch_job(Draft& draft, Source& manifest) {
  Source spec = manifest.take_object("spec");
  Source specs = spec.take_object("pytorchReplicaSpecs");
  const Role master = take_role(specs, "Master"), worker = take_role(specs, "Worker");
  specs.finish();
  const bool has_both = master.replicas > 0 && worker.replicas > 0;
  const Role& chosen = worker.replicas > 0 ? worker : master;
  if (chosen.path.empty()) return draft.fail(specs.path(), "must have a Master or a Worker");
  if (has_both) say_differences(draft, master, worker);
  const std::int64_t replicas = master.replicas + worker.replicas;
  set_replicas(draft, replicas, specs.path());

  PodRules rules{.container = kContainer, .is_torch = true};
  rules.processes_field = spec.path_of("nprocPerNode");
  rules.processes = spec.take("nprocPerNode");
  const std::string name = draft.metadata.value("name", "");
  if (!name.empty()) rules.host_prefixes = {name + "-master-", name + "-worker-"};
  Limit limit;
  carry_elastic(spec, rules, limit);
  carry_template(draft, chosen.pod_template, chosen.path + ".template", rules);
  carry_run_policy(draft, spec, replicas, limit);
  if (has_both && master.restart_policy != worker.restart_policy) {
    draft.leave_out(master.path + ".restartPolicy", "differs from the Worker's",
                    "the Worker's is taken for all");
  }
  carry_restart_policy(draft, chosen, limit);
  spec.finish();
}

}  // namespace pawl::cli::convert
