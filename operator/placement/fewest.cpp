#include "operator/placement/fewest.h"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <utility>

#include "common/base/check.h"

namespace pawl::placement {
namespace {

// Bins that are taken of each crate.
struct Taking {
  int bins = 0;
  std::vector<int> of_crate;
};

// What a crate is worth when each bin costs `price`, one bin at least: those that have more.
int worth(const Crate& crate, int price) {
  int sum = crate.bins.front() - price;
  for (std::size_t i = 1; i < crate.bins.size() && crate.bins[i] > price; ++i)
    sum += crate.bins[i] - price;
  return sum;
}

// Of these crates the largest bins.
Taking take_largest(std::span<const Crate> crates, std::span<const std::size_t> chosen, int units) {
  std::vector<std::pair<int, std::size_t>> bins;
  for (const std::size_t crate : chosen) {
    for (const int bin : crates[crate].bins) bins.emplace_back(-bin, crate);
  }
  std::ranges::sort(bins);
  Taking taking{.of_crate = std::vector<int>(crates.size(), 0)};
  for (const auto& [minus, crate] : bins) {
    if (units <= 0) break;
    units += minus;
    ++taking.bins;
    ++taking.of_crate[crate];
  }
  if (units > 0) taking.bins = 0;  // they do not hold them
  return taking;
}

// The best that Lagrange's multipliers find, and a bound that no choice goes below: where each bin
// costs `price`, `count` crates are worth no more than the `count` that are worth most, so that
// bins >= (units - worth) / price.
struct Priced {
  Taking best;
  int bins_min = 0, price = 0;  // the price that says so
};

Priced by_price(std::span<const Crate> crates, int count, int units) {
  std::vector<int> prices;
  for (const Crate& crate : crates)
    prices.insert(prices.end(), crate.bins.begin(), crate.bins.end());
  std::ranges::sort(prices);
  prices.erase(std::unique(prices.begin(), prices.end()), prices.end());
  prices.insert(prices.begin(), 0);
  Priced found;
  std::vector<std::pair<int, std::size_t>> values(crates.size());
  for (const int price : prices) {
    for (std::size_t i = 0; i < crates.size(); ++i) values[i] = {-worth(crates[i], price), i};
    const auto end = values.begin() + count;
    std::nth_element(values.begin(), end - 1, values.end());
    int most = 0;
    std::vector<std::size_t> chosen;
    for (auto value = values.begin(); value != end; ++value) {
      most -= value->first;
      chosen.push_back(value->second);
    }
    if (price > 0) found.bins_min = std::max(found.bins_min, (units - most + price - 1) / price);
    Taking taking = take_largest(crates, chosen, units);
    if (taking.bins > 0 && (found.best.bins == 0 || taking.bins < found.best.bins))
      found.best = std::move(taking);
    if (found.best.bins > 0 && found.best.bins == found.bins_min) break;
  }
  return found;
}

// All choices of `count` crates that may still do with `bins_max` bins, crate by crate, those that
// are worth most first: of those with as many crates and bins only the one with the most units, and
// none that cannot come to `units` even if what is left were worth its most.
class Walk {
 public:
  Walk(std::span<const Crate> crates, int count, int units, int bins_max, int price);
  std::optional<Taking> run();

 private:
  struct Step {
    int taken = 0, bins = 0, units = 0;
    int before = -1, given = 0;  // in steps_; bins of the crate that came last
    std::size_t crate = 0;
  };
  using Layer = std::map<std::pair<int, int>, Step>;  // by crates and bins taken
  bool may_do(const Step& step, std::size_t next) const;
  void keep(const Step& step, std::size_t next, Layer& layer) const;

  std::span<const Crate> crates_;
  const int count_, units_, bins_max_, price_;
  std::vector<std::size_t> order_;
  std::vector<int> worths_;  // of the first ones in order_, added up
  std::vector<Step> steps_;
};

Walk::Walk(std::span<const Crate> crates, int count, int units, int bins_max, int price)
    : crates_(crates), count_(count), units_(units), bins_max_(bins_max), price_(price) {
  std::vector<std::pair<int, std::size_t>> values;
  for (std::size_t i = 0; i < crates.size(); ++i) values.emplace_back(-worth(crates[i], price), i);
  std::ranges::sort(values);
  worths_.push_back(0);
  for (const auto& [minus, crate] : values) {
    order_.push_back(crate);
    worths_.push_back(worths_.back() - minus);
  }
}

bool Walk::may_do(const Step& step, std::size_t next) const {
  const auto wanted = static_cast<std::size_t>(count_ - step.taken);
  if (step.taken > count_ || step.bins > bins_max_ || next + wanted > order_.size()) return false;
  const int most = worths_[next + wanted] - worths_[next];
  return step.units + most + price_ * (bins_max_ - step.bins) >= units_;
}

void Walk::keep(const Step& step, std::size_t next, Layer& layer) const {
  if (!may_do(step, next)) return;
  const auto [found, is_new] = layer.try_emplace({step.taken, step.bins}, step);
  if (!is_new && step.units > found->second.units) found->second = step;
}

std::optional<Taking> Walk::run() {
  Layer layer{{{0, 0}, Step{}}};
  for (std::size_t i = 0; i < order_.size(); ++i) {
    const Crate& crate = crates_[order_[i]];
    Layer next;
    for (const auto& [key, step] : layer) {
      keep(step, i + 1, next);
      const int here = static_cast<int>(steps_.size());
      steps_.push_back(step);
      Step more{step.taken + 1, step.bins, step.units, here, 0, order_[i]};
      for (const int bin : crate.bins) {
        ++more.bins;
        ++more.given;
        more.units += bin;
        keep(more, i + 1, next);
      }
    }
    layer = std::move(next);
  }
  for (const auto& [key, step] : layer) {  // the fewest bins first
    if (step.taken != count_ || step.units < units_) continue;
    Taking taking{.bins = step.bins, .of_crate = std::vector<int>(crates_.size(), 0)};
    for (Step at = step; at.given > 0; at = steps_[static_cast<std::size_t>(at.before)])
      taking.of_crate[at.crate] = at.given;
    return taking;
  }
  return std::nullopt;
}

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
  Priced priced = by_price(crates, count, units);
  PAWL_CHECK(priced.best.bins > 0, "the largest crates hold them");
  if (priced.best.bins == priced.bins_min) return std::move(priced.best.of_crate);
  Walk walk(crates, count, units, priced.best.bins - 1, priced.price);
  auto better = walk.run();
  return better ? std::move(better->of_crate) : std::move(priced.best.of_crate);
}

}  // namespace pawl::placement
