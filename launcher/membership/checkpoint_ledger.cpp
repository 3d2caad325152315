#include "launcher/membership/checkpoint_ledger.h"
#include "common/base/mutant.h"

#include <algorithm>
#include <utility>

namespace pawl::membership {

void CheckpointLedger::add(ShardDone shard) {
  if (shard.rank < 0 || shard.rank >= world_size_) return;
  if (shard.step <= taken_ || dropped_.contains(shard.step)) return;
  auto& ranks = steps_[shard.step];
  ranks[shard.rank] = std::move(shard);
}

void CheckpointLedger::drop(std::int64_t step) {
  steps_.erase(step);
  dropped_.insert(step);
  // Nobody sends shards of a step that many checkpoints ago.
  while (dropped_.size() > 16) dropped_.erase(dropped_.begin());
}

void CheckpointLedger::confirm(std::int64_t step) { confirmed_ = std::max(confirmed_, step); }

std::optional<std::int64_t> CheckpointLedger::publishable() const {
  for (auto it = steps_.rbegin(); it != steps_.rend(); ++it) {
    if (is_mutant(Mutant::kB37PartialCheckpoint)) return it->first;
    if (it->first <= confirmed_ && std::cmp_equal(it->second.size(), world_size_)) return it->first;
  }
  return std::nullopt;
}

std::vector<ShardDone> CheckpointLedger::take(std::int64_t step) {
  std::vector<ShardDone> shards;
  for (auto& [rank, shard] : steps_[step]) shards.push_back(std::move(shard));
  taken_ = std::max(taken_, step);
  steps_.erase(steps_.begin(), steps_.upper_bound(step));
  return shards;
}

}  // namespace pawl::membership
