#include "operator/placement/placement.h"

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
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

// Hosts of members that stay.
class Beside {
 public:
  Beside(const Ask& ask, int hosts) : before_(static_cast<std::size_t>(hosts) + 1, 0) {
    for (const int host : ask.beside) before_[static_cast<std::size_t>(host) + 1] = 1;
    std::partial_sum(before_.begin(), before_.end(), before_.begin());
  }
  bool is_empty() const { return before_.back() == 0; }
  bool has(int host) const { return count(host, host + 1) > 0; }
  bool touches(const Domain& domain) const { return count(domain.first_host, domain.end_host) > 0; }
  bool lies_in(const Domain& domain) const {
    return count(domain.first_host, domain.end_host) == before_.back();
  }

 private:
  int count(int first, int end) const {
    return before_[static_cast<std::size_t>(end)] - before_[static_cast<std::size_t>(first)];
  }
  std::vector<int> before_;  // how many hosts of a lower number
};

class Search {
 public:
  Search(const Topology& topology, const Room& room, const Ask& ask)
      : topology_(topology),
        room_(room),
        ask_(ask),
        beside_(ask, topology.hosts()),
        sums_(room.units.size() + 1, 0) {
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
  const Beside beside_;
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
    if (units_in(domain) < ask_.units || !beside_.lies_in(domain)) continue;
    const int count = depth == topology_.host_depth() ? 0 : fewest_children(depth, domain);
    if (found.empty() || count < fewest_of_all) {
      found.clear();
      fewest_of_all = count;
    }
    if (count == fewest_of_all) found.push_back(&domain);
  }
  return found;
}

// New ones.
int Search::fewest_children(int depth, const Domain& domain) const {
  std::vector<int> bins;
  int units = ask_.units;
  for (const Domain& child : topology_.children(depth, domain)) {
    if (beside_.touches(child)) {
      units -= units_in(child);
    } else {
      bins.push_back(units_in(child));
    }
  }
  return units > 0 ? fewest(std::move(bins), units) : 0;
}

Choice Search::choose(int depth, const Domain& domain) const {
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

// All that are touched already, and the fewest others; of the last one the smallest that does.
std::vector<const Domain*> Search::choose_largest(std::vector<const Domain*> pool,
                                                  Choice& choice) const {
  int units = ask_.units;
  const auto others = std::stable_partition(
      pool.begin(), pool.end(), [this](const Domain* one) { return beside_.touches(*one); });
  std::for_each(pool.begin(), others, [&](const Domain* one) { units -= units_in(*one); });
  std::stable_sort(others, pool.end(), [this](const Domain* one, const Domain* other) {
    return units_in(*one) > units_in(*other);
  });
  std::size_t count = static_cast<std::size_t>(others - pool.begin());
  const std::size_t first = count;
  for (; units > 0; ++count) units -= units_in(*pool[count]);
  if (count > first) {
    std::size_t last = count - 1;
    units += units_in(*pool[last]);
    while (last + 1 < pool.size() && units_in(*pool[last + 1]) >= units) ++last;
    pool[count - 1] = pool[last];
  }
  pool.resize(count);
  choice.touched.push_back(static_cast<int>(count - first));
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
  Enumeration(const Topology& topology, const Room& room, const Beside& beside)
      : topology_(topology), room_(room), beside_(beside) {}
  Ways ways(int depth, const Domain& domain) const {
    if (depth == topology_.host_depth()) {
      const int host = domain.first_host;
      const int units = room_.units[static_cast<std::size_t>(host)];
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

void Search::choose_exactly(int depth, const Domain& domain, Choice& choice) const {
  for (auto& [touched, way] : Enumeration(topology_, room_, beside_).ways(depth, domain)) {
    if (way.units < ask_.units) continue;
    choice.touched = touched;  // the map is in the order that counts
    choice.hosts = std::move(way.hosts);
    return;
  }
  PAWL_CHECK(false, "a domain that holds the gang has a way to");
}

// What is too much is left on the new host that has the least: it cannot be as much as that host
// has, or the gang would do without it. Hosts that have members already are filled first.
Placement Search::placement_of(int depth, Choice choice) const {
  std::ranges::sort(choice.hosts);
  Placement placement{.depth = depth, .touched = std::move(choice.touched)};
  int least = -1, rest = ask_.units;
  std::map<int, int> shares;
  for (const int host : choice.hosts) {
    if (beside_.has(host)) {
      shares[host] = std::min(rest, units_on(host));
      rest -= shares[host];
    } else if (least < 0 || units_on(host) < units_on(least)) {
      least = host;
    }
  }
  for (const int host : choice.hosts) {
    if (beside_.has(host) || host == least) continue;
    shares[host] = units_on(host);
    rest -= shares[host];
  }
  if (least >= 0) shares[least] = rest;
  for (const auto& [host, units] : shares) {
    if (units > 0) placement.shares.push_back({host, units});
  }
  return placement;
}

}  // namespace

const Domain& domain_of(const Topology& topology, int depth, int host) {
  const auto domains = topology.domains(depth);
  return *(std::ranges::upper_bound(domains, host, {}, &Domain::first_host) - 1);
}

int common_depth(const Topology& topology, std::span<const int> hosts) {
  int depth = topology.host_depth();
  if (hosts.empty()) return depth;
  const auto [first, last] = std::ranges::minmax(hosts);
  while (depth > 0 && domain_of(topology, depth, first).end_host <= last) --depth;
  return depth;
}

// A domain holds what those within it hold: the ones of this depth are enough to look at.
Largest largest(const Topology& topology, const Room& room, int depth) {
  Largest most;
  for (const Domain& domain : topology.domains(depth)) {
    const auto first = room.units.begin();
    const int units = std::accumulate(first + domain.first_host, first + domain.end_host, 0);
    if (units > most.units) most = {units, &domain};
  }
  return most;
}

std::optional<Placement> place(const Topology& topology, const Room& room, const Ask& ask) {
  PAWL_CHECK(ask.units > 0, "a gang has a member");
  PAWL_CHECK(std::cmp_equal(room.units.size(), topology.hosts()) &&
                 room.is_pristine.size() == room.units.size(),
             "room is said of each host");
  return Search(topology, room, ask).run();
}

}  // namespace pawl::placement
