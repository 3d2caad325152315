#include <algorithm>

#include "common/base/mutant.h"
#include "operator/core/node_steps.h"
#include "operator/core/steps.h"

namespace pawl::core {
namespace {

using namespace api;

constexpr char kWaitingForRoom[] = "WaitingForRoom";

// Pods of before give their places back first, so that those may be taken again; and a back-off
// keeps no room from others.
bool may_take_seats(const Pass& pass) {
  const bool are_others_gone = pass.pods.previous_active == 0 && pass.pods.leftover_active == 0;
  const auto allowed_at = creation_time(pass);
  return are_others_gone && (!allowed_at || pass.now_exact >= *allowed_at);
}

// What the scheduler refuses again and again has a reason that is not seen here.
bool is_left_to_scheduler(const Pass& pass) {
  constexpr int kMovesMax = 3;
  const auto& moves = pass.job.status.restarts.by_cause;
  const auto found = moves.find(cause::kUnschedulable);
  return pass.seen.seating == nullptr || (found != moves.end() && found->second >= kMovesMax);
}

bool has_seats(const Pass& pass) {
  const PlacementStatus& placement = pass.job.status.placement;
  return placement.attempt == pass.job.status.attempt &&
         workers_of(placement) == pass.job.spec.replicas;
}

void say_no_room(Pass& pass, const std::string& obstacle) {
  const Condition* running = find_condition(pass.next, condition::kRunning);
  if (running == nullptr || running->reason != kWaitingForRoom)
    pass.emit(false, kWaitingForRoom, obstacle);
  set_condition(pass, condition::kRunning, "False", kWaitingForRoom, obstacle);
  pass.say(kWaitingForRoom, obstacle);
}

}  // namespace

bool waits_for_seats(Pass& pass) {
  const Seating* seating = pass.seen.seating;
  if (is_left_to_scheduler(pass) || has_begun(pass) || !may_take_seats(pass)) return false;
  if (has_seats(pass) && !seating->is_void) return false;
  if (is_mutant(Mutant::kI43Unplaced)) return false;
  if (!has_buildable_template(pass)) return true;
  if (seating->offer) {
    pass.next.placement = *seating->offer;
    pass.is_status_due = true;
    const std::string on = std::to_string(seating->offer->nodes.size()) +
                           (seating->offer->nodes.size() == 1 ? " node" : " nodes");
    const std::string message =
        "starting " + std::to_string(workers_of(*seating->offer)) + " workers on " + on;
    const Condition* running = find_condition(pass.next, condition::kRunning);
    if (running != nullptr && running->reason == kWaitingForRoom)
      set_condition(pass, condition::kRunning, "False", "Starting", message);
    pass.say("Starting", message);
    return true;
  }
  if (seating->obstacle.empty()) {
    pass.asks_for_seats = true;
  } else {
    pass.next.placement = {};  // what stands there is void, or of before
    say_no_room(pass, seating->obstacle);
  }
  return true;
}

// What was free is not, or was never: whoever decides may not see why, so the node is avoided for a
// while. Where a gang runs, those that are to come in wait for the scheduler.
bool leaves_seats(Pass& pass) {
  if (pass.seen.seating == nullptr || pass.report != nullptr) return false;
  const PlacementStatus& placement = pass.job.status.placement;
  for (const Worker& worker : pass.pods.current) {
    const PodView& pod = *worker.pod;
    const std::string node = node_of(placement, worker.identity.attempt, worker.identity.slot);
    const bool waits = pod.node.empty() && !pod.unschedulable_message.empty() && !pod.is_gated;
    if (!waits || node.empty() || worker.identity.n > 0 || !pod.meta.creation_time) continue;
    const TimePoint due = *pod.meta.creation_time + pass.policy.unscheduled_max;
    if (pass.now_exact < due) {
      pass.wake(due);
      continue;
    }
    const std::string why = "pod " + pod.meta.name + " cannot be scheduled on node " + node + ": " +
                            pod.unschedulable_message;
    quarantine_node(pass, Failure{.pod = pod.meta.name,
                                  .node = node,
                                  .cause = cause::kUnschedulable,
                                  .message = pod.unschedulable_message});
    restart(pass, {cause::kUnschedulable, why});
    return true;
  }
  return false;
}

// A slot whose first pod is on record had it bound, or lost: a later one is the scheduler's.
std::vector<HeldSeat> held_seats(const Observed& seen) {
  std::vector<HeldSeat> held;
  const TrainingJobStatus& status = seen.job->status;
  const PlacementStatus& placement = status.placement;
  const bool is_over = is_true(status, condition::kComplete) || is_true(status, condition::kFailed);
  const bool is_stopped = is_true(status, condition::kSuspended) || seen.job->meta.deletion_time;
  const bool is_of_now = placement.attempt == status.attempt && status.attempt > 0;
  if (is_over || is_stopped || !is_of_now) return held;
  const bool has_record = seen.group != nullptr &&
                          is_owned_by(seen.group->meta, seen.job->meta.uid) &&
                          seen.group->spec.attempt == status.attempt;
  for (int slot = 0; slot < workers_of(placement); ++slot) {
    const std::string name = pod_name(*seen.job, status.attempt, slot, 0);
    const auto pod = std::ranges::find(
        seen.pods, name, [](const PodView* one) -> const std::string& { return one->meta.name; });
    if (pod != seen.pods.end()) {
      if (!is_terminal(**pod)) held.push_back({name, node_of(placement, status.attempt, slot)});
      continue;
    }
    const auto known = [&](const EligiblePod& one) {
      return one.slot == slot && (one.n > 0 || !one.uid.empty());
    };
    if (has_record && std::ranges::any_of(seen.group->spec.pods, known)) continue;
    held.push_back({name, node_of(placement, status.attempt, slot)});
  }
  return held;
}

}  // namespace pawl::core
