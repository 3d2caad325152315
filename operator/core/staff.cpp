// Which nodes and which quota of its queue a job has, as far as a view goes: for whoever decides
// what others get (Placer).
#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include "operator/core/node_steps.h"
#include "operator/core/shortage.h"
#include "operator/core/steps.h"

namespace pawl::core {
namespace {

using namespace api;

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

std::set<int> given_up_slots(const PlacementStatus& placement) {
  std::set<int> slots;
  for (const PlacedPod& pod : placement.later) {
    if (pod.node == kGivenUp) slots.insert(pod.slot);
  }
  return slots;
}

// Those that have nodes, as far as the record goes; what was given up is none, whichever its pod.
std::vector<PlacedPod> placed_pods(const Observed& seen, const WorkerGroup* record) {
  const PlacementStatus& placement = seen.job->status.placement;
  const int size = record != nullptr ? record->spec.target_members : seen.job->spec.replicas;
  const std::set<int> given_up = given_up_slots(placement);
  std::vector<PlacedPod> placed;
  int slot = 0;
  for (const PlacedNode& node : placement.nodes) {
    for (int i = 0; i < node.workers; ++i, ++slot) {
      if (!given_up.contains(slot)) placed.push_back({slot, 0, node.name});
    }
  }
  // Those in slots that the gang is to go on without are made no more.
  std::ranges::copy_if(placement.later, std::back_inserter(placed), [&](const PlacedPod& pod) {
    return pod.slot < size && pod.node != kGivenUp;
  });
  return placed;
}

}  // namespace

std::set<int> placed_before(const Observed& seen) {
  const WorkerGroup* record = record_of(seen, seen.job->status.placement.attempt);
  std::set<int> slots;
  for (const PlacedPod& pod : placed_pods(seen, record)) {
    if (record == nullptr || pod.slot < record->spec.target_members) slots.insert(pod.slot);
  }
  return slots;
}

namespace {

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
    if (placed.node == kAnyNode) continue;
    const std::string name = pod_name(*seen.job, status.attempt, placed.slot, placed.n);
    const auto pod = pods.find(name);
    const bool is_held = pod != pods.end() ? !is_terminal(*pod->second) : !gone.contains(name);
    if (is_held) held.push_back({name, placed.node});
  }
  return held;
}

bool waits_anywhere(const Observed& seen) {
  const TrainingJobStatus& status = seen.job->status;
  if (status.placement.attempt != status.attempt || !is_anywhere(status.placement)) return false;
  const WorkerGroup* record = record_of(seen, status.attempt);
  const bool has_begun = record != nullptr && record->status.attempt == status.attempt &&
                         record->status.generation > 0;
  return !has_begun && !has_ended(*seen.job);
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
  staff.given_up = given_up_slots(job.status.placement);
  const WorkerGroup* record = record_of(seen, attempt);
  staff.size = record != nullptr ? record->spec.target_members : job.spec.replicas;
  if (job.status.placement.attempt != attempt) {
    if (is_true(job.status, condition::kStalled)) return staff;  // nobody knows for how long
    staff.is_between = true;
    staff.kept = static_cast<int>(placed_before(seen).size());
    for (int slot = 0; slot < staff.size; ++slot) staff.slots.insert(slot);
    return staff;
  }
  // What is given back is in the record first.
  if (record == nullptr) staff.size = std::max(staff.size, workers_of(job.status.placement));
  staff.pods = 0;  // of one slot there may be two, where a node is lost
  staff.slots = std::move(present);
  // Without a record nobody knows who was lost: all are to be made, or an attempt follows. Nor does
  // anybody of a pod that has no UID there yet.
  std::set<std::pair<int, int>> next;  // slot and number of its pod
  if (record != nullptr) {
    for (const EligiblePod& pod : record->spec.pods) next.insert({pod.slot, pod.n});
  }
  std::set<int> had;  // a slot that was never given a node waits for its first worker
  for (const PlacedPod& placed : placed_pods(seen, record)) {
    had.insert(placed.slot);
    const bool counts = record == nullptr || next.contains({placed.slot, placed.n});
    if (placed.slot < staff.size && counts) staff.slots.insert(placed.slot);
  }
  if (record == nullptr) return staff;
  for (const EligiblePod& pod : record->spec.pods) {
    if (pod.slot >= staff.size) continue;
    // The record may still tell of one that had left before its gang is to be as large again.
    const bool was_placed = had.contains(pod.slot) || staff.given_up.contains(pod.slot);
    if (!pod.uid.empty() && was_placed) staff.slots.insert(pod.slot);
    if (pod.uid.empty() && pod.n > 0 && had.contains(pod.slot)) staff.awaited.insert(pod.slot);
  }
  return staff;
}

}  // namespace pawl::core
