// Another size. A gang that can go on from memory changes while it runs (design §5, rule 15): a
// larger one gets pods in new slots, and lets them in when they are prepared; of a smaller one the
// pods in the last slots leave when the others have gone on without them.
#include <algorithm>

#include "common/api/contract.h"
#include "common/base/mutant.h"
#include "operator/core/node_steps.h"
#include "operator/core/steps.h"

namespace pawl::core {
namespace {

using namespace api;

// Between the first commit and the end of the gang.
bool can_resize(const Pass& pass) {
  const WorkerGroupSpec& spec = pass.group->spec;
  if (pass.report == nullptr || pass.group->meta.deletion_time) return false;
  if (!spec.has_successors || spec.is_stopping) return false;
  const auto lives = [&](const Worker& worker) {
    const PodView& pod = *worker.pod;
    return pass.is_member(pod.meta.uid) && outcome_of(pod) == Outcome::kNone &&
           !is_given_up(pass.job, pod, pass.now_exact);
  };
  if (std::ranges::none_of(pass.pods.current, lives) &&
      std::ranges::none_of(pass.pods.leaving, lives))
    return false;
  // Another pod must be what the others are.
  return pod_hash(pass) == spec.pod_hash;
}

std::string change_text(const Pass& pass) {
  const WorkerGroupSpec& spec = pass.group->spec;
  if (most_members(spec) == pass.job.spec.replicas)
    return "spec.scheduling.spares changed from " + std::to_string(spec.spares) + " to " +
           std::to_string(spares_of(pass));
  return "spec.replicas changed from " + std::to_string(most_members(spec)) + " to " +
         std::to_string(pass.job.spec.replicas);
}

// A pod that may hold what nobody else does: a member, and one of before until the generation
// without it has made a step. Foreign programs hold nothing for each other.
bool is_needed_by_gang(Pass& pass, const PodView& pod) {
  if (outcome_of(pod) != Outcome::kNone || pass.report == nullptr) return false;
  if (!goes_on_from_memory(pass) && !pass.is_member(pod.meta.uid)) return false;
  const auto& progress = pass.report->progress;
  const bool has_stepped = progress && progress->step > pass.report->start_step;
  if (!pass.is_member(pod.meta.uid) && has_stepped) return false;
  if (!is_terminating(pod)) return true;
  // What its node has not ended by then, it does not know of.
  if (pass.now_exact >= *pod.meta.deletion_time) return false;
  pass.wake(*pod.meta.deletion_time);
  return true;
}

// As one that ends the gang, which is judged by it; a process that was killed is started again.
bool is_named(const Pass& pass, const std::string& uid) {
  return pass.report != nullptr &&
         std::ranges::any_of(pass.report->failures, [&](const Failure& failure) {
           const bool is_started_again = pass.group->spec.is_in_place && is_killed(failure);
           return failure.pod_uid == uid && failure.cause != cause::kVictim &&
                  !is_silence(failure) && !is_started_again && !is_outlived(pass, failure) &&
                  failure.attempt == pass.job.status.attempt;
         });
}

// From now on the others have their time to lead in its stead.
void note_leader(Pass& pass, const EligiblePod& pod) {
  pass.next.last_failure = Failure{.pod = pod.name,
                                   .pod_uid = pod.uid,
                                   .cause = cause::kDeleted,
                                   .attempt = pass.next.attempt,
                                   .time = pass.now};
  pass.next.last_failure->generation = pass.report->generation;
}

}  // namespace

bool is_resized(const Pass& pass) {
  if (pass.current_group == nullptr || !has_begun(pass)) return false;
  const WorkerGroupSpec& spec = pass.current_group->spec;
  if (most_members(spec) != pass.job.spec.replicas) return true;
  return spec.spares != spares_of(pass) && can_resize(pass);  // no gang begins anew for these
}

void resize(Pass& pass) {
  if (!can_resize(pass)) return restart(pass, {cause::kResized, change_text(pass)});
  keep_quota(pass);
  WorkerGroupSpec after = pass.group->spec;
  after.spares = spares_of(pass);
  after.target_members = places_of(pass);
  set_range(pass, after);
  for (int slot = 0; slot < after.target_members; ++slot) {
    if (std::ranges::find(after.pods, slot, &EligiblePod::slot) != after.pods.end()) continue;
    after.pods.push_back(
        {slot, pod_name(pass.job, after.attempt, slot, 0), "", 0, order_of(pass.job, slot)});
  }
  const std::string message =
      change_text(pass) + (goes_on_from_memory(pass)
                               ? "; the gang goes on, and changes between two steps"
                               : "; the pods that stay start their programs again with the others");
  pass.say("Resizing", message);
  change_group(pass, std::move(after));
  pass.acts.push_back(EmitEvent{false, "Resizing", message, pass.next.attempt, pass.job.meta.uid,
                                std::to_string(pass.job.meta.generation)});
}

// Their slots keep the number of the pod that is next, so that no name is used twice in an attempt.
bool frees_places(Pass& pass) {
  if (pass.current_group == nullptr) return false;
  WorkerGroupSpec after = pass.current_group->spec;
  for (EligiblePod& pod : after.pods) {
    if (pod.slot < after.target_members) continue;
    const auto found = std::ranges::find(pass.pods.leaving, pod.slot,
                                         [](const Worker& worker) { return worker.identity.slot; });
    const bool is_seen = found != pass.pods.leaving.end();
    if (pod.uid.empty() && !is_seen) continue;
    const bool is_needed = is_seen && is_needed_by_gang(pass, *found->pod);
    if (is_needed && !is_mutant(Mutant::kI34MemberTakenAway)) continue;
    if (is_named(pass, pod.uid)) continue;
    if (pass.report != nullptr && pass.report->leader && pass.report->leader->ref.uid == pod.uid)
      note_leader(pass, pod);
    // A list of pods may be older than the record.
    if (!is_seen) pass.acts.push_back(ConfirmGone{ObjectKind::kPod, pod.name, pod.uid});
    pod.n += 1;
    pod.uid.clear();
    pod.name = pod_name(pass.job, after.attempt, pod.slot, pod.n);
  }
  if (after == pass.group->spec) return false;
  change_group(pass, std::move(after));
  return true;
}

}  // namespace pawl::core
