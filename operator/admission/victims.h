// Who has to leave so that a gang gets its room at once. Thinks in domains: of each that may hold
// the gang the cheapest that have to go, then the domain of which those are the cheapest. Pure;
// deterministic; integers only.
//
// Of two prices the one with the lower highest priority is the lower, then the one with less work
// lost there (devices times seconds since the last checkpoint) and fewer gangs, then the same of
// the next lower priority. That elastic gangs go on at their minimum costs less than any gang that
// has to leave. Nobody leaves who need not: without any one of them the gang does not fit.
//
// Each priority's part is cheapest_cover() on the assumption that all those below it are gone,
// from the highest priority on down. Exact where no two choices cost the same, and while the steps
// suffice.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "operator/placement/ledger.h"

namespace pawl::admission {

struct Runner {    // a gang that runs, and may be sent away for the one that asks
  std::string id;  // the owner of its pods in the ledger
  std::int64_t priority = 0;
  std::int64_t lost = 0;           // device-seconds that it would have to do again
  std::vector<std::string> spare;  // pods, by their keys in the ledger: it goes on without them
  enum class Part { kNone, kSpare, kAll };
  Part gone = Part::kNone;  // goes in any case
  bool may_go = true;       // what is left of it
};

struct Victim {
  std::string id;
  bool is_shrunk = false;  // it gives up what is spare, and stays
  bool operator==(const Victim&) const = default;
};

struct Sacrifice {
  std::vector<Victim> victims;  // by id; nobody: it fits as it is
  placement::HostRange domain;
  // By priority, from the highest on: what those cost. Of shrunk ones kShrunk.
  std::vector<std::pair<std::int64_t, std::int64_t>> price;
};

inline constexpr std::int64_t kShrunk = INT64_MIN;

struct Need {
  placement::Shape shape;
  placement::Ask ask;
  std::vector<bool> is_closed = {};  // hosts that are kept for others; empty: none
  int steps = 50'000;                // of branch and bound, in all domains together
};

// Nothing: no domain would hold it if all of these were gone. `runners` by id.
std::optional<Sacrifice> choose_victims(placement::Ledger& ledger, const Need& need,
                                        std::span<const Runner> runners);

}  // namespace pawl::admission
