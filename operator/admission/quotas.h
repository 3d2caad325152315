// What each queue may use at one time, and what it uses. A queue has a nominal quota of each
// resource that it names; of others it uses what it likes. What it does not use of its quota, up to
// its lending limit, is a pool for all queues; who uses more than its own borrows from that pool.
// Integers only; deterministic. Owner thread of the controller only.
//
// Who goes first is dominant resource fairness (Ghodsi et al., NSDI 2011): the queue of which the
// largest share of any resource, by its weight, is the smallest.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "common/api/training_queue.h"
#include "operator/placement/resources.h"

namespace pawl::admission {

struct Quota {
  std::int64_t nominal = 0;                        // as in Resources
  std::optional<std::int64_t> borrowing_max = {};  // beyond it; nothing: as much as others lend
  std::optional<std::int64_t> lending_max = {};    // of it; nothing: all
  bool operator==(const Quota&) const = default;
};

using api::Reclaim;

struct Queue {
  std::map<std::string, Quota> quotas;  // by resource
  int weight = 1;
  bool is_fifo = false;         // nobody goes before the first in line
  bool preempts_within = true;  // lower priorities make room for higher ones
  Reclaim reclaim = Reclaim::kAny;
  std::chrono::seconds protected_for{0};  // its gangs, from when they have nodes
  bool operator==(const Queue&) const = default;
};

// Of a resource of which there will never be enough, else of the first of which there is too
// little.
struct Shortage {
  std::string resource;
  std::int64_t needed = 0, available = 0, used = 0, nominal = 0;
  bool is_for_ever = false;  // with all that the queues have now it would still be too little
};

class Quotas {
 public:
  // True if that is news.
  bool set(const std::string& name, Queue queue);
  bool drop(const std::string& name);
  const Queue* find(const std::string& name) const;
  const std::map<std::string, Queue>& queues() const { return queues_; }

  // What this owner uses, in place of what it used before. True if some of that has become free.
  bool charge(const std::string& owner, const std::string& queue, placement::Resources amount);
  const placement::Resources& charged(const std::string& owner) const;
  std::int64_t used(const std::string& queue, const std::string& resource) const;
  // How many owners use something.
  int running(const std::string& queue) const;

  // Kept for one of that queue that waits: counts as used, but not for its share. In place of what
  // was kept before.
  void set_claim(const std::string& queue, placement::Resources amount);
  void drop_claims();
  // As much of it as the queue need not borrow.
  placement::Resources entitled(const std::string& queue, const placement::Resources& more) const;

  // Which count as used: those of other queues alone, where the own one's comes later in line.
  enum class Claims { kAll, kOfOthers, kNone };
  std::optional<Shortage> shortage(const std::string& queue, const placement::Resources& more,
                                   Claims claims = Claims::kAll) const;
  bool borrows(const std::string& queue, const placement::Resources& more) const;
  // Of all that the queues have, in millionths, by weight.
  std::int64_t share(const std::string& queue) const;
  int share_percent(const std::string& queue) const;  // without the weight
  std::uint64_t changes() const { return changes_; }  // of queues and charges, so far

 private:
  using Used = std::map<std::string, placement::Resources>;  // by queue
  struct Charge {
    std::string queue;
    placement::Resources amount;
  };
  struct Pool {  // of one resource, of all queues
    std::int64_t total = 0, lent = 0;
  };
  void fill_pools();
  void count(const Charge& charge, int sign);
  std::int64_t taken(const std::string& queue, const std::string& resource, Claims claims) const;
  std::int64_t millionths(const std::string& queue) const;
  std::int64_t left_in_pool(const std::string& resource, Claims claims) const;

  std::map<std::string, Queue> queues_;
  std::map<std::string, Pool> pools_;      // by resource
  std::map<std::string, Charge> charges_;  // by owner; none is empty
  std::map<std::string, int> running_;     // by queue
  Used used_, claims_;
  std::uint64_t changes_ = 0;
  // In the pools, as far as it was asked for since something changed.
  mutable std::map<std::pair<std::string, Claims>, std::int64_t> left_;
};

}  // namespace pawl::admission
