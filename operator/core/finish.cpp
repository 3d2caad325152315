#include <algorithm>
#include <ranges>

#include "common/base/check.h"
#include "common/base/mutant.h"
#include "operator/core/evidence.h"
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

bool is_rank0_enough(const Pass& pass) {
  return pass.job.spec.success_policy == SuccessPolicy::kRank0;
}

bool has_trained_to_end(const Pass& pass) {
  return pass.report != nullptr && pass.report->is_finished;
}

// Its launcher has heard that all are through, or will; with Rank0 others may train on.
bool is_through(const Pass& pass, const PodView& pod) {
  if (outcome_of(pod) != Outcome::kNone) return true;
  const int rank = has_trained_to_end(pass) ? rank_of(pass, pod.meta.uid) : -1;
  return is_rank0_enough(pass) ? rank == 0 : rank >= 0;
}

// A pod whose worker is through becomes terminal by itself, and keeps its log, unless a container
// beside the worker runs on.
bool is_left_to_end(Pass& pass, const PodView& pod, const Condition& decided) {
  const TimePoint due = decided.last_transition_time.value_or(pass.now) + pass.policy.culprit_wait;
  if (is_terminal(pod) || !is_through(pass, pod) || pass.now_exact >= due) return false;
  pass.wake(due);
  return true;
}

void delete_running(Pass& pass, const Condition& decided) {
  for (const Worker& worker : pass.pods.current) {
    const PodView& pod = *worker.pod;
    if (!is_terminal(pod) && !is_left_to_end(pass, pod, decided)) pass.delete_pod(pod);
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
  pass.wake(deadline);
  // A worker that is asked to stop does not end as one that is through.
  const bool are_ending =
      has_trained_to_end(pass) && std::ranges::any_of(pass.pods.current, [&](const Worker& worker) {
        return is_left_to_end(pass, *worker.pod, decided);
      });
  if (!are_ending) ask_to_stop(pass);
  return true;
}

// Whose slot has the first rank, where no generation is on record.
int first_slot(const Pass& pass) {
  if (pass.current_group == nullptr) return 0;
  auto places = pass.current_group->spec.pods | std::views::filter([&](const EligiblePod& place) {
                  return place.slot < pass.size();
                });
  const auto first = std::ranges::min_element(places, {}, rank_key);
  return first == places.end() ? 0 : first->slot;
}

bool has_rank0_succeeded(const Pass& pass) {
  if (pass.report != nullptr) {
    for (const Member& member : pass.report->members) {
      if (member.rank != 0) continue;
      return std::ranges::any_of(pass.pods.current, [&](const Worker& worker) {
        return worker.pod->meta.uid == member.ref.uid &&
               outcome_of(*worker.pod) == Outcome::kSucceeded;
      });
    }
  }
  const PodView* pod = pass.pods.at(first_slot(pass));
  return pod != nullptr && outcome_of(*pod) == Outcome::kSucceeded;
}

bool has_succeeded_as(const Pass& pass, const EligiblePod& place) {
  for (const auto* workers : {&pass.pods.current, &pass.pods.leaving}) {
    for (const Worker& worker : *workers) {
      if (worker.pod->meta.uid == place.uid) return outcome_of(*worker.pod) == Outcome::kSucceeded;
    }
  }
  return false;
}

// One that is to leave may hold the last shard of the last checkpoint; of one that is not seen
// nobody knows. Who has a successor is a member no more.
bool has_member_left(const Pass& pass) {
  return std::ranges::any_of(pass.group->spec.pods, [&](const EligiblePod& place) {
    return pass.is_member(place.uid) && !has_succeeded_as(pass, place);
  });
}

// Without a node it has never been a member. Of a place that nobody has the last one is lost, and
// known to be.
bool has_never_started(const EligiblePod& place, const PodView* pod) {
  return pod == nullptr ? place.uid.empty() : place.n == 0 && pod->node.empty();
}

// Where no generation is on record, a spare that waits looks like a member, and the gang may have
// been larger than it is to be.
bool has_anybody_left(const Pass& pass) {
  if (pass.report != nullptr && !pass.report->members.empty()) return has_member_left(pass);
  if (pass.current_group == nullptr) {
    return std::ranges::any_of(pass.pods.current, [](const Worker& worker) {
      return outcome_of(*worker.pod) != Outcome::kSucceeded;
    });
  }
  return std::ranges::any_of(pass.current_group->spec.pods, [&](const EligiblePod& place) {
    const PodView* pod = pass.pods.at(place.slot);
    const bool is_through = pod != nullptr && outcome_of(*pod) == Outcome::kSucceeded;
    return place.slot < pass.size() && !is_through && !has_never_started(place, pod);
  });
}

}  // namespace

// The gang's word that it has trained to the end is enough: how its pods end after it changes
// nothing, nor do those that were to come in.
bool has_succeeded(const Pass& pass) {
  if (pass.job.status.attempt == 0) return false;
  if (has_trained_to_end(pass)) return true;
  if (is_rank0_enough(pass)) return has_rank0_succeeded(pass);
  if (pass.pods.succeeded == 0) return false;
  if (is_mutant(Mutant::kI9EarlySuccess)) return true;
  return pass.pods.succeeded >= pass.gang_size() && !has_anybody_left(pass);
}

void begin_success(Pass& pass) {
  const auto count = has_trained_to_end(pass) ? pass.report->members.size()
                                              : static_cast<std::size_t>(pass.gang_size());
  const std::string who =
      is_rank0_enough(pass) ? "the worker of rank 0" : "all " + std::to_string(count) + " workers";
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
