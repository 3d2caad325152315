// What the placer tells of each job that has nodes, for whom it may have to leave them.
#include <algorithm>

#include "common/api/condition.h"
#include "operator/controller/placer.h"
#include "operator/controller/placer_gang.h"
#include "operator/controller/queue_limits.h"
#include "operator/core/conditions.h"
#include "operator/core/pods.h"
#include "operator/core/stop_steps.h"

namespace pawl::controller {
namespace {

// It did not begin on them in time, and its next attempt has none yet.
bool gives_back_late(const core::Observed& seen) {
  const api::TrainingJob& job = *seen.job;
  return core::gave_up_start(job.status) &&
         std::ranges::none_of(seen.pods, [&](const api::PodView* pod) {
           const auto identity = core::parse_pod_name(job.meta.name, pod->meta.name);
           return identity && identity->attempt == job.status.attempt;
         });
}

// Its pods end, or are about to, whatever anybody decides here.
bool is_on_its_way_out(const core::Observed& seen) {
  const api::TrainingJob& job = *seen.job;
  const bool is_deleted =
      job.meta.deletion_time && std::ranges::all_of(seen.pods, [](const api::PodView* pod) {
        return core::is_terminal(*pod) || core::is_terminating(*pod);
      });
  const api::Condition* suspended = core::find_condition(job.status, api::condition::kSuspended);
  const bool is_suspending = suspended != nullptr && suspended->reason == core::kSuspending;
  return is_deleted || is_suspending || job.spec.is_suspended || gives_back_late(seen) ||
         core::is_true(job.status, api::condition::kPreempted) ||
         core::is_true(job.status, api::condition::kFailureTarget) ||
         core::is_true(job.status, api::condition::kSuccessCriteriaMet) ||
         core::is_true(job.status, api::condition::kComplete) ||
         core::is_true(job.status, api::condition::kFailed);
}

// Whatever a machine has one of for each part of the work: GPUs, or others that are counted so.
std::int64_t devices_of(const placement::Resources& requests, int workers) {
  std::int64_t each = 0;
  for (const auto& [resource, quantity] : requests)
    each += resource.find('/') == std::string::npos ? 0 : quantity;
  return std::max<std::int64_t>(each, 1) * workers;
}

}  // namespace

// Those that the scheduler places are left alone: it would give them the same nodes again.
void Placer::note_occupant(const JobKey& key, const core::Observed& seen, const Held& held,
                           TimePoint now) {
  const api::TrainingJob& job = *seen.job;
  const api::TrainingJobStatus& status = job.status;
  const bool is_placed = status.placement.attempt == status.attempt || gives_back_late(seen) ||
                         !queue_name(job).empty();
  if (held.is_empty() || !status.start_time || !is_placed || !left_out(job).empty())
    return preemptor_.note(id_of(key), std::nullopt);
  const int workers = std::max(held.charged_workers, static_cast<int>(held.pods.size()));
  Occupant occupant{.priority = held.priority,
                    .queue = queue_name(job),
                    .devices = devices_of(held.requests, workers),
                    .placed_at = *status.start_time,
                    .saved_at = *status.start_time,
                    .is_leaving = is_on_its_way_out(seen),
                    .is_preempted = core::is_true(job.status, api::condition::kPreempted)};
  core::SpareSeats spare = core::spare_seats(seen, policy_, now);
  for (const core::HeldSeat& seat : spare.pods)
    occupant.spare.push_back({ledger_key(key, seat.pod), seat.node});
  if (!occupant.spare.empty()) occupant.each = charged_each(held);
  occupant.is_shrinking = spare.are_given_up;
  if (status.checkpoint && status.checkpoint->time) occupant.saved_at = *status.checkpoint->time;
  preemptor_.note(id_of(key), occupant);
}

// Its view says nothing of it yet.
void Placer::note_booked(const admission::Gang& gang, int units, TimePoint now) {
  preemptor_.note(gang.id, Occupant{.priority = gang.priority,
                                    .queue = gang.queue,
                                    .devices = devices_of(gang.shape.requests, units),
                                    .placed_at = now,
                                    .saved_at = now});
}

void Placer::tell_order(const JobKey& key, core::Seating& seating) const {
  const Preemptor::Order* order = preemptor_.order_for(id_of(key), line_);
  if (order == nullptr) return;
  (order->pods.empty() ? seating.leave_why : seating.give_up_why) = order->why;
  for (const admission::Spare& spare : order->pods)
    seating.gives_up.push_back(controller::pod_of(spare.pod));
}

std::optional<TimePoint> Placer::next_search() const {
  return line_.size() > 0 ? preemptor_.next() : std::nullopt;
}

}  // namespace pawl::controller
