#include "operator/placement/placement.h"

#include <algorithm>
#include <functional>
#include <map>
#include <tuple>
#include <utility>

#include "common/base/check.h"
#include "operator/placement/fewest.h"

namespace pawl::placement {
namespace {

// Hosts within one domain that hold the gang.
struct Choice {
  std::vector<int> touched, hosts;
  int pristine = 0, left_over = 0;
  auto key() const { return std::tie(touched, pristine, left_over); }
};

bool has_fewer(const Choice& one, const Choice& other) { return one.touched < other.touched; }

class Search {
 public:
  Search(const Topology& topology, const Room& room, const Ask& ask)
      : topology_(topology), room_(room), ask_(ask), sums_(room.units.size() + 1, 0) {
    for (std::size_t i = 0; i < room.units.size(); ++i) sums_[i + 1] = sums_[i] + room.units[i];
  }

  std::optional<Placement> run() const;

 private:
  int units_on(int host) const { return room_.units[static_cast<std::size_t>(host)]; }
  int units_in(const Domain& domain) const {
    return sums_[static_cast<std::size_t>(domain.end_host)] -
           sums_[static_cast<std::size_t>(domain.first_host)];
  }
  bool is_pristine(int host) const { return room_.is_pristine[static_cast<std::size_t>(host)]; }
  std::vector<const Domain*> candidates(int depth) const;
  int fewest_children(int depth, const Domain& domain) const;
  Choice choose(int depth, const Domain& domain) const;
  Choice choose_down(int depth, const Domain& domain, bool is_greedy) const;
  void choose_exactly(int depth, const Domain& domain, Choice& choice) const;
  std::vector<const Domain*> choose_two_levels(int depth, const Domain& domain,
                                               Choice& choice) const;
  std::vector<const Domain*> choose_largest(std::vector<const Domain*> pool, Choice& choice) const;
  Placement placement_of(int depth, Choice choice) const;

  const Topology& topology_;
  const Room& room_;
  const Ask& ask_;
  std::vector<int> sums_;  // of the hosts before
};

std::optional<Placement> Search::run() const {
  for (int depth = topology_.host_depth(); depth >= ask_.required_depth; --depth) {
    const auto found = candidates(depth);
    if (found.empty()) continue;
    std::optional<Choice> best;
    for (const Domain* domain : found) {
      Choice choice = choose(depth, *domain);
      if (!best || choice.key() < best->key()) best = std::move(choice);
    }
    return placement_of(depth, std::move(*best));
  }
  return std::nullopt;
}

// Those that hold the gang, in as few children as any of them can.
std::vector<const Domain*> Search::candidates(int depth) const {
  std::vector<const Domain*> found;
  int fewest_of_all = 0;
  for (const Domain& domain : topology_.domains(depth)) {
    if (units_in(domain) < ask_.units) continue;
    const int count = depth == topology_.host_depth() ? 0 : fewest_children(depth, domain);
    if (found.empty() || count < fewest_of_all) {
      found.clear();
      fewest_of_all = count;
    }
    if (count == fewest_of_all) found.push_back(&domain);
  }
  return found;
}

int Search::fewest_children(int depth, const Domain& domain) const {
  std::vector<int> bins;
  for (const Domain& child : topology_.children(depth, domain)) bins.push_back(units_in(child));
  return fewest(std::move(bins), ask_.units);
}

Choice Search::choose(int depth, const Domain& domain) const {
  Choice choice;
  const int below = topology_.host_depth() - depth;
  if (below == 0) {
    choice.hosts = {domain.first_host};
  } else if (below > 2 && domain.end_host - domain.first_host <= kExactHosts) {
    choose_exactly(depth, domain, choice);
  } else {
    choice = choose_down(depth, domain, false);
    // Three levels and more: neither is the fewest of the third one always.
    if (below > 2) choice = std::min(choice, choose_down(depth, domain, true), has_fewer);
  }
  for (const int host : choice.hosts) choice.pristine += is_pristine(host) ? 1 : 0;
  choice.left_over = units_in(domain) - ask_.units;
  return choice;
}

// Two levels by the knapsack unless it is greedy, and what is below them largest first out of what
// was chosen.
Choice Search::choose_down(int depth, const Domain& domain, bool is_greedy) const {
  Choice choice;
  std::vector<const Domain*> chosen = {&domain};
  if (topology_.host_depth() - depth >= 2 && !is_greedy) {
    chosen = choose_two_levels(depth, domain, choice);
    depth += 2;
  }
  for (; depth < topology_.host_depth(); ++depth) {
    std::vector<const Domain*> pool;
    for (const Domain* one : chosen) {
      for (const Domain& child : topology_.children(depth, *one)) pool.push_back(&child);
    }
    chosen = choose_largest(std::move(pool), choice);
  }
  for (const Domain* host : chosen) choice.hosts.push_back(host->first_host);
  return choice;
}

std::vector<const Domain*> Search::choose_two_levels(int depth, const Domain& domain,
                                                     Choice& choice) const {
  std::vector<Crate> crates;
  std::vector<std::vector<const Domain*>> below;
  const auto children = topology_.children(depth, domain);
  for (std::size_t i = 0; i < children.size(); ++i) {
    std::vector<const Domain*> sorted;
    for (const Domain& one : topology_.children(depth + 1, children[i])) {
      if (units_in(one) > 0) sorted.push_back(&one);
    }
    std::ranges::stable_sort(sorted, std::greater{},
                             [this](const Domain* one) { return units_in(*one); });
    Crate crate{.index = static_cast<int>(i)};
    for (const Domain* one : sorted) crate.bins.push_back(units_in(*one));
    if (crate.bins.empty()) continue;
    crates.push_back(std::move(crate));
    below.push_back(std::move(sorted));
  }
  const int count = fewest_children(depth, domain);
  const std::vector<int> taken = fewest_bins(crates, count, ask_.units);
  std::vector<const Domain*> chosen;
  for (std::size_t i = 0; i < taken.size(); ++i)
    chosen.insert(chosen.end(), below[i].begin(), below[i].begin() + taken[i]);
  choice.touched = {count, static_cast<int>(chosen.size())};
  return chosen;
}

// The fewest; of the last one the smallest that does.
std::vector<const Domain*> Search::choose_largest(std::vector<const Domain*> pool,
                                                  Choice& choice) const {
  std::ranges::stable_sort(pool, std::greater{},
                           [this](const Domain* one) { return units_in(*one); });
  int units = ask_.units;
  std::size_t count = 0;
  for (; units > 0; ++count) units -= units_in(*pool[count]);
  std::size_t last = count - 1;
  units += units_in(*pool[last]);
  while (last + 1 < pool.size() && units_in(*pool[last + 1]) >= units) ++last;
  pool[count - 1] = pool[last];
  pool.resize(count);
  choice.touched.push_back(static_cast<int>(count));
  return pool;
}

// ---- all ways to touch a small domain

struct Way {
  int units = 0;
  std::vector<int> hosts;
};
using Ways = std::map<std::vector<int>, Way>;  // by the domains touched at each depth below

class Enumeration {
 public:
  Enumeration(const Topology& topology, const Room& room) : topology_(topology), room_(room) {}
  Ways ways(int depth, const Domain& domain) const {
    if (depth == topology_.host_depth()) {
      const int host = domain.first_host;
      const int units = room_.units[static_cast<std::size_t>(host)];
      return units > 0 ? Ways{{{}, {units, {host}}}} : Ways{};
    }
    const auto depths = static_cast<std::size_t>(topology_.host_depth() - depth);
    Ways all{{std::vector<int>(depths, 0), {}}};
    for (const Domain& child : topology_.children(depth, domain)) add(ways(depth + 1, child), all);
    all.erase(std::vector<int>(depths, 0));
    return all;
  }

 private:
  static void add(const Ways& child, Ways& all) {
    const Ways before = all;
    for (const auto& [touched, way] : before) {
      for (const auto& [below, more] : child) {
        std::vector<int> sum = touched;
        ++sum[0];
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
};

void Search::choose_exactly(int depth, const Domain& domain, Choice& choice) const {
  for (auto& [touched, way] : Enumeration(topology_, room_).ways(depth, domain)) {
    if (way.units < ask_.units) continue;
    choice.touched = touched;  // the map is in the order that counts
    choice.hosts = std::move(way.hosts);
    return;
  }
  PAWL_CHECK(false, "a domain that holds the gang has a way to");
}

// What is too much is left on the host that has the least: it cannot be as much as that host has,
// or the gang would do without it.
Placement Search::placement_of(int depth, Choice choice) const {
  std::ranges::sort(choice.hosts);
  Placement placement{.depth = depth, .touched = std::move(choice.touched)};
  int units = 0;
  for (const int host : choice.hosts) units += units_on(host);
  const auto least =
      std::ranges::min_element(choice.hosts, {}, [this](int host) { return units_on(host); });
  for (const int host : choice.hosts) {
    const int left = host == *least ? units - ask_.units : 0;
    placement.shares.push_back({host, units_on(host) - left});
  }
  return placement;
}

}  // namespace

std::optional<Placement> place(const Topology& topology, const Room& room, const Ask& ask) {
  PAWL_CHECK(ask.units > 0, "a gang has a member");
  PAWL_CHECK(std::cmp_equal(room.units.size(), topology.hosts()) &&
                 room.is_pristine.size() == room.units.size(),
             "room is said of each host");
  return Search(topology, room, ask).run();
}

}  // namespace pawl::placement
