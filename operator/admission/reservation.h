// Hosts that are kept for a gang that has waited for long, so that a stream of smaller ones cannot
// keep it waiting for ever: EASY backfilling (Lifka 1995) by domains. Those behind it in line get
// room there only if they will have ended before it can begin. Pure.
//
// Of the domains that the gang may be in the one that holds it first, as far as the ends of what
// runs are known; else the one that lacks the fewest members. In it the hosts that have room now,
// then those that have it soonest. It is made anew in each round: what is free in the chosen domain
// is taken by nobody from behind, so that with each pod that ends there the gang lacks less.
#pragma once

#include <optional>
#include <vector>

#include "common/base/clock.h"
#include "operator/placement/ledger.h"

namespace pawl::admission {

struct Reservation {
  std::vector<int> hosts;  // by number, ascending
  TimePoint begin;         // when all have room for it; Outlook::kUnknown: nobody knows
  int depth = 0;           // of its domain
  const placement::Domain* domain = nullptr;  // of the topology
  int lacking = 0;                            // members that the domain has no room for now
};

struct Prospect {  // of members of one shape
  const placement::Topology& topology;
  const placement::Room& room;
  placement::Outlook outlook;
  std::vector<int> own = {};  // hosts of its members that stay
};

// What should have ended for so long has not: nobody knows when it will.
inline constexpr std::chrono::minutes kOverdueMax{5};

// `is_kept`, by the host's number: for somebody else. Nothing: no domain will ever hold it.
std::optional<Reservation> reserve(const Prospect& prospect, const placement::Ask& ask,
                                   const std::vector<bool>& is_kept, TimePoint now);

}  // namespace pawl::admission
