// Gangs in slices against brute force: every set of the slices' domains of small trees.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <map>
#include <optional>

#include "operator/placement/placement.h"
#include "tests/unit/operator/placement/forest.h"

using namespace pawl::placement;
using namespace pawl::placement::forest;

namespace {

// The tuple that counts, of these hosts, down to that depth.
std::vector<int> tuple_to(const World& world, const std::vector<int>& hosts, int depth) {
  std::vector<int> tuple = world.tuple_of(hosts);
  const int levels = depth + tuple.front();  // below the common domain
  tuple.resize(static_cast<std::size_t>(std::max(levels, 0)) + 1);
  return tuple;
}

bool fits_together(const World& world, const Ask& ask) {
  const auto domains = world.topology.domains(ask.slices.depth);
  return std::ranges::any_of(domains, [&](const Domain& domain) {
    return world.room.units_in(world.topology, ask.slices.depth, domain) >= ask.units;
  });
}

// Of gangs that do not fit into one of the domains of their slices.
std::optional<std::vector<int>> best_in_slices(const World& world, const Ask& ask) {
  const auto domains = world.topology.domains(ask.slices.depth);
  std::optional<std::vector<int>> found;
  for (unsigned set = 1; set < (1U << domains.size()); ++set) {
    int slices = 0;
    std::vector<int> hosts;
    for (std::size_t i = 0; i < domains.size(); ++i) {
      if ((set >> i & 1U) == 0) continue;
      hosts.push_back(domains[i].first_host);
      slices += world.room.units_in(world.topology, ask.slices.depth, domains[i]) / ask.slices.size;
    }
    if (slices * ask.slices.size < ask.units) continue;
    auto tuple = tuple_to(world, hosts, ask.slices.depth);
    if (-tuple[0] >= ask.required_depth && (!found || tuple < *found)) found = std::move(tuple);
  }
  return found;
}

// Each so many ranks in one domain.
void check_slices(const World& world, const Ask& ask, const std::vector<Share>& shares) {
  std::vector<int> domains;  // by rank
  for (const Share& share : shares) {
    CHECK(share.units > 0);
    CHECK(share.units <= world.room.units_on(share.host));
    const int domain = world.domain_of(ask.slices.depth, share.host);
    domains.insert(domains.end(), static_cast<std::size_t>(share.units), domain);
  }
  REQUIRE(std::cmp_equal(domains.size(), ask.units));
  for (std::size_t rank = 0; rank < domains.size(); ++rank) {
    const std::size_t first = rank - rank % static_cast<std::size_t>(ask.slices.size);
    CHECK(domains[rank] == domains[first]);
  }
}

// Within each domain as if its members were a gang of their own there.
void check_within(const World& world, const Ask& ask, const std::vector<Share>& shares) {
  std::map<int, std::vector<int>> hosts;  // by domain
  std::map<int, int> units;
  for (const Share& share : shares) {
    const int domain = world.domain_of(ask.slices.depth, share.host);
    hosts[domain].push_back(share.host);
    units[domain] += share.units;
  }
  for (const auto& [domain, taken] : hosts) {
    World alone = world;
    for (int host = 0; host < world.topology.hosts(); ++host) {
      if (world.domain_of(ask.slices.depth, host) != domain) alone.room.close(alone.topology, host);
    }
    const auto best = place(alone.topology, alone.room, {units.at(domain), ask.slices.depth});
    REQUIRE(best.has_value());
    std::vector<int> others;
    for (const Share& share : best->shares) others.push_back(share.host);
    CHECK(world.tuple_of(taken) == world.tuple_of(others));
  }
}

void check_case(const Case& one, const Ask& ask) {
  const World world(one);
  const auto placed = place(world.topology, world.room, ask);
  const auto most = largest(world.topology, world.room, ask);
  if (fits_together(world, ask)) {
    REQUIRE(placed.has_value());
    CHECK(placed->depth >= ask.slices.depth);
    CHECK(placed->shares ==
          place(world.topology, world.room, {ask.units, ask.slices.depth})->shares);
    return;
  }
  const auto best = best_in_slices(world, ask);
  REQUIRE(placed.has_value() == best.has_value());
  CHECK(placed.has_value() == (most.units >= ask.units));
  if (!placed) return;
  std::vector<int> hosts;
  for (const Share& share : placed->shares) hosts.push_back(share.host);
  CHECK(tuple_to(world, hosts, ask.slices.depth) == *best);
  std::vector<int> tuple = {-placed->depth};
  tuple.insert(tuple.end(), placed->touched.begin(), placed->touched.end());
  CHECK(world.tuple_of(hosts) == tuple);
  check_slices(world, ask, placed->shares);
  check_within(world, ask, placed->shares);
}

void check_random_trees(int cases, int machines_max) {
  Trees trees;
  for (int i = 0; i < cases; ++i) {
    INFO("case " << i);
    const Case one = trees.next(machines_max);
    const int host_depth = static_cast<int>(one.labels.size()) + 1;
    Ask ask = trees.ask_of(one);
    ask.slices = {2 + trees.below(3), 1 + trees.below(static_cast<unsigned>(host_depth))};
    ask.units = std::max(ask.units / ask.slices.size, 1) * ask.slices.size;
    ask.required_depth = trees.below(static_cast<unsigned>(ask.slices.depth));
    check_case(one, ask);
  }
}

}  // namespace

TEST_CASE("slices: each within one rack, on as few racks as can be", "[placement]") {
  Case one{.labels = {"rack"}};
  const std::vector<int> racks = {3, 5, 3, 4};  // machines for one member each
  for (std::size_t rack = 0; rack < racks.size(); ++rack) {
    for (int i = 0; i < racks[rack]; ++i) {
      const std::string name = std::to_string(rack);
      one.machines.push_back({name + "-" + std::to_string(i), {{"rack", name}}});
      one.units.push_back(1);
    }
  }
  const World world(one);
  Ask ask{.units = 8, .slices = {4, 1}};
  const auto placed = place(world.topology, world.room, ask);
  REQUIRE(placed.has_value());
  CHECK(placed->touched == std::vector<int>{2, 8});
  check_slices(world, ask, placed->shares);
  ask.units = 12;  // fifteen machines, and two racks with a whole group
  CHECK_FALSE(place(world.topology, world.room, ask).has_value());
  CHECK(largest(world.topology, world.room, ask).units == 8);
}

TEST_CASE("slices: beside others in whole slices", "[placement]") {
  Case one{.labels = {"block", "rack"}};
  for (const char* block : {"a", "b"}) {
    for (const char* rack : {"1", "2", "3"}) {
      for (int i = 0; i < 2; ++i) {
        const std::string name = std::string(block) + rack + std::to_string(i);
        one.machines.push_back({name, {{"block", block}, {"rack", rack}}});
        one.units.push_back(name.starts_with("a1") ? 0 : 1);
      }
    }
  }
  const World world(one);
  const auto placed =
      place(world.topology, world.room, {.units = 2, .beside = {0, 1}, .slices = {2, 2}});
  REQUIRE(placed.has_value());
  CHECK(placed->depth == 1);
  CHECK(world.domain_of(2, placed->shares.front().host) ==
        world.domain_of(2, placed->shares.back().host));
  CHECK(world.topology.host(placed->shares.front().host).starts_with("a"));
}

TEST_CASE("slices: as brute force on random trees", "[placement][A45]") {
  check_random_trees(400, 9);
}

TEST_CASE("slices: as brute force on 10,000 random trees of up to 12 hosts", "[.][oracle]") {
  check_random_trees(10'000, 12);
}
