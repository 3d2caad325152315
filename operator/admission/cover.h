// The cheapest groups of pods that have to go from one domain so that a number of members fits: a
// knapsack that has to be filled, but for groups that free more together than apart (two halves of
// one host). Pure; deterministic; integers only.
//
// The better of two: by price per member, then what turned out not to be needed is dropped, the
// dearest first; and branch and bound with the linear relaxation as its bound (Martello and Toth,
// Knapsack Problems, 1990, 2.5), for as many steps as are given. Exact where those suffice.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "operator/placement/clearing.h"

namespace pawl::admission {

struct Priced {
  std::size_t group = 0;   // of the clearing
  std::int64_t price = 0;  // 1 at least
};

struct Cover {
  std::vector<std::size_t> groups;  // ascending
  std::int64_t price = 0;
};

// `clearing` is as it was afterwards. `steps` are used up. Nothing: all of them together do not
// make room for so many.
std::optional<Cover> cheapest_cover(placement::Clearing& clearing, placement::HostRange range,
                                    std::span<const Priced> offered, int units, int& steps);

}  // namespace pawl::admission
