#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include "common/base/mutant.h"
#include "operator/core/node_steps.h"
#include "operator/core/shortage.h"
#include "operator/core/steps.h"

namespace pawl::core {
namespace {

using namespace api;

// Pods of before give their places back first, so that those may be taken again; and a back-off
// keeps no room from others.
bool may_take_seats(const Pass& pass) {
  const bool are_others_gone = pass.pods.previous_active == 0 && pass.pods.leftover_active == 0;
  const auto allowed_at = creation_time(pass);
  return are_others_gone && (!allowed_at || pass.now_exact >= *allowed_at);
}

// What the scheduler refuses again and again has a reason that is not seen here. It would scatter
// a gang that has to be together, and knows nothing of quotas.
bool is_left_to_scheduler(const Pass& pass) {
  if (pass.seen.seating == nullptr) return true;
  const auto& scheduling = pass.job.spec.scheduling;
  if (scheduling && (!scheduling->queue_name.empty() || !required_level(scheduling).empty()))
    return false;
  const auto& moves = pass.job.status.restarts.by_cause;
  const auto found = moves.find(cause::kUnschedulable);
  return found != moves.end() && found->second >= pass.policy.moves_max;
}

bool has_seats(const Pass& pass) {
  const PlacementStatus& placement = pass.job.status.placement;
  const int workers = workers_of(placement);
  return placement.attempt == pass.job.status.attempt && workers >= least_members(pass) &&
         workers <= pass.job.spec.replicas;
}

bool is_in_line(const Condition* running) {
  return running != nullptr &&
         (running->reason == kWaitingForRoom || running->reason == kWaitingForQuota);
}

void say_no_room(Pass& pass, const Seating& seating) {
  const char* reason = seating.lacks_quota ? kWaitingForQuota : kWaitingForRoom;
  const Condition* running = find_condition(pass.next, condition::kRunning);
  std::string message = seating.obstacle;
  if (pass.seats_least > least_members(pass))
    message += "; it begins with " + std::to_string(least_members(pass)) +
               " workers or more from " + format_time(settles_at(pass)) + " on";
  if (running == nullptr || running->reason != reason) pass.emit(false, reason, message);
  set_condition(pass, condition::kRunning, "False", reason, message);
  pass.say(reason, message);
}

// No more of them than that, from the last one on.
void keep_workers(PlacementStatus& placement, int most) {
  std::erase_if(placement.later, [&](const PlacedPod& pod) { return pod.slot >= most; });
  int more = workers_of(placement) - most;
  while (more > 0 && !placement.nodes.empty()) {
    PlacedNode& last = placement.nodes.back();
    const int dropped = std::min(more, last.workers);
    more -= dropped;
    last.workers -= dropped;
    if (last.workers == 0) placement.nodes.pop_back();
  }
}

}  // namespace

bool waits_in_line(const Pass& pass) {
  const TrainingJobStatus& status = pass.job.status;
  const bool has_nodes = status.placement.attempt == status.attempt;
  if (!is_first_attempt(status) || has_nodes || has_begun(pass)) return false;
  const Condition* running = find_condition(status, condition::kRunning);
  return is_in_line(running) || !is_left_to_scheduler(pass);
}

namespace {

// Its nodes are no longer decided on in advance: its time begins.
void leave_line(Pass& pass) {
  pass.next.start_time = pass.now;
  set_condition(pass, condition::kRunning, "False", "Starting", "the scheduler places its pods");
}

}  // namespace

bool waits_for_seats(Pass& pass) {
  const Seating* seating = pass.seen.seating;
  if (is_left_to_scheduler(pass)) {
    if (waits_in_line(pass)) leave_line(pass);
    return false;
  }
  if (has_begun(pass) || !may_take_seats(pass)) return false;
  if (has_seats(pass) && !seating->is_void) return false;
  if (is_mutant(Mutant::kI43Unplaced)) return false;
  if (!has_buildable_template(pass)) return true;
  if (!seating->defect.empty()) {
    pass.next.placement = {};
    stall(pass, "InvalidScheduling", seating->defect);
    return true;
  }
  pass.seats_least = seats_needed(pass);
  // It stands there already: a write of it would be none, and nothing would follow.
  if (seating->offer && *seating->offer == pass.job.status.placement) return false;
  if (seating->offer) {
    pass.next.placement = *seating->offer;
    if (is_first_attempt(pass.job.status)) pass.next.start_time = pass.now;
    pass.is_status_due = true;
    const std::string on = std::to_string(seating->offer->nodes.size()) +
                           (seating->offer->nodes.size() == 1 ? " node" : " nodes");
    const int workers = workers_of(*seating->offer), all = pass.job.spec.replicas;
    const std::string of = workers < all ? " of " + std::to_string(all) : "";
    const std::string message = "starting " + std::to_string(workers) + of + " workers on " + on;
    const Condition* running = find_condition(pass.next, condition::kRunning);
    if (is_in_line(running)) set_condition(pass, condition::kRunning, "False", "Starting", message);
    pass.say("Starting", message);
    return true;
  }
  if (seating->obstacle.empty()) {
    pass.asks_for_seats = true;
  } else {
    // Void, or of before: then it says for how many workers quota is kept, whoever leads.
    const bool is_of_before = pass.next.placement.attempt != pass.job.status.attempt;
    if (is_of_before && seating->keeps_quota) {
      keep_workers(pass.next.placement, pass.job.spec.replicas);
    } else {
      pass.next.placement = {};
    }
    say_no_room(pass, *seating);
  }
  return true;
}

namespace {

// A pod that waits for longer than it should for the node that was decided on for it; each of a
// slot in turn is given twice the time.
const Worker* find_refused(Pass& pass) {
  constexpr int kDoubledMax = 5;
  const PlacementStatus& placement = pass.job.status.placement;
  for (const Worker& worker : pass.pods.current) {
    const PodView& pod = *worker.pod;
    const auto& [attempt, slot, n] = worker.identity;
    const bool waits = pod.node.empty() && !pod.unschedulable_message.empty() && !pod.is_gated;
    if (!waits || !pod.meta.creation_time || is_terminating(pod)) continue;
    if (node_of(placement, attempt, slot, n).empty()) continue;
    const TimePoint due =
        *pod.meta.creation_time + pass.policy.unscheduled_max * (1 << std::min(n, kDoubledMax));
    if (pass.now_exact >= due) return &worker;
    pass.wake(due);
  }
  return nullptr;
}

}  // namespace

// What was free is not, or was never: whoever decides may not see why, so the node is avoided for a
// while. Also where the job has been changed since, and its nodes are the scheduler's business now.
bool leaves_seats(Pass& pass) {
  const Worker* refused = find_refused(pass);
  if (refused == nullptr) return false;
  const PodView& pod = *refused->pod;
  const auto& [attempt, slot, n] = refused->identity;
  const std::string node = node_of(pass.job.status.placement, attempt, slot, n);
  const std::string why = "pod " + pod.meta.name + " cannot be scheduled on node " + node + ": " +
                          pod.unschedulable_message;
  quarantine_node(pass, Failure{.pod = pod.meta.name,
                                .node = node,
                                .cause = cause::kUnschedulable,
                                .message = pod.unschedulable_message});
  if (pass.report == nullptr) {
    restart(pass, {cause::kUnschedulable, why});
    return true;
  }
  pass.emit(true, cause::kUnschedulable, why + "; another pod takes its place", pod.meta.name);
  // The first of its slot takes nobody's place.
  const bool is_more =
      n == 0 && !pass.is_member(pod.meta.uid) && !is_true(pass.next, condition::kRestarting);
  if (is_more && least_members(pass) < pass.size())
    place_later(pass.next.placement, {slot, n, kGivenUp});
  pass.is_status_due = true;
  pass.delete_pod(pod);  // and the slot gets another one, as when any pod is lost
  return true;
}

// A gang that waits for a member where there is no room, and would fit elsewhere as a whole: it
// moves, after a while in which there may be room again. Its size is what it requires.
bool reunites(Pass& pass) {
  const Seating* seating = pass.seen.seating;
  const Condition* restarting = find_condition(pass.next, condition::kRestarting);
  const bool is_lacking = restarting != nullptr && restarting->status == "True" && pass.report;
  if (seating == nullptr || !seating->is_room_elsewhere || !is_lacking) return false;
  const TimePoint due =
      restarting->last_transition_time.value_or(pass.now) + pass.policy.reunited_after;
  if (pass.now_exact < due) {
    pass.wake(due);
    return false;
  }
  restart(pass, {cause::kUnschedulable,
                 seating->obstacle + "; all of the gang has room elsewhere, and goes there"});
  return true;
}

// What the scheduler has begun it goes on with; of a defect of the template that no pod can be made
// says why.
bool lacks_seat(const Pass& pass, const EligiblePod& place) {
  const PlacementStatus& placement = pass.job.status.placement;
  if (is_left_to_scheduler(pass) || placement.attempt != pass.job.status.attempt) return false;
  if (!pass.seen.seating->defect.empty() || is_mutant(Mutant::kI43Unplaced)) return false;
  return node_of(placement, placement.attempt, place.slot, place.n).empty();
}

bool waits_for_seat(Pass& pass, const EligiblePod& place) {
  if (!lacks_seat(pass, place)) return false;
  const int slot = place.slot, n = place.n;
  const Seating& seating = *pass.seen.seating;
  ++pass.seats_lacking;
  const auto offered = std::ranges::find_if(
      seating.later, [&](const PlacedPod& pod) { return pod.slot == slot && pod.n == n; });
  if (offered != seating.later.end()) {
    place_later(pass.next.placement, *offered);
    pass.is_status_due = true;
  } else if (!seating.obstacle.empty()) {
    pass.seat_obstacle = seating.obstacle;
    pass.lacks_quota = seating.lacks_quota;
  } else {
    pass.asks_for_seats = true;
    pass.seats_least = least_members(pass);
    pass.seats_wanted.push_back({slot, n, ""});
  }
  return true;
}

namespace {

// Of that attempt; null: there is none, or the attempt has no pods yet, and gets another size if
// its nodes are for another one.
const WorkerGroup* record_of(const Observed& seen, std::int64_t attempt) {
  const TrainingJob& job = *seen.job;
  const bool has_record = seen.group != nullptr && is_owned_by(seen.group->meta, job.meta.uid) &&
                          seen.group->spec.attempt == attempt;
  if (!has_record) return nullptr;
  const auto is_its = [&](const PodView* pod) {
    const auto identity = parse_pod_name(job.meta.name, pod->meta.name);
    return is_owned_by(pod->meta, job.meta.uid) && identity && identity->attempt == attempt;
  };
  const bool has_pods = std::ranges::any_of(seen.group->spec.pods, has_had_pod) ||
                        std::ranges::any_of(seen.pods, is_its);
  return has_pods ? seen.group : nullptr;
}

// Those that have nodes, as far as the record goes.
std::vector<PlacedPod> placed_pods(const Observed& seen, const WorkerGroup* record) {
  const PlacementStatus& placement = seen.job->status.placement;
  const int size = record != nullptr ? record->spec.target_members : seen.job->spec.replicas;
  std::vector<PlacedPod> placed;
  int slot = 0;
  for (const PlacedNode& node : placement.nodes) {
    for (int i = 0; i < node.workers; ++i, ++slot) {
      if (!is_given_up(placement, placement.attempt, slot, 0))
        placed.push_back({slot, 0, node.name});
    }
  }
  // Those in slots that the gang is to go on without are made no more.
  std::ranges::copy_if(placement.later, std::back_inserter(placed), [&](const PlacedPod& pod) {
    return pod.slot < size && pod.node != kGivenUp;
  });
  return placed;
}

// Workers of the attempt before, as far as it was placed.
int placed_before(const Observed& seen) {
  const WorkerGroup* record = record_of(seen, seen.job->status.placement.attempt);
  std::set<int> slots;
  for (const PlacedPod& pod : placed_pods(seen, record)) {
    if (record == nullptr || pod.slot < record->spec.target_members) slots.insert(pod.slot);
  }
  return static_cast<int>(slots.size());
}

// Whether it is over, or is to stop.
bool has_ended(const TrainingJob& job) {
  const TrainingJobStatus& status = job.status;
  return is_true(status, condition::kComplete) || is_true(status, condition::kFailed) ||
         is_true(status, condition::kSuspended) || job.meta.deletion_time.has_value();
}

// It had nodes since it was started, or resumed.
bool has_been_placed(const TrainingJob& job) {
  const TrainingJobStatus& status = job.status;
  if (status.attempt == 0 || !status.start_time) return false;
  return !is_first_attempt(status) || status.placement.attempt == status.attempt;
}

}  // namespace

// A pod that is on record with its UID, or has a successor there, was bound, or is lost.
std::vector<HeldSeat> held_seats(const Observed& seen) {
  std::vector<HeldSeat> held;
  const TrainingJobStatus& status = seen.job->status;
  const bool is_of_now = status.placement.attempt == status.attempt && status.attempt > 0;
  if (has_ended(*seen.job) || !is_of_now) return held;
  const WorkerGroup* record = record_of(seen, status.attempt);
  std::set<std::string> gone;
  if (record != nullptr) {
    for (const EligiblePod& pod : record->spec.pods) {
      for (int n = 0; n < pod.n; ++n) gone.insert(pod_name(*seen.job, status.attempt, pod.slot, n));
      if (!pod.uid.empty()) gone.insert(pod.name);
    }
  }
  std::map<std::string, const PodView*> pods;
  for (const PodView* pod : seen.pods) pods[pod->meta.name] = pod;
  for (const PlacedPod& placed : placed_pods(seen, record)) {
    const std::string name = pod_name(*seen.job, status.attempt, placed.slot, placed.n);
    const auto pod = pods.find(name);
    const bool is_held = pod != pods.end() ? !is_terminal(*pod->second) : !gone.contains(name);
    if (is_held) held.push_back({name, placed.node});
  }
  return held;
}

// Between two attempts a job keeps its quota: a failure sends nobody to the end of the line.
Staff staff_of(const Observed& seen, TimePoint now) {
  const TrainingJob& job = *seen.job;
  const std::int64_t attempt = job.status.attempt;
  Staff staff;
  std::set<int> present;
  for (const PodView* pod : seen.pods) {
    if (!is_owned_by(pod->meta, job.meta.uid) || is_terminal(*pod)) continue;
    const auto given_up = give_up_time(job, *pod);
    if (given_up && now >= *given_up) continue;
    if (given_up) staff.until = std::min(staff.until.value_or(*given_up), *given_up);
    ++staff.pods;
    const auto identity = parse_pod_name(job.meta.name, pod->meta.name);
    if (identity && identity->attempt == attempt) present.insert(identity->slot);
  }
  if (has_ended(job) || !has_been_placed(job)) return staff;
  for (const PlacedPod& pod : job.status.placement.later) {
    if (pod.node == kGivenUp) staff.given_up.insert(pod.slot);
  }
  const WorkerGroup* record = record_of(seen, attempt);
  staff.size = record != nullptr ? record->spec.target_members : job.spec.replicas;
  if (job.status.placement.attempt != attempt) {
    if (is_true(job.status, condition::kStalled)) return staff;  // nobody knows for how long
    staff.is_between = true;
    staff.kept = placed_before(seen);
    for (int slot = 0; slot < staff.size; ++slot) staff.slots.insert(slot);
    return staff;
  }
  staff.pods = 0;  // of one slot there may be two, where a node is lost
  staff.slots = std::move(present);
  // Without a record nobody knows who was lost: all are to be made, or an attempt follows. Nor does
  // anybody of a pod that has no UID there yet.
  std::set<std::pair<int, int>> next;  // slot and number of its pod
  if (record != nullptr) {
    for (const EligiblePod& pod : record->spec.pods) next.insert({pod.slot, pod.n});
  }
  for (const PlacedPod& placed : placed_pods(seen, record)) {
    const bool counts = record == nullptr || next.contains({placed.slot, placed.n});
    if (placed.slot < staff.size && counts) staff.slots.insert(placed.slot);
  }
  if (record == nullptr) return staff;
  for (const EligiblePod& pod : record->spec.pods) {
    if (pod.slot >= staff.size) continue;
    if (!pod.uid.empty()) staff.slots.insert(pod.slot);
    const bool is_awaited = pod.uid.empty() && pod.n > 0 && !staff.given_up.contains(pod.slot);
    if (is_awaited) staff.awaited.insert(pod.slot);
  }
  return staff;
}

}  // namespace pawl::core
