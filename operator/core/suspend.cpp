#include <algorithm>

#include "common/base/mutant.h"
#include "operator/core/steps.h"
#include "operator/core/stop_steps.h"

namespace pawl::core {
namespace {

using namespace api;

}  // namespace

// A gang that ran has something to save: it is asked to, and its pods are left alone until it has
// left or the grace is over. The grace runs from the moment when Running turned False for this
// reason, or Restarting where a place was empty.
std::optional<TimePoint> saving_deadline(const Pass& pass, const char* reason) {
  const bool is_record_ours =
      pass.current_group != nullptr && !pass.current_group->meta.deletion_time;
  if (!is_record_ours) return std::nullopt;
  for (const char* type : {condition::kRunning, condition::kRestarting}) {
    const Condition* found = find_condition(pass.next, type);
    const bool is_anchor =
        found != nullptr && found->reason == reason && found->last_transition_time;
    if (!is_anchor) continue;
    if (is_mutant(Mutant::kB42WrongAnchor))
      return *pass.next.start_time + pass.policy.suspend_grace;
    return *found->last_transition_time + pass.policy.suspend_grace;
  }
  return std::nullopt;
}

namespace {

void settle(Pass& pass) {
  pass.delete_all();
  if (!is_true(pass.next, condition::kSuspended)) {
    const bool was_started = pass.next.attempt > 0;
    std::string message = was_started ? "suspended in attempt " + std::to_string(pass.next.attempt)
                                      : "suspended before it started";
    if (pass.next.checkpoint) {
      message += "; saved at step " + std::to_string(pass.next.checkpoint->step);
    }
    set_condition(pass, condition::kSuspended, "True", "Suspended", message);
    pass.emit(false, "Suspended", message);
  }
  const std::string message = find_condition(pass.next, condition::kSuspended)->message;
  if (!is_mutant(Mutant::kB44Contradiction)) {
    clear_condition(pass, condition::kRunning, "Suspended", message);
  }
  clear_condition(pass, condition::kRestarting, "Suspended", message);
  clear_condition(pass, condition::kStalled, "Suspended", message);
  clear_condition(pass, condition::kPreempted, "Suspended", message);
  pass.say("Suspended", message);
}

}  // namespace

std::string not_ended(int workers) {
  return std::to_string(workers) + (workers == 1 ? " worker has" : " workers have") +
         " not ended yet";
}

void ask_to_stop(Pass& pass) {
  if (pass.group == nullptr || pass.group->spec.is_stopping || pass.group->meta.deletion_time)
    return;
  WorkerGroupSpec after = pass.group->spec;
  after.is_stopping = true;
  const ObjectMeta& meta = pass.group->meta;
  pass.acts.push_back(PatchGroup{meta.uid, meta.resource_version, pass.group->spec, after});
}

// Once begun it is carried through, also if the user has changed their mind meanwhile: what is half
// stopped is resumed as a new attempt, never stitched together.
bool is_suspending(const Pass& pass) {
  if (pass.job.spec.is_suspended || is_mutant(Mutant::kB07EdgeTriggered)) {
    return pass.job.spec.is_suspended;
  }
  const Condition* suspended = find_condition(pass.job.status, condition::kSuspended);
  return suspended != nullptr && suspended->status != "True" && suspended->reason == kSuspending;
}

namespace {

// A list of jobs may be older than what is seen of this one, and it has been resumed since: then
// the write that takes note of the later attempt is refused, and nothing of that was stopped.
bool notes_later_attempt(Pass& pass) {
  const std::int64_t in_record = pass.group != nullptr ? pass.group->spec.attempt : 0;
  const std::int64_t highest = std::max(pass.pods.attempt_max, in_record);
  if (highest <= pass.job.status.attempt) return false;
  pass.next.attempt = highest;
  const std::string message = "suspending; there is an attempt " + std::to_string(highest);
  if (!is_true(pass.next, condition::kSuspended))
    set_condition(pass, condition::kSuspended, "False", kSuspending, message);
  pass.is_status_due = true;
  pass.say(kSuspending, message);
  return true;
}

}  // namespace

void suspend(Pass& pass) {
  if (notes_later_attempt(pass)) return;
  if (!pass.pods.has_active()) return settle(pass);
  const std::string message = "suspending; " + not_ended(pass.pods.active_sum());
  if (!is_true(pass.next, condition::kSuspended)) {
    set_condition(pass, condition::kSuspended, "False", kSuspending, message);
    if (is_mutant(Mutant::kB44Contradiction)) return pass.delete_all();
    clear_condition(pass, condition::kRunning, kSuspending, message);
    if (pass.report != nullptr) clear_condition(pass, condition::kRestarting, kSuspending, message);
  }
  pass.say(kSuspending, message);
  auto deadline = saving_deadline(pass, kSuspending);
  if (!deadline) deadline = saving_deadline(pass, kPreempting);  // it saves already
  if (!deadline || pass.now_exact >= *deadline) return pass.delete_all();
  ask_to_stop(pass);
  pass.delete_superseded();
  pass.wake(*deadline);
}

}  // namespace pawl::core
