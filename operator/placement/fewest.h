// The arithmetic of placement.cpp: how few of several bins hold a number of units. Pure.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace pawl::placement {

// The fewest of them that hold `units`; 0: all together do not. `bins` in any order.
int fewest(std::vector<int> bins, int units);

// A bin of bins: units of its own bins, largest first.
struct Crate {
  int index = 0;  // the caller's
  std::vector<int> bins;
};

// Of exactly `count` crates the fewest bins that hold `units`, at least one of each crate taken:
// how many of each crate's largest bins, by crate, 0 for those that are not taken. `count` is the
// fewest that hold them. A knapsack: O(crates · count · bins taken · bins a crate).
std::vector<int> fewest_bins(std::span<const Crate> crates, int count, int units);

}  // namespace pawl::placement
