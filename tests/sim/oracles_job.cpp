// Oracles over what the operator writes into a job's status.
#include <algorithm>

#include "common/api/codec.h"
#include "operator/core/failures.h"
#include "tests/sim/oracles.h"

namespace pawl::sim {

using namespace api;  // NOLINT: this file reads its types and nothing else.
using nlohmann::json;

bool is_true(const TrainingJob& job, const char* type) {
  return std::ranges::any_of(job.status.conditions, [&](const Condition& condition) {
    return condition.type == type && condition.status == "True";
  });
}

namespace {

const Condition* find(const TrainingJob& job, const char* type) {
  for (const Condition& condition : job.status.conditions) {
    if (condition.type == type) return &condition;
  }
  return nullptr;
}

bool is_over(const TrainingJob& job) {
  return is_true(job, condition::kComplete) || is_true(job, condition::kFailed);
}

bool becomes(const TrainingJob& before, const TrainingJob& after, const char* type) {
  return is_true(after, type) && !is_true(before, type);
}

bool is_suspending(const TrainingJob& job) {
  const Condition* found = find(job, condition::kSuspended);
  return found != nullptr && found->status != "True" && found->reason == "Suspending";
}

// What a completion time that somebody took away is written anew from.
std::optional<TimePoint> end_time(const TrainingJob& job) {
  const bool is_success = is_true(job, condition::kComplete);
  const Condition* end = find(job, is_success ? condition::kComplete : condition::kFailed);
  return end == nullptr ? std::nullopt : end->last_transition_time;
}

// In this write its new attempt begins, for another job.
bool has_left_for_another(const TrainingJob& before, const TrainingJob& after) {
  const Condition* left = find(after, condition::kPreempted);
  if (left == nullptr || left->reason != "Left") return false;
  const Condition* known = find(before, condition::kPreempted);
  return known == nullptr || known->message != left->message || known->status == "True";
}

std::string increased_cause(const Restarts& before, const Restarts& after) {
  for (const auto& [cause, count] : after.by_cause) {
    const auto found = before.by_cause.find(cause);
    if (found == before.by_cause.end() || found->second < count) return cause;
  }
  return "";
}

}  // namespace

Oracles::Standing Oracles::standing_of(const TrainingJob& job) {
  if (!job.spec.scheduling) return {};
  const Scheduling& scheduling = *job.spec.scheduling;
  return {scheduling.queue_name, scheduling.priority_class_name == kUrgent ? kUrgency : 0};
}

// One of them over that one.
bool Oracles::has_right_over(const std::set<Standing>& wishes, const Standing& own) {
  return std::ranges::any_of(wishes, [&](const Standing& one) {
    const bool is_within = one.queue == own.queue && one.priority > own.priority;
    return is_within || (!one.queue.empty() && !own.queue.empty() && one.queue != own.queue);
  });
}

void Oracles::on_job_written(const local::Change& change) {
  if (const auto now = decode_training_job(*change.after))
    standings_[now->meta.name].insert(standing_of(*now));
  if (change.before == nullptr) return;
  const auto before = decode_training_job(*change.before);
  const auto after = decode_training_job(*change.after);
  if (!before || !after) return fail("O13", "the operator wrote a job that cannot be read");
  const JobTruth& truth = truth_.jobs[after->meta.uid];
  const JobWrite write{*before, *after, truth, truth_.of(after->meta.uid, before->status.attempt)};
  i09_success_is_everybodys(write);
  i09_ends_when_nothing_runs(write);
  i15_transitions_are_changes(write);
  i21_report_is_of_this_attempt(write);
  o11_conditions_agree(write);
  i42_moves_have_reasons(write);
  i38_recoveries_are_told(write);
  i39_time_is_accounted(write);
  if (truth.was_status_cut) return;  // what somebody else took away cannot be compared
  i01_attempt_grows(write);
  i06_counters_add_up(write);
  o07_restarts_have_causes(write);
  o07_ends_have_causes(write);
  i08_no_victim_is_blamed(write);
  i10_terminal_is_final(write);
  i19_suspension_is_carried_through(write);
  i45_preemption_has_a_reason(write);
  i45_preemption_is_carried_through(write);
  i45_shrinking_has_a_reason(write);
  i52_has_waited(write);
  i53_slices_are_whole(write);
  i20_resume_is_a_new_start(write);
  i40_broken_node_is_avoided(write);
  i41_spot_is_avoided_for_a_while(write);
}

// One slow worker at a time is told to leave, if a rule says so, and not soon after another.
void Oracles::i42_moves_have_reasons(const JobWrite& write) {
  constexpr std::chrono::minutes kBetween{5};
  const auto is_old = [&](const ExcludedNode& node) {
    return std::ranges::find(write.before.status.excluded_nodes, node.name, &ExcludedNode::name) !=
           write.before.status.excluded_nodes.end();
  };
  for (const ExcludedNode& node : write.after.status.excluded_nodes) {
    if (node.cause != core::cause::kStraggler || is_old(node)) continue;
    if (write.after.spec.failure_rules.empty())
      fail("I42", node.name + " is avoided without a rule");
    const local::Object pod =
        node.pods.size() == 1 ? api_.find(kube::resources::kPods, node.pods.front()) : nullptr;
    if (node.pods.size() != 1) fail("I42", node.name + " is avoided for no worker");
    if (pod != nullptr && !write.truth.slow.contains(text_at_pointer(*pod, "/metadata/uid")))
      fail("I42", node.pods.front() + " is told to leave and was never slow");
    for (const ExcludedNode& other : write.before.status.excluded_nodes) {
      const bool is_soon = other.cause == node.cause && *node.time < *other.time + kBetween;
      if (is_soon && knobs_.clock_step == 0) fail("I42", "two workers are moved within 5 minutes");
    }
  }
}

void Oracles::i01_attempt_grows(const JobWrite& write) {
  if (write.after.status.attempt < write.before.status.attempt) {
    fail("I1", "status.attempt went back to " + std::to_string(write.after.status.attempt));
  }
}

void Oracles::i06_counters_add_up(const JobWrite& write) {
  const Restarts& before = write.before.status.restarts;
  const Restarts& after = write.after.status.restarts;
  int sum = 0;
  for (const auto& [cause, count] : after.by_cause) sum += count;
  if (after.counted + after.free != sum) fail("I6", "counted + free is not the sum of byCause");
  const int more = after.counted + after.free - before.counted - before.free;
  if (after.counted < before.counted || after.free < before.free || more > 1) {
    fail("O7", "restarts went from " + std::to_string(before.counted) + "+" +
                   std::to_string(before.free) + " to " + std::to_string(after.counted) + "+" +
                   std::to_string(after.free) + " in one write");
  }
  if (more == 1 && write.after.status.attempt == write.before.status.attempt) {
    fail("I5", "a restart was counted without a new attempt");
  }
}

// Each new attempt but the first and the resumed has a cause that really happened, and is counted
// only if the job itself was at fault.
void Oracles::o07_restarts_have_causes(const JobWrite& write) {
  const TrainingJobStatus& before = write.before.status;
  const TrainingJobStatus& after = write.after.status;
  const bool is_start = before.attempt == 0 || is_true(write.before, condition::kSuspended);
  if (after.attempt == before.attempt || is_start) return;
  const std::string cause = increased_cause(before.restarts, after.restarts);
  const AttemptTruth& truth = write.attempt;
  const std::string which = "attempt " + std::to_string(before.attempt) + " of " +
                            write.after.meta.name + " ended with cause " + cause;
  if (cause.empty()) return fail("O7", which + ": a restart that is not counted at all");
  if (cause == core::cause::kResized) {
    if (write.truth.edits == 0) fail("O7", which + ", but nobody changed the job");
    return;
  }
  if (after.restarts.counted > before.restarts.counted) {
    if (truth.faults + truth.noise == 0) {
      fail("O7", which + " and was counted, but the job did nothing wrong");
    }
    return;
  }
  if (cause == core::cause::kPreempted && has_left_for_another(write.before, write.after)) return;
  if (cause == core::cause::kStartTimeout) return i46_start_had_its_time(write);
  if (cause == core::cause::kNodesTimeout) return i52_nodes_had_their_time(write);
  if (cause == core::cause::kRecordLost) {
    if (truth.records + truth.noise == 0) fail("O7", which + ", but nobody touched the record");
    return;
  }
  // Another size may meet a gang in the moment when it is through.
  const bool is_change =
      cause == core::cause::kRetry && truth_.is_resized(write.after.meta.uid, before.attempt);
  if (!truth.is_any() && !is_change) return fail("O7", which + ", but nothing happened to it");
  const int excuses = truth.disruptions + truth.records + truth.noise + truth.retries;
  if (truth.faults > 0 && excuses == 0) fail("O7", which + " was not counted, but it is a fault");
}

void Oracles::o07_ends_have_causes(const JobWrite& write) {
  if (!becomes(write.before, write.after, condition::kFailureTarget)) return;
  const std::string reason = find(write.after, condition::kFailureTarget)->reason;
  const AttemptTruth& truth = write.attempt;
  if (reason == "FatalExit" && truth.fatal == 0) fail("O7", "FatalExit, but no process said so");
  if (reason == "MaxRestartsReached") {
    if (write.after.status.restarts.counted < write.after.spec.max_restarts) {
      fail("I5", "MaxRestartsReached with restarts left");
    }
    if (truth.faults + truth.noise == 0) fail("O7", "MaxRestartsReached without a fault");
  }
  if (reason == "NoProgress" && write.after.status.restarts.without_progress < 3) {
    fail("I12", "NoProgress after fewer than three attempts");
  }
}

void Oracles::i08_no_victim_is_blamed(const JobWrite& write) {
  const bool is_counted =
      write.after.status.restarts.counted > write.before.status.restarts.counted;
  const auto& failure = write.after.status.last_failure;
  if (is_counted && failure && failure->cause == core::cause::kVictim) {
    fail("I8", "a victim is blamed: " + failure->pod);
  }
}

void Oracles::i09_success_is_everybodys(const JobWrite& write) {
  if (!becomes(write.before, write.after, condition::kSuccessCriteriaMet)) return;
  const local::Object group = group_of(write.after.meta.uid);
  const auto decoded = group ? decode_worker_group(*group) : fail_with({}, "no group");
  if (!decoded) return;
  const WorkerGroupStatus& gang = decoded->status;
  const bool is_told = gang.is_finished && gang.attempt == decoded->spec.attempt;
  for (const EligiblePod& pod : decoded->spec.pods) {
    if (pod.uid.empty() || write.truth.succeeded.contains(pod.uid)) continue;
    // Those that were to come in are not missed by a gang that has finished, nor those that leave.
    const bool is_member = std::ranges::any_of(
        gang.members, [&](const Member& member) { return member.ref.uid == pod.uid; });
    if (is_told ? !is_member : pod.slot >= decoded->spec.target_members) continue;
    fail("I9", "SuccessCriteriaMet, but pod " + pod.name + " has not succeeded");
  }
}

void Oracles::i09_ends_when_nothing_runs(const JobWrite& write) {
  if (!becomes(write.before, write.after, condition::kComplete) &&
      !becomes(write.before, write.after, condition::kFailed)) {
    return;
  }
  const int active = noticed_pods(write.after.meta.uid);
  if (active > 0) fail("I9", "the job has ended and " + std::to_string(active) + " pods run on");
  if (!write.after.status.completion_time) fail("I9", "the job has ended at no time");
}

void Oracles::i10_terminal_is_final(const JobWrite& write) {
  if (!is_over(write.before)) return;
  const TrainingJobStatus& before = write.before.status;
  const TrainingJobStatus& after = write.after.status;
  const bool is_same = before.phase == after.phase && before.attempt == after.attempt &&
                       before.restarts == after.restarts && before.recoveries == after.recoveries &&
                       before.goodput == after.goodput &&
                       after.completion_time == (before.completion_time ? before.completion_time
                                                                        : end_time(write.after)) &&
                       before.conditions.size() == after.conditions.size() && is_over(write.after);
  if (!is_same) fail("I10", "a status that was final has changed");
}

void Oracles::i15_transitions_are_changes(const JobWrite& write) {
  for (const Condition& after : write.after.status.conditions) {
    const Condition* before = find(write.before, after.type.c_str());
    if (before == nullptr) continue;
    const bool is_other = before->status != after.status;
    if (!is_other && before->last_transition_time != after.last_transition_time) {
      fail("I15", after.type + ": lastTransitionTime changed without a transition");
    }
  }
}

void Oracles::i19_suspension_is_carried_through(const JobWrite& write) {
  // Not where lists are older than each other (as in i03).
  if (!knobs_.may_list_stale && becomes(write.before, write.after, condition::kSuspended) &&
      noticed_pods(write.after.meta.uid) > 0) {
    fail("I19", "Suspended while pods run");
  }
  const bool is_ending = is_true(write.after, condition::kSuccessCriteriaMet) ||
                         is_true(write.after, condition::kFailureTarget) || is_over(write.after);
  if (is_suspending(write.before) && !is_suspending(write.after) &&
      !is_true(write.after, condition::kSuspended) && !is_ending) {
    fail("I19", "a suspension that had begun was dropped");
  }
}

// Whoever asks may be gone again, and may have been another one of that name: of all that ever had
// it one must have had the right.
void Oracles::i45_preemption_has_a_reason(const JobWrite& write) {
  const bool is_told = becomes(write.before, write.after, condition::kPreempted) ||
                       (has_left_for_another(write.before, write.after) &&
                        !is_true(write.before, condition::kPreempted));
  if (!is_told) return;
  const std::string& message = find(write.after, condition::kPreempted)->message;
  const auto end = message.find(' ', message.find('/'));
  const auto start = message.rfind('/', end) + 1;
  const auto wishes = standings_.find(message.substr(start, end - start));
  if (wishes == standings_.end() || !has_right_over(wishes->second, standing_of(write.after)))
    fail("I45", write.after.meta.name + " leaves without a reason: " + message);
}

// The write is refused if the job is not as it was seen.
void Oracles::i45_shrinking_has_a_reason(const JobWrite& write) {
  const auto count = [](const std::vector<PlacedPod>& pods, bool is_any) {
    return std::ranges::count_if(pods, [&](const PlacedPod& pod) {
      return pod.node == kGivenUp && (is_any || pod.cause == kCausePreempted);
    });
  };
  const std::vector<PlacedPod>& before = write.before.status.placement.later;
  const std::vector<PlacedPod>& after = write.after.status.placement.later;
  if (count(after, false) <= count(before, false)) return;
  const TrainingJobSpec& spec = write.after.spec;
  const bool may_shrink = spec.elastic && spec.elastic->on_shortage == OnShortage::kShrink;
  const int least = may_shrink ? spec.elastic->min_replicas : spec.replicas;
  const int spares = spec.scheduling ? spec.scheduling->spares : 0;
  const auto left = spec.replicas + spares - count(after, true);
  if ((!may_shrink && spares == 0) || left < least)
    fail("I45", write.after.meta.name + " is to go on with " + std::to_string(left) + " workers");
  const Standing own = standing_of(write.after);
  const bool is_right = std::ranges::any_of(
      standings_, [&](const auto& entry) { return has_right_over(entry.second, own); });
  if (!is_right) fail("I45", write.after.meta.name + " becomes smaller for nobody");
}

void Oracles::i45_preemption_is_carried_through(const JobWrite& write) {
  const bool is_dropped =
      is_true(write.before, condition::kPreempted) && !is_true(write.after, condition::kPreempted);
  const bool has_end = is_over(write.after) || is_true(write.after, condition::kSuspended) ||
                       write.after.status.attempt > write.before.status.attempt;
  if (is_dropped && !has_end) fail("I45", write.after.meta.name + " was to leave, and stays");
  if (write.before.status.attempt == write.after.status.attempt) return;
  const bool was_to_leave = is_true(write.before, condition::kPreempted);
  if (was_to_leave && is_true(write.after, condition::kPreempted))
    fail("I45", write.after.meta.name + " leaves again in its new attempt");
}

void Oracles::i20_resume_is_a_new_start(const JobWrite& write) {
  const TrainingJobStatus& before = write.before.status;
  const TrainingJobStatus& after = write.after.status;
  const bool is_resumed = is_true(write.before, condition::kSuspended) &&
                          !is_true(write.after, condition::kSuspended) && !is_over(write.after);
  if (!is_resumed) return;
  if (after.attempt <= before.attempt) fail("I20", "resumed in the old attempt");
  if (before.restarts.counted != after.restarts.counted ||
      before.restarts.free != after.restarts.free) {
    fail("I20", "a resume was counted as a restart");
  }
}

// In the write that tells of the fault, and not for ever; it is never the job's own.
void Oracles::i40_broken_node_is_avoided(const JobWrite& write) {
  const TrainingJobStatus& before = write.before.status;
  const TrainingJobStatus& after = write.after.status;
  const auto& failure = after.last_failure;
  if (!failure || !core::cause::is_for_a_while(failure->cause) || knobs_.prunes) return;
  if (after.restarts.counted > before.restarts.counted)
    fail("I40", failure->cause + " of node " + failure->node + " spends a restart");
  const bool is_new = !before.last_failure || before.last_failure->pod_uid != failure->pod_uid ||
                      before.last_failure->cause != failure->cause;
  if (!is_new || failure->node.empty()) return;
  const auto node = std::ranges::find(after.excluded_nodes, failure->node, &ExcludedNode::name);
  if (node == after.excluded_nodes.end())
    return fail("I40", "node " + failure->node + " has " + failure->cause + ", and is not avoided");
  constexpr std::chrono::hours kLongest{1};
  if (core::cause::is_for_a_while(node->cause) &&
      (!node->until || !node->time || *node->until - *node->time > kLongest))
    fail("I40", "node " + failure->node + " is in quarantine for too long");
}

void Oracles::i21_report_is_of_this_attempt(const JobWrite& write) {
  if (!write.after.status.progress || write.after.status.progress == write.before.status.progress) {
    return;
  }
  const local::Object group = group_of(write.after.meta.uid);
  const auto decoded = group ? decode_worker_group(*group) : fail_with({}, "no group");
  if (decoded && decoded->status.attempt != write.before.status.attempt) {
    fail("I21", "progress of attempt " + std::to_string(decoded->status.attempt) +
                    " stands in attempt " + std::to_string(write.before.status.attempt));
  }
}

void Oracles::o11_conditions_agree(const JobWrite& write) {
  const TrainingJob& job = write.after;
  const bool is_running = is_true(job, condition::kRunning);
  if (is_running && is_true(job, condition::kSuspended)) fail("O11", "Running and Suspended");
  if (is_running && is_over(job)) fail("O11", "Running and over");
  if (is_true(job, condition::kComplete) && is_true(job, condition::kFailed)) {
    fail("O11", "Complete and Failed");
  }
  if (is_true(job, condition::kSuspended) && job.status.ready_replicas > 0) {
    fail("O11", "Suspended with ready replicas");
  }
}

}  // namespace pawl::sim
