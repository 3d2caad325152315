// A job that has to give its nodes to another one, or some of them. Who decides that is the placer
// (controller/preemptor.h); from the condition on, or from what stands in placement.later, it is
// carried through, whatever becomes of the other one.
#include <algorithm>
#include <vector>

#include "common/base/mutant.h"
#include "operator/core/node_steps.h"
#include "operator/core/shortage.h"
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

namespace {

// A gang that could not go on in its attempt without one of them gives up none: it would lose all.
bool may_shrink(const Pass& pass) {
  if (pass.report == nullptr || pass.report->is_finished || pass.group->meta.deletion_time)
    return false;
  const WorkerGroupSpec& spec = pass.group->spec;
  const bool is_placed = pass.job.status.placement.attempt == pass.job.status.attempt;
  return is_placed && spec.has_successors && !spec.is_stopping && may_be_smaller(spec) &&
         least_members(pass) < spec.target_members && pod_hash(pass) == spec.pod_hash;
}

// Of those that are well all but as many members as it needs: the leader, which would have to hand
// over, and those in the first slots.
std::vector<const Worker*> spare_workers(const Pass& pass) {
  std::vector<const Worker*> spare;
  if (!may_shrink(pass)) return spare;
  const int least = least_members(pass) - (is_mutant(Mutant::kI45BelowLeast) ? 1 : 0);
  const auto leads = [&](const Worker& worker) {
    return pass.report->leader && pass.report->leader->ref.uid == worker.pod->meta.uid &&
           pass.is_member(worker.pod->meta.uid) && is_staying(*worker.pod);
  };
  int kept = static_cast<int>(std::ranges::count_if(pass.pods.current, leads));
  for (const Worker& worker : pass.pods.current) {
    if (!is_staying(*worker.pod) || leads(worker)) continue;
    const bool stays = kept < least && pass.is_member(worker.pod->meta.uid);
    kept += stays ? 1 : 0;
    if (!stays) spare.push_back(&worker);
  }
  if (kept < least) spare.clear();  // it waits for some as it is
  // Those that wait go before any that trains.
  const auto is_in = [&](const Worker* worker) { return pass.is_member(worker->pod->meta.uid); };
  if (pass.group->spec.spares > 0 && !std::ranges::all_of(spare, is_in))
    std::erase_if(spare, is_in);
  return spare;
}

HeldSeat seat_of(const Pass& pass, const Worker& worker) {
  const auto& [attempt, slot, n] = worker.identity;
  const std::string& bound = worker.pod->node;
  const std::string node = node_of(pass.job.status.placement, attempt, slot, n);
  return {worker.pod->meta.name, bound.empty() && node != kAnyNode ? node : bound};
}

}  // namespace

bool gave_room(const Pass& pass, const std::string& pod) {
  const auto identity = parse_pod_name(pass.job.meta.name, pod);
  return identity &&
         api::gave_room(pass.job.status.placement, identity->attempt, identity->slot, identity->n);
}

SpareSeats spare_seats(const Observed& seen, const Policy& policy, TimePoint now) {
  SpareSeats spare;
  const auto& elastic = seen.job->spec.elastic;
  const bool may_shrink_at_all = elastic && elastic->on_shortage == OnShortage::kShrink;
  if (seen.group == nullptr || (!may_shrink_at_all && seen.group->spec.spares == 0)) return spare;
  const Pass pass(seen, policy, now);
  if (pass.current_group != nullptr) {
    for (const EligiblePod& place : pass.current_group->spec.pods) {
      const bool is_there = pass.pods.at(place.slot) != nullptr || !place.uid.empty();
      if (is_there && gave_room(pass, place.name)) spare.pods.push_back({place.name, ""});
    }
  }
  // Off the record, and not gone; also where the attempt has ended since.
  for (const auto* workers : {&pass.pods.replaced, &pass.pods.previous}) {
    for (const Worker& worker : *workers) {
      const PodView& pod = *worker.pod;
      if (!is_terminal(pod) && !is_given_up(pass.job, pod, now) && gave_room(pass, pod.meta.name))
        spare.pods.push_back({pod.meta.name, ""});
    }
  }
  spare.are_given_up = !spare.pods.empty();
  if (spare.are_given_up) return spare;
  for (const Worker* worker : spare_workers(pass)) spare.pods.push_back(seat_of(pass, *worker));
  return spare;
}

bool gives_room(Pass& pass) {
  const Seating* seating = pass.seen.seating;
  if (seating == nullptr || seating->gives_up.empty()) return false;
  std::size_t told = 0;
  for (const Worker* worker : spare_workers(pass)) {
    const PodView& pod = *worker->pod;
    const auto named = std::ranges::find(seating->gives_up, pod.meta.name);
    if (named == seating->gives_up.end()) continue;
    const auto& [attempt, slot, n] = worker->identity;
    place_later(pass.next.placement, {slot, n, kGivenUp, kCausePreempted});
    pass.delete_pod(pod);
    ++told;
  }
  if (told == 0) return false;
  pass.is_status_due = true;  // what they are deleted for, before they are
  pass.emit(false, "Shrunk",
            seating->give_up_why + "; it goes on without " + std::to_string(told) + " of its " +
                std::to_string(pass.pods.current.size()) + " workers",
            seating->gives_up.front());
  return true;
}

// After a crash they are still there.
bool deletes_given_up(Pass& pass) {
  bool has_told = false;
  for (const Worker& worker : pass.pods.current) {
    const auto& [attempt, slot, n] = worker.identity;
    if (!is_staying(*worker.pod) || !is_given_up(pass.job.status.placement, attempt, slot, n))
      continue;
    pass.delete_pod(*worker.pod);
    has_told = true;
  }
  return has_told;
}

}  // namespace pawl::core
