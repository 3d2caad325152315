// The order of ranks of a gang into which another pod comes: with it, its members lie otherwise
// than they did when their ranks were dealt.
#include <algorithm>
#include <map>

#include "operator/controller/placer.h"
#include "operator/core/node_steps.h"

namespace pawl::controller {
namespace {

bool is_in_gang(const core::Observed& seen, const api::EligiblePod& place) {
  return place.slot < seen.group->spec.target_members;
}

// The record is yet to tell the others of a pod that was not placed with them.
bool is_another_one_due(const core::Observed& seen) {
  const int workers = api::workers_of(seen.job->status.placement);
  return std::ranges::any_of(seen.group->spec.pods, [&](const api::EligiblePod& place) {
    const bool is_later = place.n > 0 || place.slot >= workers;
    return is_later && place.uid.empty() && is_in_gang(seen, place);
  });
}

// Its first pods were made without nodes: they have theirs by now, and no ranks were dealt yet.
bool are_all_bound(const core::Observed& seen) {
  return std::ranges::none_of(seen.pods, [](const auto* pod) { return pod->node.empty(); });
}

bool is_in_slices(const api::TrainingJob& job) {
  return job.spec.scheduling && job.spec.scheduling->slices;
}

}  // namespace

// Nodes that are not in the tree, or not any more, have no place in it: a gang in slices keeps the
// ranks that it has.
std::vector<int> Placer::rank_order(const core::Observed& seen) {
  const api::PlacementStatus& placement = seen.job->status.placement;
  if (seen.group == nullptr || placement.attempt != seen.group->spec.attempt) return {};
  if (core::waits_anywhere(seen) ? !are_all_bound(seen) : !is_another_one_due(seen)) return {};
  std::map<std::string, const api::PodView*> pods;  // by name
  for (const api::PodView* pod : seen.pods) pods.emplace(pod->meta.name, pod);
  const placement::Topology& topology = ledger_.topology();
  std::vector<int> slots, hosts;
  for (const api::EligiblePod& place : seen.group->spec.pods) {
    if (!is_in_gang(seen, place)) continue;
    const auto pod = pods.find(place.name);
    const std::string bound = pod != pods.end() ? pod->second->node : "";
    const auto host = ledger_.number_of(
        bound.empty() ? api::node_of(placement, placement.attempt, place.slot, place.n) : bound);
    if (!host && is_in_slices(*seen.job)) return {};
    if (!host) continue;
    slots.push_back(place.slot);
    hosts.push_back(*host);
  }
  std::vector<int> order;
  for (const int number : placement::order_of_ranks(topology, hosts))
    order.push_back(slots[static_cast<std::size_t>(number)]);
  return order;
}

}  // namespace pawl::controller
