// A job that has to give its nodes to another one. Who decides that is the placer
// (controller/preemptor.h); from the condition on it is carried through, whatever becomes of the
// other one.
#include "common/base/mutant.h"
#include "operator/core/steps.h"
#include "operator/core/stop_steps.h"

namespace pawl::core {
namespace {

using namespace api;

constexpr char kLeaving[] = "Leaving";

}  // namespace

bool is_preempted(const Pass& pass) {
  if (is_true(pass.job.status, condition::kPreempted) && !is_mutant(Mutant::kI45Forgotten))
    return true;
  const Seating* seating = pass.seen.seating;
  return seating != nullptr && !seating->leave_why.empty();
}

bool has_made_room(const Pass& pass) {
  const Condition* left = find_condition(pass.job.status, condition::kPreempted);
  return left != nullptr && left->reason == "Left" && left->last_transition_time &&
         left->last_transition_time == pass.job.status.attempt_time;
}

void make_room(Pass& pass) {
  const bool is_news = !is_true(pass.job.status, condition::kPreempted);
  if (is_news) {
    const std::string& why = pass.seen.seating->leave_why;
    set_condition(pass, condition::kPreempted, "True", kLeaving, why);
    pass.emit(false, condition::kPreempted, why);
    clear_condition(pass, condition::kRunning, kPreempting, why);
    if (pass.report != nullptr) clear_condition(pass, condition::kRestarting, kPreempting, why);
  }
  const std::string why = find_condition(pass.next, condition::kPreempted)->message;
  if (!is_news && !pass.pods.has_active()) {
    return restart(pass, {cause::kPreempted, why + "; this restart is free"});
  }
  pass.say(condition::kPreempted, why + "; " + not_ended(pass.pods.active_sum()));
  const auto deadline = saving_deadline(pass, kPreempting);
  if (!deadline || pass.now_exact >= *deadline) return pass.delete_all();
  ask_to_stop(pass);
  pass.delete_superseded();
  pass.wake(*deadline);
}

}  // namespace pawl::core
