// A gang that kube-scheduler places as a whole: the pods that its attempt begins with belong to a
// PodGroup (scheduling.k8s.io, KEP-4671), of which none gets a node before enough of them can.
// Those that come later belong to none: they wait for nobody. SPEC I47.
#include <algorithm>
#include <string>

#include "common/api/children.h"
#include "operator/core/node_steps.h"
#include "operator/core/steps.h"

namespace pawl::core {

using namespace api;

namespace {

CreateChild pod_group(const WorkerGroupSpec& spec) {
  const bool may_begin_smaller = spec.shortage_seconds > 0;
  return {.kind = ObjectKind::kPodGroup,
          .least = may_begin_smaller ? spec.min_members : most_members(spec),
          .is_indivisible = spec.min_members == most_members(spec),
          .attempt = spec.attempt};
}

}  // namespace

bool joins_pod_group(const Pass& pass) {
  return pass.policy.pod_groups == OptionalApi::kServed && is_left_to_scheduler(pass) &&
         may_join_pod_group(pass.job);
}

// An operator that knows of no groups leaves the name of an earlier attempt's in a later record.
bool is_in_pod_group(const Pass& pass) {
  return pass.current_group != nullptr &&
         pass.current_group->spec.pod_group == pod_group_name(pass.job, pass.job.status.attempt);
}

void drop_pod_group(Pass& pass) {
  const std::string& name = pass.group->spec.pod_group;
  if (!name.empty() && name != pod_group_name(pass.job, pass.job.status.attempt))
    pass.acts.push_back(DeleteChild{ObjectKind::kPodGroup, name});
}

// The group is asked for with each wave, in case that somebody has deleted it.
void create_pod(Pass& pass, const WorkerGroupSpec& spec, const EligiblePod& place) {
  const std::string name = pod_group_name(pass.job, spec.attempt);
  const bool is_first = pass.report == nullptr && place.n == 0;
  const bool is_in_it =
      is_first && spec.pod_group == name && pass.policy.pod_groups != OptionalApi::kMissing;
  const CreateChild group = pod_group(spec);
  if (is_in_it && std::ranges::find(pass.acts, Action{group}) == pass.acts.end())
    pass.acts.emplace_back(group);
  pass.acts.push_back(CreatePod{spec.attempt, place.slot, place.n, place.name, is_in_it ? name : "",
                                is_first ? consumed_request(pass) : ""});
}

std::string placed_by(const Pass& pass) {
  const bool has_record = pass.current_group != nullptr;
  const bool is_in_it = has_record ? is_in_pod_group(pass) : joins_pod_group(pass);
  const std::string together = is_in_it ? ", all pods together (as a PodGroup)" : "";
  const bool is_given_over = pass.seen.seating != nullptr && is_left_to_scheduler(pass);
  if (is_given_over && !pass.seen.placed_by.empty()) {
    return "kube-scheduler" + together + ": it has refused the nodes that Pawl had decided on " +
           std::to_string(pass.policy.moves_max) + " times";
  }
  const std::string& why = pass.seen.placed_by;
  const PlacementStatus& placement = pass.job.status.placement;
  if (placement.attempt == pass.job.status.attempt && is_anywhere(placement) && !why.empty())
    return "kube-scheduler: there was no room, and an autoscaler adds nodes for pods without one";
  const bool are_missing = !is_in_it && pass.policy.pod_groups == OptionalApi::kMissing &&
                           is_left_to_scheduler(pass) && may_join_pod_group(pass.job);
  if (are_missing) return why + "; the cluster serves no PodGroups (scheduling.k8s.io/v1beta1)";
  if (!is_in_it) return why;
  const auto colon = why.find(": ");
  return "kube-scheduler" + together + (colon == std::string::npos ? "" : why.substr(colon));
}

}  // namespace pawl::core
