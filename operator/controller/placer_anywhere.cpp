// Gangs for which an autoscaler is to add nodes, and which it hears of by their pods alone: these
// are made without nodes, once there is quota for all of them. What is offered is as an offer of
// nodes.
#include <algorithm>
#include <vector>

#include "operator/controller/placer.h"
#include "operator/controller/placer_gang.h"

namespace pawl::controller {

// Who has its pods has left the line, and gets some nodes, which is no help if another gang gets
// the others: they are few, and counted from what is written.
void Placer::note_anywhere(const JobKey& key, bool is_anywhere) {
  if (is_anywhere) {
    anywhere_.insert(key);
  } else {
    anywhere_.erase(key);
  }
}

// The scheduler knows nothing of room that is kept for others, nor of nodes that a gang need not
// have.
bool Placer::may_be_anywhere(const admission::Gang& gang, const Asked& refused, TimePoint now) {
  const core::Seating& seating = refused.answer->seating;
  const auto& since = seating.lacks_nodes_since;
  if (!policy_.asks_by_pods || !since || now < *since + refused.asks_by_pods_after) return false;
  if (gang.ask.slices.size > 1 || refused.whole.slices.size > 1) return false;
  const bool is_whole = refused.wanted.empty();
  if (is_whole && anywhere_.size() >= kAskersMax) return false;
  if (seating.is_room_elsewhere || (gang.is_enough && !gang.avoided.empty())) return false;
  const auto ask = admission::ask_of(ledger_, gang);
  return !placement::place(ledger_.topology(), ledger_.room(gang.shape), ask);
}

void Placer::book_anywhere(const admission::Gang& gang, TimePoint now) {
  const JobKey key = key_of(gang.id);
  Asked& asked = asked_.at(key);
  const bool is_whole = asked.wanted.empty();
  // Of members that are lost all at once: they have their quota.
  const int units = is_whole ? gang.ask.units : std::max(gang.ask.units, gang.kept_units);
  placement::Resources all = quotas_.charged(gang.id);
  placement::add(all, admission::charge_of(gang, units));
  quotas_.charge(gang.id, gang.queue, std::move(all));
  line_.leave(gang.id);
  std::vector<api::PlacedPod> pods = asked.wanted;
  for (int slot = 0; is_whole && slot < units; ++slot) pods.push_back({slot, 0, ""});
  pods.resize(static_cast<std::size_t>(units));
  for (api::PlacedPod& pod : pods) pod.node = api::kAnyNode;
  if (gang.run_max) ledger_.expect_end(gang.id, now + *gang.run_max);
  offer(gang, pods);
  if (!is_whole) return;
  note_anywhere(key, true);
  note_booked(gang, units, now);
  asked.answer->seating.offer = {.attempt = asked.attempt, .nodes = {{api::kAnyNode, units}}};
}

}  // namespace pawl::controller
