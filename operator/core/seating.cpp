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

// Why it is Stalled.
constexpr char kInvalidScheduling[] = "InvalidScheduling", kNeverFits[] = "NeverFits";

// Pods of before give their places back first, so that those may be taken again; and a back-off
// keeps no room from others.
bool may_take_seats(const Pass& pass) {
  const bool are_others_gone = pass.pods.previous_active == 0 && pass.pods.leftover_active == 0;
  const auto allowed_at = creation_time(pass);
  return are_others_gone && (!allowed_at || pass.now_exact >= *allowed_at);
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
  message += ask_for_nodes(pass, seating);
  if (running == nullptr || running->reason != reason) pass.emit(false, reason, message);
  set_condition(pass, condition::kRunning, "False", reason, message);
  // What it was Stalled for is over; a refusal of its pods stands until they are made.
  const Condition* stalled = find_condition(pass.next, condition::kStalled);
  const bool is_over = stalled != nullptr &&
                       (stalled->reason == kNeverFits || stalled->reason == kInvalidScheduling);
  if (is_over) clear_condition(pass, condition::kStalled, reason, "it waits in line");
  pass.say(reason, message);
}

std::string nodes_text(const PlacementStatus& placement) {
  if (is_anywhere(placement)) return "nodes that an autoscaler is to add";
  const std::size_t nodes = placement.nodes.size();
  return std::to_string(nodes) + (nodes == 1 ? " node" : " nodes");
}

// No more of them than that, from the last one on.
void keep_workers(PlacementStatus& placement, int most) {
  std::erase_if(placement.later,
                [&](const PlacedPod& pod) { return pod.slot >= most && pod.node != kGivenUp; });
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

// What the scheduler refuses again and again has a reason that is not seen here. It would scatter
// a gang that has to be together, and knows nothing of quotas.
bool is_left_to_scheduler(const Pass& pass) {
  if (pass.seen.seating == nullptr) return true;
  const auto& scheduling = pass.job.spec.scheduling;
  if (scheduling && (!scheduling->queue_name.empty() || scheduling->slices ||
                     !required_level(scheduling).empty()))
    return false;
  const auto& moves = pass.job.status.restarts.by_cause;
  const auto found = moves.find(cause::kUnschedulable);
  return found != moves.end() && found->second >= pass.policy.moves_max;
}

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

// Those that are there, and that a gang which is to be as large again had nearly gone on without.
void note_places(Pass& pass) {
  PlacementStatus& placement = pass.next.placement;
  for (const auto* workers : {&pass.pods.current, &pass.pods.leaving}) {
    for (const Worker& worker : *workers) {
      const auto& [attempt, slot, n] = worker.identity;
      const bool stays = slot < places_of(pass) && !worker.pod->node.empty() &&
                         !is_terminal(*worker.pod) && !is_terminating(*worker.pod);
      const bool is_known =
          !node_of(placement, attempt, slot, n).empty() || is_given_up(placement, attempt, slot, n);
      if (stays && !is_known) place_later(placement, {slot, n, worker.pod->node});
    }
  }
}

}  // namespace

// The record says for how many workers there is quota, whoever leads: what is not kept any more has
// to be gone from there before others have it, and before it is asked for again.
void keep_quota(Pass& pass) {
  PlacementStatus& placement = pass.next.placement;
  int most = places_of(pass);
  if (placement.attempt == pass.job.status.attempt) {
    if (pass.current_group != nullptr)
      most = std::min(most, pass.current_group->spec.target_members);
    keep_workers(placement, most);
    note_places(pass);
  } else {  // as many as that, whichever slots they have
    const std::set<int> slots = placed_before(pass.seen);
    if (std::cmp_greater(slots.size(), most))
      keep_workers(placement, *std::next(slots.begin(), most));
  }
  if (placement != pass.job.status.placement) pass.is_status_due = true;
}

namespace {

// What it keeps is no gang: it is to have quota for all, or for none. Nor are nodes of this attempt
// that it cannot use.
bool gives_back(const Pass& pass) {
  if (pass.next.placement.attempt == pass.job.status.attempt)
    return !pass.next.placement.nodes.empty();
  const Staff staff = staff_of(pass.seen, pass.now);
  return staff.is_between && staff.kept > 0 && staff.kept < least_members(pass);
}

}  // namespace

bool waits_for_seats(Pass& pass) {
  const Seating* seating = pass.seen.seating;
  if (pass.next.placement.attempt != pass.job.status.attempt) keep_quota(pass);
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
    stall(pass, seating->never_fits ? kNeverFits : kInvalidScheduling, seating->defect);
    return true;
  }
  pass.seats_least = seats_needed(pass);
  // It stands there already: a write of it would be none, and nothing would follow.
  if (seating->offer && *seating->offer == pass.job.status.placement) return false;
  if (seating->offer) {
    pass.next.placement = *seating->offer;
    if (is_first_attempt(pass.job.status)) pass.next.start_time = pass.now;
    pass.is_status_due = true;
    const std::string on = nodes_text(*seating->offer);
    const int workers = workers_of(*seating->offer), all = pass.job.spec.replicas;
    const std::string of = workers < all ? " of " + std::to_string(all) : "";
    const std::string message = "starting " + std::to_string(workers) + of + " workers on " + on;
    const Condition* running = find_condition(pass.next, condition::kRunning);
    if (is_in_line(running)) set_condition(pass, condition::kRunning, "False", "Starting", message);
    pass.say("Starting", message);
    return true;
  }
  if (seating->obstacle.empty() && gives_back(pass)) {
    pass.next.placement = {};
    pass.is_status_due = true;
  } else if (seating->obstacle.empty()) {
    pass.asks_for_seats = true;
  } else {
    const bool is_of_before = pass.next.placement.attempt != pass.job.status.attempt;
    if (!is_of_before || !seating->keeps_quota) pass.next.placement = {};
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
    const std::string node = node_of(placement, attempt, slot, n);
    const bool is_anywhere = node == kAnyNode;
    // Before the gang has begun it gives up as a whole.
    if (node.empty() || (is_anywhere && pass.report == nullptr)) continue;
    const TimePoint due = *pod.meta.creation_time +
                          (is_anywhere && pass.policy.asks_by_pods
                               ? pass.policy.anywhere_max
                               : pass.policy.unscheduled_max * (1 << std::min(n, kDoubledMax)));
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
  const bool is_anywhere = node == kAnyNode;
  const std::string why = "pod " + pod.meta.name + " cannot be scheduled" +
                          (is_anywhere ? "" : " on node " + node) + ": " +
                          pod.unschedulable_message;
  if (!is_anywhere)
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
    wake_to_ask(pass, seating);
  } else {
    pass.asks_for_seats = true;
    pass.seats_least = least_members(pass);
    pass.seats_wanted.push_back({slot, n, ""});
  }
  return true;
}

}  // namespace pawl::core
