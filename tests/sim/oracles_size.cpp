// How many members a generation has.
#include <algorithm>
#include <string>
#include <utility>

#include "common/api/codec.h"
#include "common/base/json.h"
#include "tests/sim/oracles.h"

namespace pawl::sim {

using kube::resources::kPods;
using nlohmann::json;

bool Oracles::is_leader_leaving(const api::WorkerGroup& group) const {
  if (!group.status.leader) return false;
  const auto place =
      std::ranges::find(group.spec.pods, group.status.leader->ref.uid, &api::EligiblePod::uid);
  if (place == group.spec.pods.end()) return false;
  const local::Object pod = api_.find(kPods, place->name);
  return pod == nullptr || pod->at("metadata").contains("deletionTimestamp") ||
         (is_announced && is_announced(text_at_pointer(*pod, "/spec/nodeName")));
}

// Where a gang goes on with fewer than before, enough are left: unless all are to go.
void Oracles::i35_gang_is_large_enough(const local::Change& change) {
  if (change.before == nullptr || change.is_deletion) return;
  const auto before = api::decode_worker_group(*change.before);
  const auto after = api::decode_worker_group(*change.after);
  if (!before || !after || after->status.generation == before->status.generation) return;
  if (before->status.attempt != after->status.attempt || after->spec.is_stopping) return;
  if (is_leader_leaving(*after)) return;
  const std::size_t members = after->status.members.size();
  const bool is_short = std::cmp_less(members, after->spec.min_members);
  const bool is_first = before->status.members.empty();
  if (is_short && (is_first || members < before->status.members.size()))
    fail("I35", "a generation of " + std::to_string(members) + " of at least " +
                    std::to_string(after->spec.min_members));
}

// Those who wait for a lost one's place train in nobody else's. A state that is read from storage
// is the newest because of what each of them says of its own: all are kept for that generation; and
// a leader that leaves hands over in one.
void Oracles::i50_gang_is_small_enough(const local::Change& change) {
  if (change.before == nullptr || change.is_deletion) return;
  const auto before = api::decode_worker_group(*change.before);
  const auto after = api::decode_worker_group(*change.after);
  if (!before || !after || after->status.generation == before->status.generation) return;
  const api::WorkerGroupSpec& spec = after->spec;
  if (spec.spares == 0 || before->status.attempt != after->status.attempt) return;
  const bool is_stored = after->status.base_generation == 0 && !before->status.members.empty();
  const bool hands_over = is_leader_leaving(*after);
  const auto members = std::ranges::count_if(after->status.members, [&](const api::Member& one) {
    return one.slot < spec.target_members;
  });
  if (!is_stored && !hands_over && members > api::most_members(spec))
    fail("I50", "a generation of " + std::to_string(members) + ", and " +
                    std::to_string(spec.spares) + " of " + std::to_string(spec.target_members) +
                    " are to wait");
}

}  // namespace pawl::sim
