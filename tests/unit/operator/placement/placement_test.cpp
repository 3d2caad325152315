// Placement against brute force: every set of hosts of small trees, enumerated and random.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <numeric>
#include <random>
#include <set>

#include "operator/placement/placement.h"

using namespace pawl::placement;

namespace {

using Labels = std::vector<std::string>;

struct Case {
  Labels labels;
  std::vector<Machine> machines;
  std::vector<int> units;  // by machine
};

struct World {
  explicit World(const Case& from) : topology(from.machines, from.labels) {
    room.units.resize(from.units.size());
    room.is_pristine.assign(from.units.size(), false);
    for (int host = 0; host < topology.hosts(); ++host) {
      const auto found = std::ranges::find(from.machines, topology.host(host), &Machine::name) -
                         from.machines.begin();
      room.units[static_cast<std::size_t>(host)] = from.units[static_cast<std::size_t>(found)];
    }
  }
  int domain_of(int depth, int host) const {
    const auto domains = topology.domains(depth);
    const auto found = std::ranges::upper_bound(domains, host, {}, &Domain::first_host);
    return static_cast<int>(found - domains.begin()) - 1;
  }
  // What counts, of these hosts: minus the depth of the common domain, then domains at each depth
  // below it.
  std::vector<int> tuple_of(const std::vector<int>& hosts) const {
    std::vector<int> tuple;
    for (int depth = 0; depth <= topology.host_depth(); ++depth) {
      std::set<int> touched;
      for (const int host : hosts) touched.insert(domain_of(depth, host));
      if (touched.size() == 1) {
        tuple = {-depth};
      } else {
        tuple.push_back(static_cast<int>(touched.size()));
      }
    }
    return tuple;
  }
  std::optional<std::vector<int>> best(int units, int required_depth) const {
    std::optional<std::vector<int>> found;
    for (unsigned set = 1; set < (1U << topology.hosts()); ++set) {
      std::vector<int> hosts;
      int sum = 0;
      for (int host = 0; host < topology.hosts(); ++host) {
        if ((set >> host & 1U) == 0) continue;
        hosts.push_back(host);
        sum += room.units[static_cast<std::size_t>(host)];
      }
      if (sum < units) continue;
      auto tuple = tuple_of(hosts);
      if (-tuple[0] >= required_depth && (!found || tuple < *found)) found = std::move(tuple);
    }
    return found;
  }

  Topology topology;
  Room room;
};

// How often a ring of all ranks goes from one domain of this depth to another.
int crossings(const World& world, int depth, const std::vector<Share>& shares) {
  int count = 0;
  for (std::size_t i = 0; i < shares.size(); ++i) {
    const int next = shares[(i + 1) % shares.size()].host;
    count += world.domain_of(depth, shares[i].host) != world.domain_of(depth, next) ? 1 : 0;
  }
  return count;
}

void check_against_brute_force(const Case& one, int units, int required_depth) {
  const World world(one);
  const auto best = world.best(units, required_depth);
  const auto placed = place(world.topology, world.room, {units, required_depth});
  REQUIRE(placed.has_value() == best.has_value());
  if (!placed) return;
  std::vector<int> tuple = {-placed->depth};
  tuple.insert(tuple.end(), placed->touched.begin(), placed->touched.end());
  CHECK(tuple == *best);
  std::vector<int> hosts;
  int sum = 0;
  for (const Share& share : placed->shares) {
    hosts.push_back(share.host);
    sum += share.units;
    CHECK(share.units > 0);
    CHECK(share.units <= world.room.units[static_cast<std::size_t>(share.host)]);
  }
  CHECK(sum == units);
  CHECK(std::ranges::is_sorted(hosts));
  CHECK(world.tuple_of(hosts) == tuple);
  for (int depth = placed->depth + 1; depth <= world.topology.host_depth(); ++depth)
    CHECK(crossings(world, depth, placed->shares) ==
          placed->touched[static_cast<std::size_t>(depth - placed->depth - 1)]);
}

}  // namespace

TEST_CASE("placement: two full racks are better than three of a block with less to spare",
          "[placement]") {
  Case one{.labels = {"block", "rack"}};
  const std::vector<std::vector<int>> blocks = {{6, 6, 6}, {10, 8, 1, 1}};
  for (std::size_t block = 0; block < blocks.size(); ++block) {
    for (std::size_t rack = 0; rack < blocks[block].size(); ++rack) {
      for (int i = 0; i < blocks[block][rack]; ++i) {
        const std::string name = std::to_string(block) + "-" + std::to_string(rack);
        one.machines.push_back(
            {name + "-" + std::to_string(i), {{"block", std::to_string(block)}, {"rack", name}}});
        one.units.push_back(1);
      }
    }
  }
  const World world(one);
  const auto placed = place(world.topology, world.room, {16, 0});
  REQUIRE(placed.has_value());
  CHECK(placed->depth == 1);
  CHECK(placed->touched == std::vector<int>{2, 16});
  CHECK(world.topology.host(placed->shares.front().host).starts_with("1-"));
}

TEST_CASE("placement: a machine without a label is near to none", "[placement]") {
  Case one{.labels = {"rack"},
           .machines = {{"a", {{"rack", "1"}}}, {"b", {}}, {"c", {}}, {"d", {{"rack", "1"}}}},
           .units = {1, 1, 1, 1}};
  const World world(one);
  const auto placed = place(world.topology, world.room, {2, 1});
  REQUIRE(placed.has_value());
  CHECK(world.topology.host(placed->shares[0].host) == "a");
  CHECK(world.topology.host(placed->shares[1].host) == "d");
  CHECK_FALSE(place(world.topology, world.room, {3, 1}).has_value());
  CHECK(place(world.topology, world.room, {3, 0})->touched == std::vector<int>{2, 3});
}

TEST_CASE("placement: a machine where something runs is filled before one where nothing does",
          "[placement]") {
  Case one{.labels = {}, .machines = {{"a", {}}, {"b", {}}, {"c", {}}}, .units = {8, 3, 5}};
  World world(one);
  world.room.is_pristine = {true, false, false};
  CHECK(place(world.topology, world.room, {3, 0})->shares == std::vector<Share>{{1, 3}});
  CHECK(place(world.topology, world.room, {4, 0})->shares == std::vector<Share>{{2, 4}});
  CHECK(place(world.topology, world.room, {6, 0})->shares == std::vector<Share>{{0, 6}});
  CHECK_FALSE(place(world.topology, world.room, {17, 0}).has_value());
}

TEST_CASE("placement: as brute force on random trees", "[placement][A45]") {
  std::mt19937 random{20261125};  // its numbers are the same everywhere
  const auto below = [&](unsigned count) { return static_cast<int>(random() % count); };
  const int cases = 400;
  for (int i = 0; i < cases; ++i) {
    Case one;
    const int levels = below(4);
    for (int level = 0; level < levels; ++level) one.labels.push_back(std::to_string(level));
    const int machines = 1 + below(9);
    int total = 0;
    for (int machine = 0; machine < machines; ++machine) {
      Machine made{.name = "m" + std::to_string(machine)};
      for (const std::string& label : one.labels) {
        if (below(8) > 0) made.labels[label] = std::to_string(below(3));
      }
      one.machines.push_back(std::move(made));
      one.units.push_back(below(5));
      total += one.units.back();
    }
    INFO("case " << i);
    const int units = 1 + below(static_cast<unsigned>(total) + 1);
    check_against_brute_force(one, units, below(static_cast<unsigned>(levels) + 2));
  }
}
