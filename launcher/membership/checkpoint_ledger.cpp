#include "launcher/membership/checkpoint_ledger.h"

#include <algorithm>
#include <utility>

#include "common/base/mutant.h"

namespace pawl::membership {

void CheckpointLedger::begin_generation(int world_size, std::int64_t start_step) {
  world_size_ = world_size;
  confirmed_ = start_step;
  taken_ = std::min(taken_, start_step);
  newest_ = std::min(newest_, start_step);
  steps_.clear();
  lost_.clear();
}

void CheckpointLedger::add(ShardDone shard) {
  if (shard.rank < 0 || shard.rank >= world_size_) return;
  if (shard.step <= taken_ || lost_.contains(shard.step)) return;
  newest_ = std::max(newest_, shard.step);
  auto& shards = steps_[shard.step].shards;
  shards[shard.rank] = std::move(shard);
}

void CheckpointLedger::drop(std::int64_t step, int rank) {
  if (rank < 0 || rank >= world_size_ || step <= taken_ || lost_.contains(step)) return;
  newest_ = std::max(newest_, step);
  steps_[step].failed.insert(rank);
}

std::vector<std::int64_t> CheckpointLedger::take_lost() {
  std::vector<std::int64_t> lost;
  for (auto& [step, one] : steps_) {
    if (one.failed.empty()) continue;
    for (const auto& [rank, shard] : one.shards) one.failed.insert(rank);
    one.shards.clear();
    if (std::cmp_equal(one.failed.size(), world_size_)) lost.push_back(step);
  }
  for (const std::int64_t step : lost) {
    steps_.erase(step);
    lost_.insert(step);
  }
  // Nobody sends shards of a step that many checkpoints ago.
  while (lost_.size() > 16) lost_.erase(lost_.begin());
  return lost;
}

void CheckpointLedger::confirm(std::int64_t step) { confirmed_ = std::max(confirmed_, step); }

std::optional<std::int64_t> CheckpointLedger::publishable() const {
  for (auto it = steps_.rbegin(); it != steps_.rend(); ++it) {
    if (is_mutant(Mutant::kB37PartialCheckpoint)) return it->first;
    const Step& step = it->second;
    const bool is_whole = step.failed.empty() && std::cmp_equal(step.shards.size(), world_size_);
    if (is_whole && it->first <= confirmed_) return it->first;
  }
  return std::nullopt;
}

std::vector<ShardDone> CheckpointLedger::take(std::int64_t step) {
  std::vector<ShardDone> shards;
  for (auto& [rank, shard] : steps_[step].shards) shards.push_back(std::move(shard));
  taken_ = std::max(taken_, step);
  steps_.erase(steps_.begin(), steps_.upper_bound(step));
  return shards;
}

}  // namespace pawl::membership
