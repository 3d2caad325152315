// The knapsack of placement against all choices there are.
#include "operator/placement/fewest.h"

#include <algorithm>
#include <bit>
#include <catch2/catch_test_macros.hpp>
#include <numeric>
#include <random>

using namespace pawl::placement;

namespace {

// Of all sets of `count` crates the fewest bins, of the largest of those crates.
int fewest_of_all(const std::vector<Crate>& crates, int count, int units) {
  int best = 0;
  for (unsigned set = 0; set < (1U << crates.size()); ++set) {
    if (std::popcount(set) != count) continue;
    std::vector<int> bins;
    for (std::size_t i = 0; i < crates.size(); ++i) {
      if ((set >> i & 1U) != 0)
        bins.insert(bins.end(), crates[i].bins.begin(), crates[i].bins.end());
    }
    const int found = fewest(bins, units);
    if (found > 0 && (best == 0 || found < best)) best = found;
  }
  return best;
}

}  // namespace

TEST_CASE("fewest: the largest ones first", "[placement]") {
  CHECK(fewest({3, 9, 1}, 9) == 1);
  CHECK(fewest({3, 9, 1}, 10) == 2);
  CHECK(fewest({3, 9, 1}, 14) == 0);
  CHECK(fewest({}, 1) == 0);
  CHECK(fewest({0, 0}, 1) == 0);
}

TEST_CASE("fewest: of so many crates no other choice takes fewer bins", "[placement]") {
  std::mt19937 random{7};
  const auto below = [&](unsigned most) { return static_cast<int>(random() % most); };
  for (int i = 0; i < 1'000; ++i) {
    std::vector<Crate> crates;
    std::vector<int> sums;
    const int bin_max = 1 + below(12);
    for (int n = 1 + below(8); n > 0; --n) {
      Crate crate;
      for (int bin = 1 + below(5); bin > 0; --bin)
        crate.bins.push_back(1 + below(static_cast<unsigned>(bin_max)));
      std::ranges::sort(crate.bins, std::greater{});
      sums.push_back(std::accumulate(crate.bins.begin(), crate.bins.end(), 0));
      crates.push_back(std::move(crate));
    }
    const int units =
        1 + below(static_cast<unsigned>(std::accumulate(sums.begin(), sums.end(), 0)));
    const int count = fewest(sums, units);
    const std::vector<int> taken = fewest_bins(crates, count, units);
    INFO("case " << i);
    int held = 0;
    for (std::size_t n = 0; n < crates.size(); ++n) {
      const auto& bins = crates[n].bins;
      held += std::accumulate(bins.begin(), bins.begin() + taken[n], 0);
    }
    CHECK(held >= units);
    CHECK(std::ranges::count_if(taken, [](int bins) { return bins > 0; }) == count);
    CHECK(std::accumulate(taken.begin(), taken.end(), 0) == fewest_of_all(crates, count, units));
  }
}
