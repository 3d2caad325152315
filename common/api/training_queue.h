// What jobs of one queue may use together. What crds/trainingqueues.yaml describes, decoded; the
// JSON codec is in codec.h. Values; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/api/meta.h"

namespace pawl::api {

struct ResourceQuota {
  std::string resource;
  // Quantities, as they were written; "": no limit.
  std::string nominal, borrowing_limit, lending_limit;
  std::string flavor = {};  // of the nodes that it is about, as the chart names them; "": of all
  bool operator==(const ResourceQuota&) const = default;
};

struct ResourceUse {
  std::string resource;
  std::string used, borrowed;  // quantities
  std::string flavor = {};
  bool operator==(const ResourceUse&) const = default;
};

// From whom its jobs take quota that is the queue's own, when others have borrowed it.
enum class Reclaim { kNever, kLowerPriority, kAny };

struct TrainingQueueStatus {
  std::int64_t observed_generation = 0;
  std::string usage;
  std::vector<ResourceUse> quotas;
  int running = 0, pending = 0, share_percent = 0;
  bool operator==(const TrainingQueueStatus&) const = default;
};

struct TrainingQueue {
  ObjectMeta meta;
  std::vector<ResourceQuota> quotas;
  int weight = 1;
  bool is_fifo = false;
  bool preempts_within = true;  // its jobs of lower priority make room for those of a higher one
  Reclaim reclaim = Reclaim::kAny;
  std::int64_t min_runtime_seconds = 0;  // for so long its jobs are left alone
  TrainingQueueStatus status;
};

}  // namespace pawl::api
