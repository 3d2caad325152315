// A gang whose members are lost one by one, and that lives on: their slots get other pods in the
// same attempt, and what the others hold in memory is not lost (design §5, rules 6 and 15).
#include <algorithm>
#include <chrono>

#include "common/api/contract.h"
#include "common/base/mutant.h"
#include "operator/core/shortage.h"
#include "operator/core/steps.h"

namespace pawl::core {
namespace {

using namespace api;

bool is_lost(const Loss& loss, int slot) {
  return std::ranges::find(loss.slots, slot) != loss.slots.end();
}

// One that holds the state, and leads the gang if nobody else does; it may be one that leaves.
bool has_living_member(const Pass& pass, const Loss& loss) {
  const auto lives = [&](const Worker& worker) {
    const PodView& pod = *worker.pod;
    return pass.is_member(pod.meta.uid) && !is_lost(loss, worker.identity.slot) &&
           !is_terminating(pod) && outcome_of(pod) == Outcome::kNone;
  };
  return std::ranges::any_of(pass.pods.current, lives) ||
         std::ranges::any_of(pass.pods.leaving, lives);
}

// Not only pods that were to come in.
bool has_lost_member(const Pass& pass, const Loss& loss) {
  return std::ranges::any_of(pass.group->spec.pods, [&](const EligiblePod& pod) {
    return is_lost(loss, pod.slot) && pass.is_member(pod.uid);
  });
}

std::string places_text(const std::vector<std::string>& names) {
  if (names.size() == 1) return "pod " + names.front() + " takes its place";
  return std::to_string(names.size()) + " pods are replaced, the first by " + names.front();
}

// What the gang does meanwhile: a smaller one may have gone on already.
std::string meanwhile_text(const Pass& pass, bool is_waiting) {
  if (is_waiting && !goes_on_from_memory(pass))
    return ", and all programs are started again with it";
  if (is_waiting)
    return std::string(", and the gang goes on from memory with it") +
           (pass.group->spec.spares > 0 ? " or with a spare" : "");
  return "; until then the gang trains with " + std::to_string(pass.report->members.size()) +
         " of " + std::to_string(pass.gang_size());
}

}  // namespace

bool can_replace(const Pass& pass, const Loss& loss) {
  if (pass.report == nullptr || pass.group->meta.deletion_time || loss.slots.empty()) return false;
  const WorkerGroupSpec& spec = pass.group->spec;
  if (!spec.has_successors || spec.is_stopping) return false;
  if (loss.has_fault && !is_mutant(Mutant::kI33FaultReplaced)) return false;
  // A successor must be what the others are.
  if (pod_hash(pass) != spec.pod_hash) return false;
  if (!has_living_member(pass, loss)) return false;
  if (loss.failure.cause == cause::kStraggler) return true;  // what its rule says has been done
  if (loss.failure.cause == cause::kPreempted && gave_room(pass, loss.failure.pod)) return true;
  const Verdict verdict = judge(pass, loss);
  const bool is_restart =
      verdict.action == RuleAction::kRestart || verdict.action == RuleAction::kRestartFree;
  return verdict.rule.empty() && is_restart;
}

void replace_members(Pass& pass, const Loss& loss) {
  WorkerGroupSpec after = pass.group->spec;
  std::vector<std::string> names;
  for (EligiblePod& pod : after.pods) {
    if (!is_lost(loss, pod.slot)) continue;
    pod.n += 1;
    pod.uid.clear();
    pod.name = pod_name(pass.job, after.attempt, pod.slot, pod.n);
    names.push_back(pod.name);
  }
  pass.confirms = loss.confirms;
  const bool has_budget = is_true(pass.next, condition::kRunning) || has_replaced(pass);
  if (!has_budget) add_disruption_budget(pass);
  tell_outlived(pass);  // after this the status is of a later generation
  pass.next.last_failure = loss.failure;
  pass.next.last_failure->generation = pass.report->generation;
  const bool is_waiting = has_lost_member(pass, loss);
  const std::string message =
      sentence(loss.failure) + "; " + places_text(names) + meanwhile_text(pass, is_waiting);
  if (is_waiting) {
    set_condition(pass, condition::kRunning, "False", kMemberLost, message);
    set_condition(pass, condition::kRestarting, "True", loss.failure.cause, message);
  }
  pass.say(kMemberLost, message);
  const ObjectMeta& meta = pass.group->meta;
  pass.acts.push_back(PatchGroup{meta.uid, meta.resource_version, pass.group->spec, after});
  pass.acts.push_back(EmitEvent{true, "MemberReplaced", message, pass.next.attempt,
                                pass.job.meta.uid, names.front()});
}

// Its members may hear the old leader still, which cannot reach the API server: they train on, and
// will never be heard of.
bool is_leaderless(Pass& pass) {
  constexpr std::chrono::seconds kTakeoverMax{120};
  const auto& failure = pass.job.status.last_failure;
  if (pass.report == nullptr || !pass.report->leader || !has_replaced(pass)) return false;
  const bool is_eligible = std::ranges::find(pass.group->spec.pods, pass.report->leader->ref.uid,
                                             &EligiblePod::uid) != pass.group->spec.pods.end();
  if (is_eligible || !failure || !failure->time) return false;
  const TimePoint due = *failure->time + kTakeoverMax;
  if (pass.now_exact >= due) return true;
  pass.wake(due);
  return false;
}

bool has_replaced(const Pass& pass) {
  return pass.current_group != nullptr &&
         std::ranges::any_of(pass.current_group->spec.pods, [&](const EligiblePod& pod) {
           return pod.n > 0 && pod.slot < pass.current_group->spec.target_members;
         });
}

}  // namespace pawl::core
