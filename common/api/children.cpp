#include "common/api/children.h"

#include "common/api/codec.h"
#include "common/api/contract.h"
#include "common/base/json.h"

namespace pawl::api {

using nlohmann::json;

namespace {

json labels_of(const TrainingJob& job) {
  return {
      {kLabelManagedBy, kManagedBy}, {kLabelJobName, job.meta.name}, {kLabelJobUid, job.meta.uid}};
}

// The account that the pods run under: the template's own where it names one (workload identity).
std::string service_account_name(const TrainingJob& job) {
  const json pod_template = parse_json(job.spec.template_json);
  const json::json_pointer path{"/spec/serviceAccountName"};
  if (pod_template.is_object() && pod_template.contains(path) && pod_template[path].is_string()) {
    const std::string name = pod_template[path].get<std::string>();
    if (!name.empty()) return name;
  }
  return child_name(job);
}

}  // namespace

json metadata_of(const TrainingJob& job, const std::string& name) {
  return {{"name", name},
          {"namespace", job.meta.ns},
          {"labels", labels_of(job)},
          {"ownerReferences", json::array({owner_reference_of(job)})}};
}

json owner_reference_of(const TrainingJob& job) {
  return {{"apiVersion", kApiVersion}, {"kind", "TrainingJob"}, {"name", job.meta.name},
          {"uid", job.meta.uid},       {"controller", true},    {"blockOwnerDeletion", true}};
}

std::string child_name(const std::string& job_name) { return job_name + "-pawl-worker"; }
std::string child_name(const TrainingJob& job) { return child_name(job.meta.name); }

std::string pod_name(const TrainingJob& job, std::int64_t attempt, int slot, int n) {
  return pod_name(job.meta.name, attempt, slot, n);
}

std::string pod_name(const std::string& job_name, std::int64_t attempt, int slot, int n) {
  return job_name + "-" + std::to_string(attempt) + "-" + std::to_string(slot) + "-" +
         std::to_string(n);
}

std::string pod_selector(const TrainingJob& job) {
  return std::string(kLabelJobUid) + "=" + job.meta.uid;
}

json service_account_of(const TrainingJob& job) {
  return {{"apiVersion", "v1"},
          {"kind", "ServiceAccount"},
          {"metadata", metadata_of(job, child_name(job))},
          {"automountServiceAccountToken", false}};
}

json role_of(const TrainingJob& job) {
  const json names = json::array({job.meta.name});
  const json groups = json::array({kGroup});
  return {{"apiVersion", "rbac.authorization.k8s.io/v1"},
          {"kind", "Role"},
          {"metadata", metadata_of(job, child_name(job))},
          {"rules", json::array({{{"apiGroups", groups},
                                  {"resources", {"workergroups"}},
                                  {"resourceNames", names},
                                  {"verbs", {"get", "watch"}}},
                                 {{"apiGroups", groups},
                                  {"resources", {"workergroups/status"}},
                                  {"resourceNames", names},
                                  {"verbs", {"get", "patch"}}}})}};
}

json role_binding_of(const TrainingJob& job) {
  return {
      {"apiVersion", "rbac.authorization.k8s.io/v1"},
      {"kind", "RoleBinding"},
      {"metadata", metadata_of(job, child_name(job))},
      {"roleRef",
       {{"apiGroup", "rbac.authorization.k8s.io"}, {"kind", "Role"}, {"name", child_name(job)}}},
      {"subjects", json::array({{{"kind", "ServiceAccount"},
                                 {"name", service_account_name(job)},
                                 {"namespace", job.meta.ns}}})}};
}

// No eviction at all, unless the gang may be smaller, or gets another member: one that lacks a
// member lacks all. Then more members than any gang has.
int min_available_of(int least) {
  constexpr int kMoreThanReplicasMax = 10'000;
  return least > 0 ? least : kMoreThanReplicasMax;
}

// A plain number of pods: for maxUnavailable the disruption controller asks for the job's scale
// with each change of a pod, and for this for nothing.
json disruption_budget_of(const TrainingJob& job, int least) {
  return {{"apiVersion", "policy/v1"},
          {"kind", "PodDisruptionBudget"},
          {"metadata", metadata_of(job, child_name(job))},
          {"spec",
           {{"selector", {{"matchLabels", {{kLabelJobUid, job.meta.uid}}}}},
            {"minAvailable", min_available_of(least)}}}};
}

namespace {

std::string priority_class_of(const TrainingJob& job) {
  const json pod_template = parse_json(job.spec.template_json);
  return text_at(member_of(pod_template, "spec"), "priorityClassName");
}

}  // namespace

// As mark_for_kueue() names a group: that of a job of this name which is gone is another one.
std::string pod_group_name(const TrainingJob& job, std::int64_t attempt) {
  return job.meta.name + "-" + job.meta.uid.substr(0, 7) + "-" + std::to_string(attempt);
}

// Of the class of its pods: the scheduler refuses a group of another priority than theirs.
json pod_group_of(const TrainingJob& job, std::int64_t attempt, int least, bool is_indivisible) {
  const std::string priority = priority_class_of(job);
  json metadata = metadata_of(job, pod_group_name(job, attempt));
  json spec = {{"schedulingPolicy", {{"gang", {{"minCount", least}}}}},
               {"disruptionMode", {{is_indivisible ? "all" : "single", json::object()}}}};
  if (!priority.empty()) spec["priorityClassName"] = priority;
  return {{"apiVersion", "scheduling.k8s.io/v1beta1"},
          {"kind", "PodGroup"},
          {"metadata", std::move(metadata)},
          {"spec", std::move(spec)}};
}

bool may_join_pod_group(const TrainingJob& job) {
  if (job.meta.labels.contains(std::string(kKueuePrefix) + "queue-name")) return false;
  const json pod_template = parse_json(job.spec.template_json);
  const json& spec = member_of(pod_template, "spec");
  const std::string scheduler = text_at(spec, "schedulerName");
  const bool is_the_clusters = scheduler.empty() || scheduler == "default-scheduler";
  const bool is_of_the_system = priority_class_of(job).starts_with("system-");
  const auto has = [&](const char* key) { return spec.contains(key); };
  return is_the_clusters && !is_of_the_system && !has("schedulingGroup") && !has("nodeName") &&
         !has("evictionResponders");
}

json service_of(const TrainingJob& job) {
  return {
      {"apiVersion", "v1"},
      {"kind", "Service"},
      {"metadata", metadata_of(job, job.meta.name)},
      {"spec",
       {{"clusterIP", "None"},
        {"publishNotReadyAddresses", true},  // members look for each other before they are ready
        {"selector", {{kLabelJobUid, job.meta.uid}}}}}};
}

json worker_group_of(const TrainingJob& job, const WorkerGroupSpec& spec) {
  return {{"apiVersion", kApiVersion},
          {"kind", "WorkerGroup"},
          {"metadata", metadata_of(job, job.meta.name)},
          {"spec", encode_spec(spec)}};
}

}  // namespace pawl::api
