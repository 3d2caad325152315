#include "tests/placement/peers.h"

#include <algorithm>
#include <functional>
#include <set>
#include <tuple>

namespace pawl::placement::peers {
namespace {

using Pool = std::vector<const Domain*>;

int units_in(const Room& room, const Domain& domain) {
  int sum = 0;
  for (int host = domain.first_host; host < domain.end_host; ++host) sum += room.units_on(host);
  return sum;
}

Pool children_of(const Topology& topology, int depth, const Pool& pool) {
  Pool children;
  for (const Domain* one : pool) {
    for (const Domain& child : topology.children(depth, *one)) children.push_back(&child);
  }
  return children;
}

// The largest first; as soon as one suffices for the rest, the smallest that does.
Pool largest_then_best_fit(const Room& room, Pool pool, int units) {
  std::vector<std::pair<int, const Domain*>> sorted;
  for (const Domain* one : pool) sorted.emplace_back(units_in(room, *one), one);
  std::ranges::stable_sort(sorted, std::greater{}, [](const auto& entry) { return entry.first; });
  Pool chosen;
  for (std::size_t i = 0; i < sorted.size() && units > 0; ++i) {
    std::size_t at = i;
    if (sorted[i].first >= units) {
      while (at + 1 < sorted.size() && sorted[at + 1].first >= units) ++at;
    }
    if (sorted[at].first == 0) break;
    chosen.push_back(sorted[at].second);
    units -= sorted[at].first;
  }
  return chosen;
}

std::vector<int> hosts_of(const Pool& pool) {
  std::vector<int> hosts;
  for (const Domain* one : pool) hosts.push_back(one->first_host);
  std::ranges::sort(hosts);
  return hosts;
}

bool holds(const Room& room, const Domain& domain, const Ask& ask) {
  return units_in(room, domain) >= ask.units;
}

// Hosts of these, in order, until the gang has its place.
std::vector<int> fill(const Room& room, const std::vector<int>& order, int units) {
  std::vector<int> hosts;
  for (const int host : order) {
    if (units <= 0) break;
    const int here = room.units_on(host);
    if (here == 0) continue;
    hosts.push_back(host);
    units -= here;
  }
  std::ranges::sort(hosts);
  return hosts;
}

// Most room first, in eleven grades; of one grade in the order of the list.
void by_grades(const Topology& topology, const Room& room, int depth, const Domain& domain,
               std::vector<int>& order) {
  if (depth == topology.host_depth()) return order.push_back(domain.first_host);
  Pool sorted;
  for (const Domain& child : topology.children(depth, domain)) sorted.push_back(&child);
  std::ranges::stable_sort(sorted, std::greater{},
                           [&](const Domain* one) { return units_in(room, *one); });
  const auto grade = [&](std::size_t index) { return 10 * index / sorted.size(); };
  std::vector<std::pair<std::size_t, const Domain*>> graded;
  for (std::size_t i = 0; i < sorted.size(); ++i) graded.emplace_back(grade(i), sorted[i]);
  std::ranges::sort(graded, {}, [](const auto& entry) {
    return std::pair{entry.first, entry.second->first_host};
  });
  for (const auto& [rank, child] : graded) by_grades(topology, room, depth + 1, *child, order);
}

}  // namespace

std::vector<int> kueue(const Topology& topology, const Room& room, const Ask& ask) {
  int depth = std::max(topology.host_depth() - 1, 0);
  Pool chosen;
  for (; depth >= ask.required_depth && chosen.empty(); --depth) {
    const Domain* best = nullptr;
    for (const Domain& domain : topology.domains(depth)) {
      if (!holds(room, domain, ask)) continue;
      if (best == nullptr || units_in(room, domain) < units_in(room, *best)) best = &domain;
    }
    if (best != nullptr) chosen = {best};
  }
  if (chosen.empty()) return {};
  for (++depth; depth < topology.host_depth(); ++depth)
    chosen = largest_then_best_fit(room, children_of(topology, depth, chosen), ask.units);
  return hosts_of(chosen);
}

std::vector<int> volcano(const Topology& topology, const Room& room, const Ask& ask) {
  for (int depth = topology.host_depth(); depth >= ask.required_depth; --depth) {
    const Domain* best = nullptr;
    const auto fullness = [&](const Domain& one) {
      const int hosts = one.end_host - one.first_host;
      return std::pair{-units_in(room, one) / hosts, -one.first_host};
    };
    for (const Domain& domain : topology.domains(depth)) {
      if (holds(room, domain, ask) && (best == nullptr || fullness(domain) > fullness(*best)))
        best = &domain;
    }
    if (best == nullptr) continue;
    std::vector<int> order;
    for (int host = best->first_host; host < best->end_host; ++host) order.push_back(host);
    std::ranges::stable_sort(order, {}, [&](int host) { return room.units_on(host); });
    return fill(room, order, ask.units);
  }
  return {};
}

std::vector<int> kai(const Topology& topology, const Room& room, const Ask& ask) {
  for (int depth = topology.host_depth(); depth >= ask.required_depth; --depth) {
    const Domain* best = nullptr;
    for (const Domain& domain : topology.domains(depth)) {
      const bool is_tighter = best == nullptr || units_in(room, domain) < units_in(room, *best);
      if (holds(room, domain, ask) && is_tighter) best = &domain;
    }
    if (best == nullptr) continue;
    std::vector<int> order;
    by_grades(topology, room, depth, *best, order);
    return fill(room, order, ask.units);
  }
  return {};
}

const std::vector<Peer>& all() {
  static const std::vector<Peer> peers{{"kueue", kueue}, {"volcano", volcano}, {"kai", kai}};
  return peers;
}

std::vector<int> ours(const Topology& topology, const Room& room, const Ask& ask) {
  const auto placed = place(topology, room, ask);
  std::vector<int> hosts;
  if (!placed) return hosts;
  for (const Share& share : placed->shares) hosts.push_back(share.host);
  std::ranges::sort(hosts);
  return hosts;
}

std::vector<int> score(const Topology& topology, const std::vector<int>& hosts) {
  std::vector<int> tuple;
  if (hosts.empty()) return tuple;
  for (int depth = 0; depth <= topology.host_depth(); ++depth) {
    const auto domains = topology.domains(depth);
    std::set<std::ptrdiff_t> touched;
    for (const int host : hosts) {
      touched.insert(std::ranges::upper_bound(domains, host, {}, &Domain::first_host) -
                     domains.begin());
    }
    if (touched.size() == 1) {
      tuple = {-depth};
    } else {
      tuple.push_back(static_cast<int>(touched.size()));
    }
  }
  return tuple;
}

void count(Tally& tally, const std::vector<int>& ours, const std::vector<int>& theirs) {
  const bool is_better = theirs.empty() || ours < theirs;
  ++(is_better ? tally.better : ours == theirs ? tally.equal : tally.worse);
}

}  // namespace pawl::placement::peers
