// How many members a generation has, and in which order.
#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/api/codec.h"
#include "common/base/json.h"
#include "tests/sim/nodes.h"
#include "tests/sim/oracles.h"

namespace pawl::sim {

using kube::resources::kPods;
using nlohmann::json;

namespace {

struct Groups {
  api::WorkerGroup before, after;
};

// Nothing: it is made, or deleted.
std::optional<Groups> groups_of(const local::Change& change) {
  if (change.before == nullptr || change.is_deletion) return std::nullopt;
  auto before = api::decode_worker_group(*change.before);
  auto after = api::decode_worker_group(*change.after);
  if (!before || !after) return std::nullopt;
  return Groups{std::move(*before), std::move(*after)};
}

}  // namespace

bool Oracles::is_leaving(const api::WorkerGroup& group, const std::string& uid) const {
  const auto place = std::ranges::find(group.spec.pods, uid, &api::EligiblePod::uid);
  if (place == group.spec.pods.end()) return false;
  const local::Object pod = api_.find(kPods, place->name);
  return pod == nullptr || pod->at("metadata").contains("deletionTimestamp") ||
         (is_announced && is_announced(text_at_pointer(*pod, "/spec/nodeName")));
}

// Where a gang goes on with fewer than before, enough are left: unless all are to go.
void Oracles::i35_gang_is_large_enough(const local::Change& change) {
  const auto groups = groups_of(change);
  if (!groups || groups->after.status.generation == groups->before.status.generation) return;
  const auto& [before, after] = *groups;
  if (before.status.attempt != after.status.attempt || after.spec.is_stopping) return;
  if (after.status.leader && is_leaving(after, after.status.leader->ref.uid)) return;
  const std::size_t members = after.status.members.size();
  const bool is_short = std::cmp_less(members, after.spec.min_members);
  const bool is_first = before.status.members.empty();
  if (is_short && (is_first || members < before.status.members.size()))
    fail("I35", "a generation of " + std::to_string(members) + " of at least " +
                    std::to_string(after.spec.min_members));
}

// Those who wait for a lost one's place train in nobody else's. A state that is read from storage
// is the newest because of what each of them says of its own: all are kept for that generation; and
// who leaves is in one more, if it leads, or holds what the others do not.
void Oracles::i50_gang_is_small_enough(const local::Change& change) {
  const auto groups = groups_of(change);
  if (!groups || groups->after.status.generation == groups->before.status.generation) return;
  const auto& [before, after] = *groups;
  const api::WorkerGroupSpec& spec = after.spec;
  if (spec.spares == 0 || before.status.attempt != after.status.attempt) return;
  const bool is_stored = after.status.base_generation == 0 && !before.status.members.empty();
  const auto members = std::ranges::count_if(after.status.members, [&](const api::Member& one) {
    return one.slot < spec.target_members && !is_leaving(after, one.ref.uid);
  });
  if (!is_stored && members > api::most_members(spec))
    fail("I50", "a generation of " + std::to_string(members) + ", and " +
                    std::to_string(spec.spares) + " of " + std::to_string(spec.target_members) +
                    " are to wait");
}

void Oracles::i51_ranks_have_their_order(const local::Change& change) {
  const auto groups = groups_of(change);
  if (!groups || groups->after.status.generation == groups->before.status.generation) return;
  const auto& [before, after] = *groups;
  std::vector<std::pair<int, int>> orders;  // by rank
  for (const api::Member& member : after.status.members) {
    const auto place = std::ranges::find(after.spec.pods, member.slot, &api::EligiblePod::slot);
    const bool is_known = place != after.spec.pods.end();
    orders.emplace_back(is_known ? api::rank_key(*place) : member.slot, member.slot);
  }
  if (!std::ranges::is_sorted(orders))
    fail("I51", "ranks of generation " + std::to_string(after.status.generation) +
                    " are not in the order of the record");
}

// Its pods were made without nodes, and it has not begun.
bool Oracles::is_found(const api::WorkerGroup& group) const {
  const local::Object object = api_.find(kube::resources::kTrainingJobs, group.meta.name);
  if (object == nullptr) return false;
  const auto job = api::decode_training_job(*object);
  const bool has_begun = group.status.attempt == group.spec.attempt && group.status.generation > 0;
  return job && !has_begun && is_anywhere(job->status.placement);
}

// Ranks are dealt where a pod is told of, and nowhere else.
void Oracles::i51_deals_with_pods(const local::Change& change) {
  const auto groups = groups_of(change);
  if (!groups) return;
  const auto& [before, after] = *groups;
  if (before.spec.attempt != after.spec.attempt) return;
  bool is_dealt = false, is_told = false;
  for (const api::EligiblePod& pod : after.spec.pods) {
    const auto old = std::ranges::find(before.spec.pods, pod.slot, &api::EligiblePod::slot);
    const bool is_new = old == before.spec.pods.end();
    is_dealt |= pod.rank_order != (is_new ? -1 : old->rank_order);
    is_told |= !pod.uid.empty() && (is_new || pod.uid != old->uid);
  }
  if (is_dealt && !is_told && !is_found(before)) fail("I51", "ranks are dealt anew for nobody");
}

void Oracles::i51_ring_leaves_racks_once(const Nodes& nodes) {
  const auto hosts = nodes.hosts();
  for (const local::Object& object : api_.all(kube::resources::kWorkerGroups)) {
    const auto group = api::decode_worker_group(*object);
    if (!group) continue;
    std::vector<std::string> racks;  // one after the other
    for (const api::Member& member : group->status.members) {
      const auto place =
          std::ranges::find(group->spec.pods, member.ref.uid, &api::EligiblePod::uid);
      if (place == group->spec.pods.end()) continue;
      const local::Object pod = api_.find(kPods, place->name);
      const auto host =
          pod != nullptr ? hosts.find(text_at_pointer(*pod, "/spec/nodeName")) : hosts.end();
      if (host == hosts.end()) continue;
      const std::string& rack = host->second.labels.at(kRackLabel);
      if (racks.empty() || racks.back() != rack) racks.push_back(rack);
    }
    const std::set<std::string> touched(racks.begin(), racks.end());
    if (racks.size() > touched.size())
      fail("I51", "ranks go through " + std::to_string(touched.size()) + " racks in " +
                      std::to_string(racks.size()) + " runs");
  }
}

}  // namespace pawl::sim
