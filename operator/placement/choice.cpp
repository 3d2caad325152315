#include "operator/placement/choice.h"

#include <algorithm>
#include <functional>
#include <map>
#include <utility>

#include "common/base/check.h"
#include "operator/placement/fewest.h"

namespace pawl::placement {
namespace {

bool has_fewer(const Choice& one, const Choice& other) { return one.touched < other.touched; }

// ---- all ways to touch a small domain

struct Way {
  int units = 0;
  std::vector<int> hosts;
};
using Ways = std::map<std::vector<int>, Way>;  // by the domains touched at each depth below

class Enumeration {
 public:
  Enumeration(const Topology& topology, const Room& room, const Beside& beside)
      : topology_(topology), room_(room), beside_(beside) {}
  Ways ways(int depth, const Domain& domain) const {
    if (depth == topology_.host_depth()) {
      const int host = domain.first_host;
      const int units = room_.units_on(host);
      return units > 0 ? Ways{{{}, {units, {host}}}} : Ways{};
    }
    const auto depths = static_cast<std::size_t>(topology_.host_depth() - depth);
    Ways all{{std::vector<int>(depths, 0), {}}};
    for (const Domain& child : topology_.children(depth, domain))
      add(ways(depth + 1, child), beside_.touches(child), all);
    std::erase_if(all, [](const auto& way) { return way.second.units == 0; });
    return all;
  }

 private:
  static void add(const Ways& child, bool is_touched, Ways& all) {
    const Ways before = all;
    for (const auto& [touched, way] : before) {
      for (const auto& [below, more] : child) {
        std::vector<int> sum = touched;
        sum[0] += is_touched ? 0 : 1;
        for (std::size_t i = 0; i < below.size(); ++i) sum[i + 1] += below[i];
        Way next{way.units + more.units, way.hosts};
        next.hosts.insert(next.hosts.end(), more.hosts.begin(), more.hosts.end());
        auto& kept = all[std::move(sum)];
        if (next.units > kept.units) kept = std::move(next);
      }
    }
  }
  const Topology& topology_;
  const Room& room_;
  const Beside& beside_;
};

}  // namespace

int Chooser::fewest_children(int depth, const Domain& domain) const {
  std::vector<int> bins;
  int units = units_;
  for (const Domain& child : topology_.children(depth, domain)) {
    if (beside_.touches(child)) {
      units -= units_in(depth + 1, child);
    } else {
      bins.push_back(units_in(depth + 1, child));
    }
  }
  return units > 0 ? fewest(std::move(bins), units) : 0;
}

Choice Chooser::choose(int depth, const Domain& domain) const {
  Choice choice;
  const int below = topology_.host_depth() - depth;
  if (below == 0) {
    choice.hosts = {domain.first_host};
  } else if ((below > 2 || !beside_.is_empty()) &&
             domain.end_host - domain.first_host <= kExactHosts) {
    choose_exactly(depth, domain, choice);
  } else {
    choice = choose_down(depth, domain, !beside_.is_empty());
    // Three levels and more: neither is the fewest of the third one always.
    if (below > 2 && beside_.is_empty())
      choice = std::min(choice, choose_down(depth, domain, true), has_fewer);
  }
  for (const int host : choice.hosts) choice.pristine += room_.is_pristine(host) ? 1 : 0;
  choice.left_over = units_in(depth, domain) - units_;
  return choice;
}

// Two levels by the knapsack unless it is greedy, and what is below them largest first out of what
// was chosen.
Choice Chooser::choose_down(int depth, const Domain& domain, bool is_greedy) const {
  Choice choice;
  Pool chosen = {&domain};
  if (topology_.host_depth() - depth >= 2 && !is_greedy) {
    chosen = choose_two_levels(depth, domain, choice);
    depth += 2;
  }
  for (; depth < topology_.host_depth(); ++depth) {
    Pool pool;
    for (const Domain* one : chosen) {
      for (const Domain& child : topology_.children(depth, *one)) pool.push_back(&child);
    }
    chosen = choose_largest(depth + 1, std::move(pool), choice);
  }
  for (const Domain* host : chosen) choice.hosts.push_back(host->first_host);
  return choice;
}

Chooser::Pool Chooser::choose_two_levels(int depth, const Domain& domain, Choice& choice) const {
  std::vector<Crate> crates;
  std::vector<Pool> below;
  const auto children = topology_.children(depth, domain);
  for (std::size_t i = 0; i < children.size(); ++i) {
    Pool sorted;
    for (const Domain& one : topology_.children(depth + 1, children[i])) {
      if (units_in(depth + 2, one) > 0) sorted.push_back(&one);
    }
    std::ranges::stable_sort(sorted, std::greater{},
                             [&](const Domain* one) { return units_in(depth + 2, *one); });
    Crate crate{.index = static_cast<int>(i)};
    for (const Domain* one : sorted) crate.bins.push_back(units_in(depth + 2, *one));
    if (crate.bins.empty()) continue;
    crates.push_back(std::move(crate));
    below.push_back(std::move(sorted));
  }
  const int count = fewest_children(depth, domain);
  const std::vector<int> taken = fewest_bins(crates, count, units_);
  Pool chosen;
  for (std::size_t i = 0; i < taken.size(); ++i)
    chosen.insert(chosen.end(), below[i].begin(), below[i].begin() + taken[i]);
  choice.touched = {count, static_cast<int>(chosen.size())};
  return chosen;
}

// All that are touched already, and the fewest others; of the last one the smallest that does.
Chooser::Pool Chooser::choose_largest(int depth, Pool pool, Choice& choice) const {
  int units = units_;
  const auto others = std::stable_partition(
      pool.begin(), pool.end(), [this](const Domain* one) { return beside_.touches(*one); });
  std::for_each(pool.begin(), others, [&](const Domain* one) { units -= units_in(depth, *one); });
  std::stable_sort(others, pool.end(), [&](const Domain* one, const Domain* other) {
    return units_in(depth, *one) > units_in(depth, *other);
  });
  std::size_t count = static_cast<std::size_t>(others - pool.begin());
  const std::size_t first = count;
  for (; units > 0; ++count) units -= units_in(depth, *pool[count]);
  if (count > first) {
    std::size_t last = count - 1;
    units += units_in(depth, *pool[last]);
    while (last + 1 < pool.size() && units_in(depth, *pool[last + 1]) >= units) ++last;
    pool[count - 1] = pool[last];
  }
  pool.resize(count);
  choice.touched.push_back(static_cast<int>(count - first));
  return pool;
}

void Chooser::choose_exactly(int depth, const Domain& domain, Choice& choice) const {
  for (auto& [touched, way] : Enumeration(topology_, room_, beside_).ways(depth, domain)) {
    if (way.units < units_) continue;
    choice.touched = touched;  // the map is in the order that counts
    choice.hosts = std::move(way.hosts);
    return;
  }
  PAWL_CHECK(false, "a domain that holds the gang has a way to");
}

}  // namespace pawl::placement
