// What each job is charged for, of the quota of its queue.
#include <algorithm>
#include <utility>

#include "operator/controller/placer.h"
#include "operator/controller/queue_limits.h"

namespace pawl::controller {

// Who is in line for its whole gang needs quota when it gets nodes, but for what it kept from its
// attempt before: no more than is written there, whatever its size is now, and no less until that
// is written.
std::optional<TimePoint> Placer::charge(const JobKey& key, const core::Observed& seen, Held& held,
                                        TimePoint now) {
  core::Staff staff = core::staff_of(seen, now);
  const auto asked = asked_.find(key);
  const bool is_in_line = asked != asked_.end() && asked->second.wanted.empty();
  if (is_in_line && !staff.is_between) staff = {};
  const std::int64_t attempt = seen.job->status.attempt;
  const bool is_known = held.charged_attempt == attempt;
  std::set<int> before = std::exchange(held.charged, std::move(staff.slots));
  std::erase_if(before, [&](int slot) { return staff.given_up.contains(slot); });
  const auto keep = [&](int slot) {
    if (!held.charged.empty() && slot < staff.size) held.charged.insert(slot);
  };
  if (staff.is_between) {  // the next attempt begins with the first slots
    std::erase_if(held.charged, [&](int slot) { return slot >= staff.kept; });
  } else {
    std::ranges::for_each(is_known ? before : staff.awaited, keep);
  }
  held.charged_attempt = attempt;
  held.charged_workers = std::max({staff.pods, staff.kept, static_cast<int>(held.charged.size())});
  held.queue = queue_name(*seen.job);
  if (held.charged_workers > 0) learn(*seen.job, held);
  charge(key, held);
  return staff.until;
}

void Placer::charge(const JobKey& key, const Held& held) {
  const bool is_freed = quotas_.charge(id_of(key), held.queue,
                                       placement::times(charged_each(held), held.charged_workers));
  is_freed_ = is_freed_ || is_freed;
}

placement::Resources Placer::charged_each(const Held& held) const {
  return charged_as(held.requests, held.flavor, quotas_.find(held.queue));
}

// It may list other flavors by now: what its jobs have, and what those in line want, is counted by
// the names that it has, at once. What is charged may be in no view yet.
void Placer::rename_charges(const std::string& queue) {
  const admission::Queue* limits = quotas_.find(queue);
  for (const auto& [key, held] : held_) {
    if (held.queue != queue || held.flavor.empty()) continue;
    placement::Resources charged = plain_names(quotas_.charged(id_of(key)));
    quotas_.charge(id_of(key), queue, charged_as(charged, held.flavor, limits));
    preemptor_.note_each(id_of(key), charged_each(held));
  }
  for (auto& [key, asked] : asked_) {
    const admission::Gang* waiting = line_.find(id_of(key));
    if (waiting == nullptr || waiting->queue != queue) continue;
    admission::Gang gang = *waiting;
    const std::string flavor = flavor_of(flavors_, gang.shape.demands);
    gang.charged = charged_as(gang.shape.requests, flavor, limits);
    const Status may = gang.is_underway ? Status{} : check_queue(gang);
    if (may) {
      line_.join(std::move(gang));
      continue;
    }
    refuse(key, asked, {.defect = may.error().message});
  }
  preemptor_.want();
}

Status Placer::check_queue(const admission::Gang& gang) const {
  if (gang.queue.empty()) return {};
  const std::string field = "spec.scheduling.queueName: ";
  const auto queue = queues_.find(gang.queue);
  if (queue == queues_.end())
    return fail(Code::kInvalid, field + "there is no TrainingQueue \"" + gang.queue +
                                    "\": create it, or suspend the job and name another one");
  const std::string lacking = flavor_lacking(
      gang.shape.requests, flavor_of(flavors_, gang.shape.demands), queue->second, flavors_);
  if (lacking.empty()) return {};
  return fail(Code::kInvalid, field + "TrainingQueue \"" + gang.queue + "\" " + lacking);
}

std::map<std::string, api::TrainingQueueStatus> Placer::queue_statuses() const {
  std::map<std::string, api::TrainingQueueStatus> statuses;
  for (const auto& [name, queue] : queues_)
    statuses[name] =
        controller::status_of(queue, quotas_, static_cast<int>(line_.waiting_in(name)));
  return statuses;
}

}  // namespace pawl::controller
