#include "operator/core/pass.h"
#include "common/base/mutant.h"

namespace pawl::core {
namespace {

const api::WorkerGroup* own_group(const Observed& seen) {
  if (seen.group == nullptr || !is_owned_by(seen.group->meta, seen.job->meta.uid)) return nullptr;
  return seen.group;
}

const api::WorkerGroupStatus* current_report(const Observed& seen) {
  const api::WorkerGroup* group = own_group(seen);
  if (group == nullptr) return nullptr;
  const api::WorkerGroupStatus& status = group->status;
  // Between a claim and the first commit of an attempt the record still describes the gang before.
  const bool is_claim = !status.lineage.empty() && status.lineage.back().attempt != status.attempt;
  const bool is_current = status.attempt == seen.job->status.attempt && !is_claim;
  const bool is_taken = is_current || is_mutant(Mutant::kI21OldReport);
  return is_taken && status.generation > 0 ? &status : nullptr;
}

bool is_of_this_attempt(const api::WorkerGroup* group, const api::TrainingJob& job) {
  return group != nullptr && group->spec.attempt == job.status.attempt;
}

}  // namespace

Pass::Pass(const Observed& seen_now, const Policy& policy_now, TimePoint time)
    : seen(seen_now),
      policy(policy_now),
      job(*seen_now.job),
      now(std::chrono::floor<std::chrono::seconds>(time)),
      now_exact(time),
      group(own_group(seen_now)),
      current_group(is_of_this_attempt(group, *seen_now.job) ? group : nullptr),
      report(current_report(seen_now)),
      pods(sort_pods(*seen_now.job, group, seen_now.pods, time)),
      next(seen_now.job->status) {}

int Pass::size() const {
  return current_group != nullptr ? current_group->spec.target_members : job.spec.replicas;
}

int Pass::gang_size() const {
  return current_group != nullptr ? most_members(current_group->spec) : job.spec.replicas;
}

int Pass::ready() const { return std::min(pods.ready, gang_size()); }

bool Pass::is_member(const std::string& uid) const {
  return report != nullptr && std::ranges::any_of(report->members, [&](const api::Member& member) {
           return member.ref.uid == uid;
         });
}

void Pass::say(std::string reason, std::string message) {
  next.reason = std::move(reason);
  next.message = std::move(message);
}

void Pass::emit(bool is_warning, std::string reason, std::string message, std::string which) {
  events.push_back({is_warning, std::move(reason), std::move(message), next.attempt, job.meta.uid,
                    std::move(which)});
}

void Pass::delete_pod(const api::PodView& pod) {
  if (!is_terminating(pod)) acts.push_back(DeletePod{pod.meta.name, pod.meta.uid});
}

void Pass::delete_all() {
  for (const auto* workers : {&pods.current, &pods.leaving}) {
    for (const Worker& worker : *workers) delete_pod(*worker.pod);
  }
  delete_superseded();
}

void Pass::delete_superseded() {
  for (const Worker& worker : pods.previous) delete_pod(*worker.pod);
  for (const Worker& worker : pods.replaced) delete_pod(*worker.pod);
}

}  // namespace pawl::core
