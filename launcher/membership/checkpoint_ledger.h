// The leader's account of which shards of which step are on storage. A step may be published once:
// when every rank's shard is there and the step is confirmed. Pure; owned by Gang.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <vector>

#include "launcher/membership/message.h"

namespace pawl::membership {

class CheckpointLedger {
 public:
  // Steps that are not whole never will be: who has their shards left with the generation before.
  void begin_generation(int world_size, std::int64_t start_step);
  void add(ShardDone shard);
  // This rank's shard could not be written: the step will never be whole.
  void drop(std::int64_t step, int rank);
  // The lost steps that every rank has answered for, so that nobody writes to them any more; each
  // is named once.
  std::vector<std::int64_t> take_lost();
  void confirm(std::int64_t step);
  std::int64_t confirmed() const { return confirmed_; }
  // The newest step that anybody sealed; -1: none.
  std::int64_t newest() const { return newest_; }

  // The newest step that is whole, confirmed and newer than everything published; older ones are
  // let go.
  std::optional<std::int64_t> publishable() const;
  // Takes its shards, by rank.
  std::vector<ShardDone> take(std::int64_t step);

 private:
  int world_size_ = 1;
  std::int64_t confirmed_ = 0;
  std::int64_t taken_ = -1;  // the newest step that was taken
  std::int64_t newest_ = -1;
  struct Step {
    std::map<int, ShardDone> shards;
    std::set<int> failed;  // ranks
  };
  std::map<std::int64_t, Step> steps_;
  std::set<std::int64_t> lost_;  // that were named
};

}  // namespace pawl::membership
