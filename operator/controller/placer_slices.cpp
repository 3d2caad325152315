// Workers that come into a gang whose members lie in slices (spec.scheduling.slices). Slots are
// dealt with the nodes of whole slices one after the other, so that each `size` of them, from slot
// 0 on, are in one domain: a smaller size takes whole slices away, and ranks go domain by domain.
#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/mutant.h"
#include "operator/controller/placer.h"
#include "operator/controller/placer_gang.h"
#include "operator/core/pods.h"

namespace pawl::controller {
namespace {

struct SliceMembers {                // that stay: they have not failed, and were not told to end
  std::map<int, std::string> nodes;  // by slot
  std::vector<std::string> pods;
};

SliceMembers slice_members(const core::Observed& seen) {
  std::map<std::string, std::string> nodes;  // by pod
  for (const core::HeldSeat& seat : core::held_seats(seen)) nodes[seat.pod] = seat.node;
  const std::string& job = seen.job->meta.name;
  for (const api::PodView* pod : seen.pods) {
    const auto identity = core::parse_pod_name(job, pod->meta.name);
    if (!identity || identity->attempt != seen.job->status.attempt) continue;
    const bool has_failed = core::outcome_of(*pod) == core::Outcome::kFailed;
    if (core::is_terminating(*pod) || has_failed) {
      nodes.erase(pod->meta.name);
    } else if (!pod->node.empty()) {
      nodes[pod->meta.name] = pod->node;
    }
  }
  SliceMembers members;
  for (auto& [pod, node] : nodes) {
    if (const auto identity = core::parse_pod_name(job, pod)) members.nodes[identity->slot] = node;
    members.pods.push_back(pod);
  }
  return members;
}

struct TornSlice {
  std::vector<api::PlacedPod> wanted;
  std::vector<std::string> others;  // nodes of its members that stay
  // Members that their domain has room for; nothing: they are in several, as labels or the spec
  // have changed meanwhile, and what comes is near them.
  std::optional<int> room = 0;
  bool has_room() const { return room.value_or(0) >= std::ssize(wanted); }
};

void look_at(TornSlice& torn, placement::Ledger& ledger, const placement::Room& room, int depth) {
  const placement::Topology& topology = ledger.topology();
  std::erase_if(torn.others, [&](const auto& node) { return !ledger.number_of(node); });
  const placement::Domain* common = nullptr;
  for (const std::string& node : torn.others) {
    const auto& domain = placement::domain_of(topology, depth, *ledger.number_of(node));
    if (common != nullptr && &domain != common) return torn.room.reset();
    common = &domain;
  }
  if (common != nullptr) torn.room = room.units_in(topology, depth, *common);
}

}  // namespace

// What a slice lacks that has lost some of its members, in their domain: of several one that has
// room. Where all have lost all that they had, whole ones, near the others. False: not before it is
// known where the others of a slice are, or that none of them stays; or the first successor would
// choose a domain that has no room for the others.
bool Placer::want_slice(const core::Observed& seen, Asked& asked, admission::Gang& gang) {
  const auto [size, depth] = std::exchange(gang.ask.slices, {});
  if (is_mutant(Mutant::kI53TornSlice)) return true;
  SliceMembers members = slice_members(seen);
  for (const std::string& pod : members.pods)
    asked.staying.push_back(ledger_key(key_of(gang.id), pod));
  std::map<int, TornSlice> slices;
  for (const api::PlacedPod& pod : asked.wanted) {
    members.nodes.erase(pod.slot);
    slices[pod.slot / size].wanted.push_back(pod);
  }
  for (const auto& [slot, node] : members.nodes) {
    const auto slice = slices.find(slot / size);
    if (slice != slices.end()) slice->second.others.push_back(node);
  }
  placement::Room room = ledger_.room(gang.shape);
  line_.close_kept(ledger_, gang, room);
  const TornSlice* first = nullptr;
  std::vector<api::PlacedPod> whole;
  for (auto& [number, slice] : slices) {
    if (slice.others.empty() && std::ssize(slice.wanted) == size) {
      std::ranges::copy(slice.wanted, std::back_inserter(whole));
      continue;
    }
    look_at(slice, ledger_, room, depth);
    if (slice.others.empty()) continue;
    if (first == nullptr || (slice.has_room() && !first->has_room())) first = &slice;
  }
  if (first != nullptr) {
    asked.wanted = first->wanted;
    gang.beside = first->others;
    if (first->room) gang.ask.required_depth = std::max(gang.ask.required_depth, depth);
    return true;
  }
  if (whole.empty()) return false;
  asked.wanted = std::move(whole);
  gang.ask.slices = {size, depth};
  return true;
}

}  // namespace pawl::controller
