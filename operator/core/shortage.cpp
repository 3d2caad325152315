// A gang that has not all its workers: with how many it begins, and when it waits no longer
// (spec.elastic; design §5, rule 15).
#include <algorithm>
#include <utility>

#include "operator/core/node_steps.h"
#include "operator/core/shortage.h"
#include "operator/core/steps.h"

namespace pawl::core {

using namespace api;

int least_members(const Pass& pass) {
  const TrainingJobSpec& spec = pass.job.spec;
  const bool may_be_smaller =
      spec.elastic && spec.elastic->on_shortage == OnShortage::kShrink && has_successors(pass);
  return may_be_smaller ? std::min(spec.elastic->min_replicas, spec.replicas) : spec.replicas;
}

TimePoint settles_at(const Pass& pass) {
  const TimePoint since = pass.job.status.attempt_time.value_or(pass.now);
  return since + std::chrono::seconds{pass.job.spec.elastic->shortage_seconds};
}

bool has_settled(Pass& pass) {
  if (pass.now_exact >= settles_at(pass)) return true;
  pass.wake(settles_at(pass));
  return false;
}

bool is_first_attempt(const TrainingJobStatus& status) {
  return status.start_time && status.attempt_time && *status.attempt_time <= *status.start_time;
}

int seats_needed(Pass& pass) {
  const int least = least_members(pass), all = pass.job.spec.replicas;
  const bool is_restarted = !is_first_attempt(pass.job.status);
  return least == all || is_restarted || has_settled(pass) ? least : all;
}

namespace {

bool lacks_pod(const Pass& pass) {
  const WorkerGroupSpec& spec = pass.group->spec;
  return std::ranges::any_of(spec.pods, [&](const EligiblePod& place) {
    return place.slot < spec.target_members && place.uid.empty() &&
           pass.pods.at(place.slot) == nullptr;
  });
}

}  // namespace

bool would_differ(const Pass& pass) {
  return pass.report != nullptr && lacks_pod(pass) && pod_hash(pass) != pass.group->spec.pod_hash;
}

void leave_seat(Pass& pass, const EligiblePod& place) {
  PlacementStatus& placement = pass.next.placement;
  ++pass.seats_lacking;
  pass.seat_obstacle =
      "the job was changed since its pods were made: those that are missing come with the next "
      "attempt";
  if (node_of(placement, pass.next.attempt, place.slot, place.n).empty()) return;
  place_later(placement, {place.slot, place.n, kGivenUp});
  pass.is_status_due = true;
}

bool restarts_changed(Pass& pass) {
  // A spare that has yet to start may never do.
  const auto there = std::ranges::count_if(pass.pods.current, [&](const Worker& worker) {
    return worker.identity.slot < pass.gang_size() || worker.pod->phase == PodPhase::kRunning;
  });
  const bool is_waiting =
      is_true(pass.next, condition::kRestarting) && std::cmp_less(there, least_members(pass));
  if (!is_waiting || !would_differ(pass)) return false;
  restart(pass, {cause::kResized,
                 "the job was changed since its pods were made, and the one that is missing would "
                 "differ from the others"});
  return true;
}

}  // namespace pawl::core
