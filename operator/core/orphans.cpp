#include <algorithm>

#include "common/api/children.h"
#include "common/api/contract.h"
#include "common/base/mutant.h"
#include "operator/core/plan.h"

namespace pawl::core {

bool is_orphan(const api::ObjectMeta& meta, const std::string& job_uid) {
  const auto label = meta.labels.find(api::kLabelJobUid);
  if (label == meta.labels.end() || label->second.empty() || label->second == job_uid) return false;
  return meta.owners.empty() && !meta.deletion_time;
}

// The WorkerGroup goes last: while it is there, the next pass knows that the others may be, too.
Plan plan_orphans(const Orphans& orphans) {
  Plan plan;
  std::vector<const api::PodView*> pods = orphans.pods;
  std::ranges::sort(pods, {}, [](const auto* pod) -> const auto& { return pod->meta.name; });
  if (pods.empty() && orphans.group == nullptr) return plan;
  plan.why = "TrainingJob " + orphans.job_name + " (" + orphans.job_uid +
             ") is gone and left children without an owner";
  if (!is_mutant(Mutant::kI22OrphanUnread)) {
    plan.actions.push_back(
        ConfirmGone{ObjectKind::kTrainingJob, orphans.job_name, orphans.job_uid});
  }
  for (const api::PodView* pod : pods) {
    plan.actions.push_back(DeletePod{pod->meta.name, pod->meta.uid});
  }
  if (orphans.group == nullptr) return plan;
  for (const ObjectKind kind : {ObjectKind::kServiceAccount, ObjectKind::kRole,
                                ObjectKind::kRoleBinding, ObjectKind::kDisruptionBudget}) {
    plan.actions.push_back(DeleteOrphan{kind, api::child_name(orphans.job_name), orphans.job_uid});
  }
  if (const std::string& name = orphans.group->spec.pod_group; !name.empty())
    plan.actions.push_back(DeleteOrphan{ObjectKind::kPodGroup, name, orphans.job_uid});
  plan.actions.push_back(DeleteOrphan{ObjectKind::kService, orphans.job_name, orphans.job_uid});
  plan.actions.push_back(DeleteOrphan{ObjectKind::kWorkerGroup, orphans.job_name, orphans.job_uid,
                                      orphans.group->meta.uid});
  return plan;
}

}  // namespace pawl::core
