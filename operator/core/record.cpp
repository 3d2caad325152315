// What the record of an attempt begins with.
#include <algorithm>
#include <map>

#include "common/base/hash.h"
#include "common/base/json.h"
#include "common/base/mutant.h"
#include "operator/core/node_steps.h"
#include "operator/core/steps.h"

namespace pawl::core {

using namespace api;

std::string pod_hash(const Pass& pass) {
  constexpr std::size_t kDigits = 16;
  TrainingJob job = pass.job;
  job.status.excluded_nodes.clear();  // where a pod may run is no part of what it is
  job.spec.capacity.reset();
  job.status.placement = {};
  ChildOptions options = pass.policy.children;
  options.metadata.clear();  // nor whom its launcher may ask
  const auto pod = worker_pod_of(job, job.status.attempt, 0, 0, options);
  return pod ? sha256_hex(pod->dump()).substr(0, kDigits) : "";
}

// Where nobody takes a lost one's place they are of no use; those that are there stay until the
// next attempt.
int spares_of(const Pass& pass) {
  const auto& scheduling = pass.job.spec.scheduling;
  if (has_successors(pass)) return scheduling ? scheduling->spares : 0;
  return pass.current_group != nullptr ? pass.current_group->spec.spares : 0;
}

int places_of(const Pass& pass) { return pass.job.spec.replicas + spares_of(pass); }

void set_range(const Pass& pass, WorkerGroupSpec& spec) {
  // Who is left out gets a successor, or the gang would only become smaller.
  const auto elastic = has_successors(pass) ? pass.job.spec.elastic : std::nullopt;
  const int most = most_members(spec);
  spec.min_members = elastic ? std::min(elastic->min_replicas, most) : most;
  if (elastic) spec.stabilization_seconds = elastic->stabilization_seconds;
  const bool may_begin_smaller =
      elastic && elastic->on_shortage == OnShortage::kShrink && spec.min_members < most;
  spec.shortage_seconds = may_begin_smaller ? elastic->shortage_seconds : 0;
}

WorkerGroupSpec group_spec(const Pass& pass) {
  WorkerGroupSpec spec;
  spec.attempt = pass.job.status.attempt;
  spec.spares = spares_of(pass);
  spec.target_members = places_of(pass);
  set_range(pass, spec);
  spec.checkpoint_now = pass.group != nullptr ? pass.group->spec.checkpoint_now : 0;
  spec.is_rank0_enough = pass.job.spec.success_policy == SuccessPolicy::kRank0;
  spec.is_in_place = is_in_place(pass);
  spec.has_successors = has_successors(pass);
  if (joins_pod_group(pass)) spec.pod_group = pod_group_name(pass.job, spec.attempt);
  spec.pod_hash = pod_hash(pass);
  spec.report_seconds = pass.policy.report_seconds;
  spec.before = tally_of(pass.job.status);
  for (int slot = 0; slot < spec.target_members; ++slot)
    spec.pods.push_back(
        {slot, pod_name(pass.job, spec.attempt, slot, 0), "", 0, order_of(pass.job, slot)});
  return spec;
}

// Who has no node yet comes last.
void deal_ranks(const Pass& pass, WorkerGroupSpec& spec) {
  const Seating* seating = pass.seen.seating;
  if (seating == nullptr || seating->rank_order.empty() || is_mutant(Mutant::kI51RanksBySlot))
    return;
  std::map<int, int> orders;  // by slot
  for (const int slot : seating->rank_order) orders.emplace(slot, static_cast<int>(orders.size()));
  for (EligiblePod& pod : spec.pods) {
    const bool stays = pod.slot < spec.target_members;
    if (stays) orders.emplace(pod.slot, static_cast<int>(orders.size()));
    const bool is_other = stays && orders.at(pod.slot) != pod.slot;
    pod.rank_order = is_other ? orders.at(pod.slot) : -1;
  }
}

}  // namespace pawl::core
