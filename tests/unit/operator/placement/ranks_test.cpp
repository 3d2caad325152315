// The order of ranks against brute force: what a gang that becomes smaller still touches, and how
// often a ring of all ranks goes from one domain to another.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <climits>
#include <map>
#include <numeric>
#include <set>

#include "operator/placement/placement.h"
#include "tests/unit/operator/placement/forest.h"

using namespace pawl::placement;
using namespace pawl::placement::forest;

namespace {

std::vector<int> by_rank(const Placement& placed) {
  std::vector<int> hosts;
  for (const Share& share : placed.shares)
    hosts.insert(hosts.end(), static_cast<std::size_t>(share.units), share.host);
  return hosts;
}

// What those of its hosts that are among these touch of the domains next below `domain`; what
// touches nothing new costs nothing.
class Below {
 public:
  Below(const World& world, int depth, int domain, std::span<const int> hosts,
        const std::vector<int>& beside)
      : world_(world), depth_(depth), domain_(domain) {
    for (const int host : hosts) {
      if (world.domain_of(depth, host) != domain) continue;
      ++members_[world.domain_of(depth + 1, host)];
      ++count_;
    }
    for (const int host : beside) known_.insert(world.domain_of(depth + 1, host));
  }
  int kept_of(std::span<const int> hosts) const {
    return static_cast<int>(std::ranges::count(
        hosts, domain_, [&](int host) { return world_.domain_of(depth_, host); }));
  }
  int touched_by(std::span<const int> hosts) const {
    std::set<int> touched;
    for (const int host : hosts) {
      const int below = world_.domain_of(depth_ + 1, host);
      if (world_.domain_of(depth_, host) == domain_ && !known_.contains(below))
        touched.insert(below);
    }
    return static_cast<int>(touched.size());
  }
  // By any so many of the members, for each number of them: all sets of domains.
  std::vector<int> fewest() const {
    std::vector<int> fewest(static_cast<std::size_t>(count_) + 1, INT_MAX);
    for (unsigned set = 0; set < (1U << members_.size()); ++set) {
      int holds = 0, is_new = 0, bit = 0;
      for (const auto& [below, members] : members_) {
        if ((set >> bit++ & 1U) == 0) continue;
        holds += members;
        is_new += known_.contains(below) ? 0 : 1;
      }
      for (int kept = 0; kept <= holds; ++kept) {
        int& least = fewest[static_cast<std::size_t>(kept)];
        least = std::min(least, is_new);
      }
    }
    return fewest;
  }

 private:
  const World& world_;
  const int depth_, domain_;
  std::map<int, int> members_;  // by the domain next below
  std::set<int> known_;
  int count_ = 0;
};

// Whatever the size, of each domain that holds members, the common one first: what is kept in it
// touches as few of the domains next below as any so many of its members.
void check_every_smaller_size(const World& world, int common, const std::vector<int>& hosts,
                              const std::vector<int>& beside = {}) {
  for (int depth = common; depth < world.topology.host_depth(); ++depth) {
    std::set<int> domains;
    for (const int host : hosts) domains.insert(world.domain_of(depth, host));
    for (const int domain : domains) {
      const Below below(world, depth, domain, hosts, beside);
      const std::vector<int> fewest = below.fewest();
      for (std::size_t size = 1; size <= hosts.size(); ++size) {
        const std::span kept = std::span(hosts).first(size);
        const int members = below.kept_of(kept);
        if (below.touched_by(kept) == fewest[static_cast<std::size_t>(members)]) continue;
        FAIL("depth " << depth << ", domain " << domain << ", " << size << " of " << hosts.size());
      }
    }
  }
}

// Of a ring, at all depths together.
int crossings(const World& world, const std::vector<int>& hosts) {
  int count = 0;
  for (std::size_t rank = 0; rank < hosts.size(); ++rank) {
    const int next = hosts[(rank + 1) % hosts.size()];
    for (int depth = 1; depth <= world.topology.host_depth(); ++depth)
      count += world.domain_of(depth, hosts[rank]) != world.domain_of(depth, next) ? 1 : 0;
  }
  return count;
}

// Against all orders; where the ring begins makes no difference.
void check_ring(const World& world, std::vector<int> hosts) {
  const int ours = crossings(world, hosts);
  std::ranges::sort(hosts);
  int least = INT_MAX;
  do {
    least = std::min(least, crossings(world, hosts));
  } while (std::next_permutation(hosts.begin() + 1, hosts.end()));
  CHECK(ours == least);
}

void check_placements(const Case& one, int ring_max) {
  const World world(one);
  const int total = std::accumulate(one.units.begin(), one.units.end(), 0);
  for (int depth = 0; depth <= world.topology.host_depth(); ++depth) {
    for (int units = 1; units <= total; ++units) {
      const Ask ask{units, depth};
      const auto placed = place(world.topology, world.room, ask);
      if (!placed) continue;
      INFO(units << " members, depth " << depth);
      const std::vector<int> hosts = by_rank(*placed);
      REQUIRE(std::cmp_equal(hosts.size(), units));
      check_every_smaller_size(world, placed->depth, hosts);
      if (units <= ring_max) check_ring(world, hosts);
    }
  }
}

void check_beside(Trees& trees, int machines_max) {
  const Case one = trees.next(machines_max);
  Ask ask = trees.ask_of(one);
  ask.beside = trees.some_of(one);
  const World world(one);
  if (const auto placed = place(world.topology, world.room, ask))
    check_every_smaller_size(world, placed->depth, by_rank(*placed), ask.beside);
}

// Members on any hosts, as after losses: each is there once, and they lie as well as they can.
void check_dealt_anew(Trees& trees, int members_max) {
  const World world(trees.next(9));
  std::vector<int> hosts(1 +
                         static_cast<std::size_t>(trees.below(static_cast<unsigned>(members_max))));
  for (int& host : hosts) host = trees.below(static_cast<unsigned>(world.topology.hosts()));
  std::vector<int> order = order_of_ranks(world.topology, hosts);
  std::vector<int> dealt;
  for (const int member : order) dealt.push_back(hosts.at(static_cast<std::size_t>(member)));
  check_ring(world, dealt);
  std::vector<int> all(hosts.size());
  std::iota(all.begin(), all.end(), 0);
  CHECK(order_of_ranks(world.topology, dealt) == all);
  std::ranges::sort(order);
  CHECK(order == all);
}

// Of four members on four hosts of one rack and three on one host of another.
const Case kTorn{.labels = {"rack"},
                 .machines = {{"a", {{"rack", "1"}}},
                              {"b", {{"rack", "1"}}},
                              {"c", {{"rack", "1"}}},
                              {"d", {{"rack", "1"}}},
                              {"e", {{"rack", "2"}}}},
                 .units = {1, 1, 1, 1, 3}};

// Domains that the first of these touch, at each depth below the cluster.
std::vector<int> touched_by(const World& world, std::span<const int> hosts) {
  std::vector<int> touched;
  for (int depth = 1; depth <= world.topology.host_depth(); ++depth) {
    std::set<int> domains;
    for (const int host : hosts) domains.insert(world.domain_of(depth, host));
    touched.push_back(static_cast<int>(domains.size()));
  }
  return touched;
}

// By any so many of them, the first depth first.
std::vector<int> least_touched(const World& world, const std::vector<int>& hosts, int count) {
  std::vector<int> least;
  for (unsigned set = 1; set < (1U << hosts.size()); ++set) {
    std::vector<int> some;
    for (std::size_t i = 0; i < hosts.size(); ++i) {
      if ((set >> i & 1U) != 0) some.push_back(hosts[i]);
    }
    if (std::cmp_not_equal(some.size(), count)) continue;
    auto touched = touched_by(world, some);
    if (least.empty() || touched < least) least = std::move(touched);
  }
  return least;
}

}  // namespace

TEST_CASE("ranks: those in domains with most members come first", "[placement]") {
  Case one{.labels = {"rack"}};
  for (const auto& [name, rack, units] :
       {std::tuple{"a", "1", 1}, {"b", "2", 2}, {"c", "2", 4}, {"d", "3", 3}, {"e", "3", 3}}) {
    one.machines.push_back({name, {{"rack", rack}}});
    one.units.push_back(units);
  }
  const World world(one);
  const auto all = place(world.topology, world.room, {13, 0});
  REQUIRE(all.has_value());
  CHECK(all->shares == std::vector<Share>{{2, 4}, {1, 2}, {3, 3}, {4, 3}, {0, 1}});
  // What the others are on goes before.
  const auto more = place(world.topology, world.room, {13, 0, {0, 1}});
  REQUIRE(more.has_value());
  CHECK(more->shares == std::vector<Share>{{1, 2}, {2, 4}, {0, 1}, {3, 3}, {4, 3}});
}

TEST_CASE("ranks: of racks with as many members the one with fewer hosts is kept for longer",
          "[placement]") {
  Case one{.labels = {"rack"},
           .machines = {{"a", {{"rack", "1"}}}, {"b", {{"rack", "1"}}}, {"c", {{"rack", "2"}}}},
           .units = {1, 1, 2}};
  const World world(one);
  const auto placed = place(world.topology, world.room, {4, 0});
  REQUIRE(placed.has_value());
  CHECK(placed->shares == std::vector<Share>{{2, 2}, {0, 1}, {1, 1}});
}

TEST_CASE("ranks: dealt anew, members on one host keep the order that they had", "[placement]") {
  const World world(kTorn);
  const std::vector<int> hosts{4, 0, 4, 2, 4};
  CHECK(order_of_ranks(world.topology, hosts) == std::vector<int>{0, 2, 4, 1, 3});
  CHECK(order_of_ranks(world.topology, {}).empty());
}

TEST_CASE("ranks: no order is the best at all depths for every smaller size", "[placement]") {
  const World world(kTorn);
  std::vector<int> hosts{0, 1, 2, 3, 4, 4, 4};
  int best = 0;  // of so many sizes an order has the fewest at all depths, at most
  do {
    int sizes = 0;
    for (int size = 1; size <= 7; ++size) {
      const auto kept = std::span<const int>(hosts).first(static_cast<std::size_t>(size));
      sizes += touched_by(world, kept) == least_touched(world, hosts, size) ? 1 : 0;
    }
    best = std::max(best, sizes);
  } while (std::ranges::next_permutation(hosts).found);
  CHECK(best == 6);
}

TEST_CASE(
    "ranks: what stays of a gang that becomes smaller is as near together as brute force "
    "says on random trees",
    "[placement]") {
  Trees trees;
  for (int i = 0; i < 60; ++i) {
    INFO("case " << i);
    check_placements(trees.next(9), 6);
    check_beside(trees, 9);
    check_dealt_anew(trees, 6);
  }
}

// ---- minutes of work, for `unit_operator_placement "[oracle]"`

TEST_CASE("ranks: every smaller size, and rings, on every tree of up to 12 free hosts",
          "[.][oracle]") {
  // Of trees of up to 9: how often what is kept touches the fewest domains at all depths together.
  int sizes = 0, nearest = 0;
  for (int leaves = 1; leaves <= 12; ++leaves) {
    for (const auto& blocks : trees(leaves)) {
      const Case one = case_of(blocks);
      check_placements(one, 7);
      if (leaves > 9) continue;
      const World world(one);
      const auto hosts = by_rank(*place(world.topology, world.room, {leaves, 0}));
      for (int size = 1; size < leaves; ++size) {
        const auto kept = std::span<const int>(hosts).first(static_cast<std::size_t>(size));
        ++sizes;
        nearest += touched_by(world, kept) == least_touched(world, hosts, size) ? 1 : 0;
      }
    }
  }
  CHECK(sizes == 6'074);
  CHECK(nearest == 5'629);
}

TEST_CASE("ranks: every smaller size, and rings, on 10,000 random trees of up to 12 hosts",
          "[.][oracle]") {
  Trees trees;
  for (int i = 0; i < 10'000; ++i) {
    INFO("case " << i);
    check_placements(trees.next(12), 6);
    check_beside(trees, 12);
    check_dealt_anew(trees, 7);
  }
}
