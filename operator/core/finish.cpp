#include "common/base/check.h"
#include "common/base/mutant.h"
#include "operator/core/steps.h"
#include "operator/core/stop_steps.h"

namespace pawl::core {
namespace {

using namespace api;

void delete_active_before(Pass& pass) {
  for (const auto* workers : {&pass.pods.previous, &pass.pods.replaced, &pass.pods.leaving}) {
    for (const Worker& worker : *workers) {
      if (!is_terminal(*worker.pod)) pass.delete_pod(*worker.pod);
    }
  }
}

void delete_active(Pass& pass) {
  for (const Worker& worker : pass.pods.current) {
    if (!is_terminal(*worker.pod)) pass.delete_pod(*worker.pod);
  }
  delete_active_before(pass);
}

std::string restarts_text(const Restarts& restarts) {
  const int total = restarts.counted + restarts.free;
  if (total == 0) return "";
  return " after " + std::to_string(total) + (total == 1 ? " restart" : " restarts");
}

void write_end(Pass& pass, const char* type, const std::string& reason,
               const std::string& message) {
  set_condition(pass, type, "True", reason, message);
  clear_condition(pass, condition::kRunning, reason, message);
  clear_condition(pass, condition::kRestarting, reason, message);
  clear_condition(pass, condition::kSuspended, reason, message);
  clear_condition(pass, condition::kStalled, reason, message);
  clear_condition(pass, condition::kPreempted, reason, message);
  pass.next.completion_time = pass.now;
  pass.emit(type == std::string(condition::kFailed), type, message);
}

// A pod whose worker has ended becomes terminal by itself, and keeps its log, unless a container
// beside the worker runs on.
void delete_running(Pass& pass, const Condition& decided) {
  const TimePoint due = decided.last_transition_time.value_or(pass.now) + pass.policy.culprit_wait;
  for (const Worker& worker : pass.pods.current) {
    if (is_terminal(*worker.pod)) continue;
    if (outcome_of(*worker.pod) != Outcome::kNone && pass.now_exact < due) {
      pass.wake(due);
    } else {
      pass.delete_pod(*worker.pod);
    }
  }
  delete_active_before(pass);
}

// cleanPodPolicy None: the workers are told to stop and keep their pods, for a bounded time. The
// anchor is the moment when the end was decided.
bool is_left_to_stop(Pass& pass, const Condition& decided) {
  const bool is_asked = pass.job.spec.clean_pod_policy == CleanPodPolicy::kNone &&
                        pass.current_group != nullptr && !pass.current_group->meta.deletion_time;
  if (!is_asked || !decided.last_transition_time) return false;
  const TimePoint deadline = *decided.last_transition_time + pass.policy.suspend_grace;
  if (pass.now_exact >= deadline) return false;
  ask_to_stop(pass);
  pass.wake(deadline);
  return true;
}

// Ranks go by slot where no generation is on record.
bool has_rank0_succeeded(const Pass& pass) {
  if (pass.report != nullptr && pass.report->is_finished) return true;
  if (pass.report != nullptr) {
    for (const Member& member : pass.report->members) {
      if (member.rank != 0) continue;
      return std::ranges::any_of(pass.pods.current, [&](const Worker& worker) {
        return worker.pod->meta.uid == member.ref.uid &&
               outcome_of(*worker.pod) == Outcome::kSucceeded;
      });
    }
  }
  const PodView* pod = pass.pods.at(0);
  return pod != nullptr && outcome_of(*pod) == Outcome::kSucceeded;
}

bool is_rank0_enough(const Pass& pass) {
  return pass.job.spec.success_policy == SuccessPolicy::kRank0;
}

bool has_member_in(const Pass& pass, int slot) {
  return std::ranges::find(pass.report->members, slot, &Member::slot) != pass.report->members.end();
}

// A member that is to leave, and may hold the last shard of the last checkpoint.
bool has_leaving_member(const Pass& pass) {
  return std::ranges::any_of(pass.pods.leaving, [&](const Worker& worker) {
    return pass.is_member(worker.pod->meta.uid) && outcome_of(*worker.pod) != Outcome::kSucceeded;
  });
}

}  // namespace

bool has_succeeded(const Pass& pass) {
  if (is_rank0_enough(pass)) return pass.job.status.attempt > 0 && has_rank0_succeeded(pass);
  const bool is_finished = pass.report != nullptr && pass.report->is_finished;
  if (pass.job.status.attempt == 0 || (pass.pods.succeeded == 0 && !is_finished)) return false;
  if (!is_finished && has_leaving_member(pass)) return false;
  for (int slot = 0; slot < pass.size(); ++slot) {
    const PodView* pod = pass.pods.at(slot);
    // One that was to come in, and was not waited for.
    if (is_finished && !has_member_in(pass, slot)) continue;
    // The gang passed its closing barrier; a pod that was tidied away afterwards changes nothing.
    if (pod == nullptr && is_finished && pass.pods.active == 0) continue;
    if (is_mutant(Mutant::kI9EarlySuccess)) continue;
    if (pod == nullptr || outcome_of(*pod) != Outcome::kSucceeded) return false;
  }
  return true;
}

void begin_success(Pass& pass) {
  const std::string who = is_rank0_enough(pass) ? "the worker of rank 0"
                                                : "all " + std::to_string(pass.size()) + " workers";
  const std::string message = who + " succeeded" + restarts_text(pass.next.restarts);
  set_condition(pass, condition::kSuccessCriteriaMet, "True",
                is_rank0_enough(pass) ? "Rank0" : "AllRanks", message);
  finish(pass);
}

void begin_failure(Pass& pass, const std::string& reason, const std::string& message) {
  set_condition(pass, condition::kFailureTarget, "True", reason, message);
  finish(pass);
}

void finish(Pass& pass) {
  const bool is_success = is_true(pass.next, condition::kSuccessCriteriaMet);
  const Condition cause_of_end = *find_condition(
      pass.next, is_success ? condition::kSuccessCriteriaMet : condition::kFailureTarget);
  pass.say(cause_of_end.reason, cause_of_end.message);
  const bool keeps = is_mutant(Mutant::kB27FinishedKeepsPods);
  if (pass.pods.has_active() && !keeps && is_left_to_stop(pass, cause_of_end)) return;
  if (!keeps) delete_running(pass, cause_of_end);
  if (pass.pods.has_active() && !keeps) return;
  write_end(pass, is_success ? condition::kComplete : condition::kFailed, cause_of_end.reason,
            cause_of_end.message);
}

// The time of the end, which the time to live counts from. It was written with the condition; who
// takes it out of the status does not make the job live for ever.
TimePoint end_time(Pass& pass) {
  if (!pass.next.completion_time) {
    const bool is_success = is_true(pass.next, condition::kComplete);
    const Condition& end =
        *find_condition(pass.next, is_success ? condition::kComplete : condition::kFailed);
    pass.next.completion_time = end.last_transition_time.value_or(pass.now);
  }
  return *pass.next.completion_time;
}

void after_end(Pass& pass) {
  if (pass.job.spec.clean_pod_policy == CleanPodPolicy::kAll) {
    pass.delete_all();
  } else if (!is_mutant(Mutant::kB27FinishedKeepsPods)) {
    delete_active(pass);
  }
  PAWL_CHECK(!is_mutant(Mutant::kB10AbsentField) || pass.job.status.completion_time, "B10");
  const TimePoint ended = end_time(pass);
  const auto& ttl = pass.job.spec.ttl_seconds_after_finished;
  if (is_mutant(Mutant::kB31ZeroIsAbsent) && ttl && *ttl == 0) return;
  if (!ttl || !pass.job.status.completion_time) return;
  const TimePoint due = ended + std::chrono::seconds{*ttl};
  if (pass.now_exact < due) return pass.wake(due);
  pass.acts.push_back(DeleteJob{pass.job.meta.uid, pass.job.meta.resource_version});
}

}  // namespace pawl::core
