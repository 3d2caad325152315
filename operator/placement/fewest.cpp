#include "operator/placement/fewest.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "common/base/check.h"

namespace pawl::placement {
namespace {

int sum_of(const Crate& crate) { return std::accumulate(crate.bins.begin(), crate.bins.end(), 0); }

// Bins that the greedy choice takes: of the `count` largest crates the largest bins.
int bound(std::span<const Crate> crates, int count, int units) {
  std::vector<const Crate*> largest;
  for (const Crate& crate : crates) largest.push_back(&crate);
  std::ranges::stable_sort(largest, std::greater{}, [](const Crate* one) { return sum_of(*one); });
  std::vector<int> bins;
  for (int i = 0; i < count; ++i) {
    const Crate& crate = *largest[static_cast<std::size_t>(i)];
    bins.insert(bins.end(), crate.bins.begin(), crate.bins.end());
  }
  return fewest(std::move(bins), units);
}

// The most units of exactly j crates and r bins, and how many bins the last crate gave to it.
class Table {
 public:
  Table(std::size_t crates, int count, int bins)
      : width_(static_cast<std::size_t>(bins) + 1),
        size_((static_cast<std::size_t>(count) + 1) * width_),
        most_(size_, -1),
        taken_(crates * size_, 0) {
    most_[0] = 0;
  }
  int& most(int crates, int bins) { return most_[at(crates, bins)]; }
  int& taken(std::size_t crate, int crates, int bins) {
    return taken_[crate * size_ + at(crates, bins)];
  }

 private:
  std::size_t at(int crates, int bins) const {
    return static_cast<std::size_t>(crates) * width_ + static_cast<std::size_t>(bins);
  }
  std::size_t width_, size_;
  std::vector<int> most_, taken_;
};

}  // namespace

int fewest(std::vector<int> bins, int units) {
  std::ranges::sort(bins, std::greater{});
  int count = 0;
  for (const int bin : bins) {
    if (units <= 0 || bin <= 0) break;
    units -= bin;
    ++count;
  }
  return units <= 0 ? count : 0;
}

std::vector<int> fewest_bins(std::span<const Crate> crates, int count, int units) {
  const int bins_max = bound(crates, count, units);
  Table table(crates.size(), count, bins_max);
  for (std::size_t crate = 0; crate < crates.size(); ++crate) {
    for (int taken = count; taken > 0; --taken) {
      for (int bins = bins_max; bins > 0; --bins) {
        int given = 0;
        for (int i = 0; i < std::min<int>(bins, static_cast<int>(crates[crate].bins.size())); ++i) {
          given += crates[crate].bins[static_cast<std::size_t>(i)];
          const int before = table.most(taken - 1, bins - i - 1);
          if (before < 0 || before + given <= table.most(taken, bins)) continue;
          table.most(taken, bins) = before + given;
          table.taken(crate, taken, bins) = i + 1;
        }
      }
    }
  }
  int bins = 1;
  while (bins <= bins_max && table.most(count, bins) < units) ++bins;
  PAWL_CHECK(bins <= bins_max, "the greedy choice is one of those that the table has");
  std::vector<int> result(crates.size(), 0);
  for (std::size_t crate = crates.size(); crate-- > 0 && count > 0;) {
    const int taken = table.taken(crate, count, bins);
    result[crate] = taken;
    if (taken == 0) continue;
    --count;
    bins -= taken;
  }
  return result;
}

}  // namespace pawl::placement
