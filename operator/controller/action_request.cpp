#include "operator/controller/action_request.h"

#include <utility>

#include "common/api/codec.h"
#include "common/api/contract.h"
#include "common/api/json_fields.h"
#include "common/api/provisioning.h"
#include "common/base/hash.h"
#include "common/base/json.h"
#include "common/base/mutant.h"

namespace pawl::controller {

using core::ObjectKind;
using nlohmann::json;

const kube::Resource& resource_of(ObjectKind kind) {
  switch (kind) {
    case ObjectKind::kTrainingJob:
      return kube::resources::kTrainingJobs;
    case ObjectKind::kWorkerGroup:
      return kube::resources::kWorkerGroups;
    case ObjectKind::kPod:
      return kube::resources::kPods;
    case ObjectKind::kServiceAccount:
      return kube::resources::kServiceAccounts;
    case ObjectKind::kRole:
      return kube::resources::kRoles;
    case ObjectKind::kRoleBinding:
      return kube::resources::kRoleBindings;
    case ObjectKind::kService:
      return kube::resources::kServices;
    case ObjectKind::kDisruptionBudget:
      return kube::resources::kPodDisruptionBudgets;
    case ObjectKind::kPodGroup:
      return kube::resources::kPodGroups;
    case ObjectKind::kPodTemplate:
      return kube::resources::kPodTemplates;
    case ObjectKind::kProvisioningRequest:
      return kube::resources::kProvisioningRequests;
  }
  return kube::resources::kPods;
}

kube::HttpRequest patch_status(const ExchangeContext& context, const core::PatchStatus& action,
                               const std::string& resource_version) {
  // The first write sends zeros too: /scale reads replicas, people read restarts.
  const bool is_first = action.before == api::TrainingJobStatus{};
  const json before = is_first ? json::object() : api::encode_status(action.before);
  json patch = {{"metadata", {{"resourceVersion", resource_version}}},
                {"status", api::merge_patch_between(before, api::encode_status(action.after))}};
  if (is_mutant(Mutant::kB02StatusWithoutLock)) patch.erase("metadata");
  return kube::merge_patch_request(resource_of(ObjectKind::kTrainingJob), context.ns,
                                   context.job_name, patch, "status");
}

// One that somebody made anew with a percentage, or maxUnavailable, which excludes a number.
kube::HttpRequest change_budget(const ExchangeContext& context, const core::CreateChild& action,
                                const api::ObjectMeta& found) {
  return kube::merge_patch_request(
      resource_of(action.kind), context.ns, found.name,
      {{"metadata", {{"resourceVersion", found.resource_version}, {"uid", found.uid}}},
       {"spec",
        {{"minAvailable", api::min_available_of(action.least)}, {"maxUnavailable", nullptr}}}});
}

kube::HttpRequest change_pod_group(const ExchangeContext& context, const core::CreateChild& action,
                                   const api::ObjectMeta& found) {
  return kube::merge_patch_request(
      resource_of(action.kind), context.ns, found.name,
      {{"metadata", {{"resourceVersion", found.resource_version}, {"uid", found.uid}}},
       {"spec", {{"schedulingPolicy", {{"gang", {{"minCount", action.least}}}}}}}});
}

kube::HttpRequest delete_job(const ExchangeContext& context, const std::string& uid,
                             const std::string& resource_version) {
  return kube::delete_request(resource_of(ObjectKind::kTrainingJob), context.ns, context.job_name,
                              {.uid = uid, .resource_version = resource_version});
}

namespace {

constexpr std::size_t kEventMessageBytesMax = 1'000;  // the API server takes 1,024
Result<json> child_of(const api::TrainingJob& job, const core::CreateChild& action,
                      const api::ChildOptions& children) {
  switch (action.kind) {
    case ObjectKind::kPodTemplate:
      return api::pod_template_of(job, action.name, action.attempt, children);
    case ObjectKind::kProvisioningRequest:
      return api::provisioning_request_of(job, action.name, action.least, children);
    case ObjectKind::kServiceAccount:
      return api::service_account_of(job);
    case ObjectKind::kRole:
      return api::role_of(job);
    case ObjectKind::kRoleBinding:
      return api::role_binding_of(job);
    case ObjectKind::kService:
      return api::service_of(job);
    case ObjectKind::kPodGroup:
      return api::pod_group_of(job, action.attempt, action.least, action.is_indivisible);
    default:
      return api::disruption_budget_of(job, action.least);
  }
}

// One event per (job, reason, attempt, which): a second one of the same name is refused, which
// is the deduplication.
json event_of(const core::EmitEvent& event, const ExchangeContext& context) {
  std::string key = event.regarding_uid + "|" + event.reason + "|" + std::to_string(event.attempt);
  if (!event.which.empty()) key += "|" + event.which;
  const std::string time = format_time(context.now);
  return {{"apiVersion", "v1"},
          {"kind", "Event"},
          {"metadata",
           {{"name", context.job_name + "." + sha256_hex(key).substr(0, 16)},
            {"namespace", context.ns}}},
          {"involvedObject",
           {{"apiVersion", api::kApiVersion},
            {"kind", "TrainingJob"},
            {"namespace", context.ns},
            {"name", context.job_name},
            {"uid", event.regarding_uid}}},
          {"type", event.is_warning ? "Warning" : "Normal"},
          {"reason", event.reason},
          {"message", api::clip_front(event.message, kEventMessageBytesMax)},
          {"source", {{"component", "pawl-operator"}}},
          {"reportingComponent", "pawl-operator"},
          {"reportingInstance", "pawl-operator"},
          {"firstTimestamp", time},
          {"lastTimestamp", time},
          {"count", 1}};
}

struct FirstRequest {
  const ExchangeContext& context;

  kube::HttpRequest create(ObjectKind kind, const json& object) const {
    return kube::create_request(resource_of(kind), context.ns, object);
  }
  Result<kube::HttpRequest> operator()(const core::ConfirmGone& action) const {
    return kube::get_request(resource_of(action.kind), context.ns, action.name);
  }
  Result<kube::HttpRequest> operator()(const core::ConfirmRecord&) const {
    return kube::get_request(resource_of(ObjectKind::kWorkerGroup), context.ns, context.job_name);
  }
  Result<kube::HttpRequest> operator()(const core::PatchStatus& action) const {
    return patch_status(context, action, action.resource_version);
  }
  Result<kube::HttpRequest> operator()(const core::CreateChild& action) const {
    api::ChildOptions children = context.children;
    children.now = context.now;
    PAWL_TRY(child, child_of(*context.job, action, children));
    return create(action.kind, child);
  }
  Result<kube::HttpRequest> operator()(const core::CreateGroup& action) const {
    return create(ObjectKind::kWorkerGroup, api::worker_group_of(*context.job, action.spec));
  }
  Result<kube::HttpRequest> operator()(const core::PatchGroup& action) const {
    json patch = {{"metadata", {{"resourceVersion", action.resource_version}, {"uid", action.uid}}},
                  {"spec", api::merge_patch_between(api::encode_spec(action.before),
                                                    api::encode_spec(action.after))}};
    if (is_mutant(Mutant::kB18DropsForeignFields)) patch["metadata"]["annotations"] = nullptr;
    return kube::merge_patch_request(resource_of(ObjectKind::kWorkerGroup), context.ns,
                                     context.job_name, patch);
  }
  Result<kube::HttpRequest> operator()(const core::CreatePod& action) const {
    api::ChildOptions children = context.children;
    children.now = context.now;
    children.pod_group = action.pod_group;
    children.node_request = action.node_request;
    PAWL_TRY(pod,
             api::worker_pod_of(*context.job, action.attempt, action.slot, action.n, children));
    if (is_mutant(Mutant::kB22WrongOwner)) pod["metadata"]["ownerReferences"][0]["uid"] = "0";
    return create(ObjectKind::kPod, pod);
  }
  Result<kube::HttpRequest> operator()(const core::DeletePod& action) const {
    kube::DeleteOptions options{.uid = action.uid};
    if (action.grace) options.grace_seconds = action.grace->count();
    auto request =
        kube::delete_request(resource_of(ObjectKind::kPod), context.ns, action.name, options);
    if (is_mutant(Mutant::kB01NoUid)) request.body.clear();
    return request;
  }
  Result<kube::HttpRequest> operator()(const core::DeleteChild& action) const {
    return kube::get_request(resource_of(action.kind), context.ns, action.name);
  }
  Result<kube::HttpRequest> operator()(const core::DeleteOrphan& action) const {
    return kube::get_request(resource_of(action.kind), context.ns, action.name);
  }
  Result<kube::HttpRequest> operator()(const core::DeleteJob& action) const {
    return delete_job(context, action.uid, action.resource_version);
  }
  Result<kube::HttpRequest> operator()(const core::EmitEvent& action) const {
    return kube::create_request(kube::resources::kEvents, context.ns, event_of(action, context));
  }
};

}  // namespace

Result<kube::HttpRequest> first_request(const core::Action& action,
                                        const ExchangeContext& context) {
  return std::visit(FirstRequest{context}, action);
}

}  // namespace pawl::controller
