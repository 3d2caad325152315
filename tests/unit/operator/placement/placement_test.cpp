// Placement against brute force: every set of hosts of small trees, enumerated and random.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <numeric>
#include <optional>
#include <set>

#include "operator/placement/placement.h"
#include "tests/unit/operator/placement/forest.h"

using namespace pawl::placement;
using namespace pawl::placement::forest;

namespace {

std::optional<std::vector<int>> best_of(const World& world, const Ask& ask) {
  const int units = ask.units, required_depth = ask.required_depth;
  const std::vector<int>& beside = ask.beside;
  std::optional<std::vector<int>> found;
  for (unsigned set = 1; set < (1U << world.topology.hosts()); ++set) {
    std::vector<int> hosts;
    int sum = 0;
    for (int host = 0; host < world.topology.hosts(); ++host) {
      if ((set >> host & 1U) == 0) continue;
      hosts.push_back(host);
      sum += world.room.units_on(host);
    }
    if (sum < units) continue;
    hosts.insert(hosts.end(), beside.begin(), beside.end());
    auto tuple = world.tuple_of(hosts);
    if (-tuple[0] >= required_depth && (!found || tuple < *found)) found = std::move(tuple);
  }
  return found;
}

// How often a ring of all ranks goes from one domain of this depth to another.
int crossings(const World& world, int depth, const std::vector<Share>& shares) {
  int count = 0;
  for (std::size_t i = 0; i < shares.size(); ++i) {
    const int next = shares[(i + 1) % shares.size()].host;
    count += world.domain_of(depth, shares[i].host) != world.domain_of(depth, next) ? 1 : 0;
  }
  return count;
}

// Domains below the common one that members which stay touch.
std::vector<int> touched_beside(const World& world, const Ask& ask, int depth) {
  std::vector<int> counts;
  for (++depth; depth <= world.topology.host_depth(); ++depth) {
    std::set<int> touched;
    for (const int host : ask.beside) touched.insert(world.domain_of(depth, host));
    counts.push_back(static_cast<int>(touched.size()));
  }
  return counts;
}

void check_against_brute_force(const Case& one, const Ask& ask) {
  const World world(one);
  const auto best = best_of(world, ask);
  const auto placed = place(world.topology, world.room, ask);
  REQUIRE(placed.has_value() == best.has_value());
  if (!placed) return;
  std::vector<int> tuple = {-placed->depth};
  const auto before = touched_beside(world, ask, placed->depth);
  for (std::size_t i = 0; i < placed->touched.size(); ++i)
    tuple.push_back(placed->touched[i] + before[i]);
  CHECK(tuple == *best);
  std::vector<int> hosts;
  int sum = 0;
  for (const Share& share : placed->shares) {
    hosts.push_back(share.host);
    sum += share.units;
    CHECK(share.units > 0);
    CHECK(share.units <= world.room.units_on(share.host));
  }
  CHECK(sum == ask.units);
  CHECK(std::set(hosts.begin(), hosts.end()).size() == hosts.size());
  std::vector<int> all = hosts;
  all.insert(all.end(), ask.beside.begin(), ask.beside.end());
  CHECK(world.tuple_of(all) == tuple);
  if (!ask.beside.empty()) return;
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
  world.room.set(world.topology, 0, 8, true);
  CHECK(place(world.topology, world.room, {3, 0})->shares == std::vector<Share>{{1, 3}});
  CHECK(place(world.topology, world.room, {4, 0})->shares == std::vector<Share>{{2, 4}});
  CHECK(place(world.topology, world.room, {6, 0})->shares == std::vector<Share>{{0, 6}});
  CHECK_FALSE(place(world.topology, world.room, {17, 0}).has_value());
}

TEST_CASE("placement: as brute force on random trees", "[placement][A45]") {
  Trees trees;
  for (int i = 0; i < 400; ++i) {
    INFO("case " << i);
    const Case one = trees.next(9);
    check_against_brute_force(one, trees.ask_of(one));
  }
}

TEST_CASE("placement: beside members that stay as brute force on random trees", "[placement]") {
  Trees trees;
  for (int i = 0; i < 600; ++i) {
    INFO("case " << i);
    const Case one = trees.next(9);
    Ask ask = trees.ask_of(one);
    ask.units = 1 + ask.units / 2;
    ask.beside = trees.some_of(one);
    check_against_brute_force(one, ask);
  }
}

TEST_CASE("placement: a member that comes later goes into the rack of the others", "[placement]") {
  Case one{.labels = {"rack"}};
  for (int host = 0; host < 60; ++host) {  // more than are enumerated
    one.machines.push_back({"m" + std::to_string(host), {{"rack", std::to_string(host / 10)}}});
    one.units.push_back(host / 10 == 4 ? 1 : 8);
  }
  const World world(one);
  const auto of_rack = [&](int rack) {
    return world.topology.domains(1)[static_cast<std::size_t>(rack)];
  };
  const int first = of_rack(4).first_host;
  REQUIRE(world.room.units_on(first) == 1);
  const auto beside = place(world.topology, world.room, {2, 0, {first, first + 1}});
  REQUIRE(beside.has_value());
  CHECK(beside->shares == std::vector<Share>{{first, 1}, {first + 1, 1}});
  const auto more = place(world.topology, world.room, {5, 1, {first, first + 1}});
  REQUIRE(more.has_value());
  CHECK(more->touched == std::vector<int>{3});
  CHECK_FALSE(place(world.topology, world.room, {11, 1, {first}}).has_value());
  CHECK(place(world.topology, world.room, {11, 0, {first}})->depth == 0);
}

// ---- every tree, and many: minutes of work, for `unit_operator_placement "[oracle]"`

namespace {

// The best of all sets of hosts, for each number of members and each depth that is required.
class Best {
 public:
  explicit Best(const World& world) : world_(world) {
    const int total = std::accumulate(world.room.units().begin(), world.room.units().end(), 0);
    const auto depths = static_cast<std::size_t>(world.topology.host_depth()) + 1;
    best_.resize(depths,
                 std::vector<std::optional<std::vector<int>>>(static_cast<std::size_t>(total) + 1));
    for (unsigned set = 1; set < (1U << world.topology.hosts()); ++set) note(set);
    for (auto& by_units : best_) {
      for (std::size_t units = by_units.size() - 1; units > 0; --units)
        keep(by_units[units], by_units[units - 1]);
    }
  }
  int total() const { return static_cast<int>(best_.front().size()) - 1; }
  const std::optional<std::vector<int>>& of(int units, int required_depth) const {
    return best_[static_cast<std::size_t>(required_depth)][static_cast<std::size_t>(units)];
  }

 private:
  static void keep(const std::optional<std::vector<int>>& tuple,
                   std::optional<std::vector<int>>& best) {
    if (tuple && (!best || *tuple < *best)) best = tuple;
  }
  void note(unsigned set) {
    std::vector<int> hosts;
    int sum = 0;
    for (int host = 0; host < world_.topology.hosts(); ++host) {
      if ((set >> host & 1U) == 0) continue;
      hosts.push_back(host);
      sum += world_.room.units_on(host);
    }
    const std::optional tuple = world_.tuple_of(hosts);
    for (int depth = 0; depth <= -(*tuple)[0]; ++depth)
      keep(tuple, best_[static_cast<std::size_t>(depth)][static_cast<std::size_t>(sum)]);
  }
  const World& world_;
  std::vector<std::vector<std::optional<std::vector<int>>>> best_;  // by depth, by units
};

void check_all_asks(const Case& one) {
  const World world(one);
  const Best best(world);
  for (int depth = 0; depth <= world.topology.host_depth(); ++depth) {
    for (int units = 1; units <= best.total(); ++units) {
      const auto placed = place(world.topology, world.room, {units, depth});
      std::optional<std::vector<int>> tuple;
      if (placed) {
        tuple = std::vector{-placed->depth};
        tuple->insert(tuple->end(), placed->touched.begin(), placed->touched.end());
      }
      INFO(units << " members, depth " << depth);
      CHECK(tuple == best.of(units, depth));
    }
  }
}

}  // namespace

TEST_CASE("placement: every tree of up to 12 free hosts in racks and blocks", "[.][oracle]") {
  std::size_t count = 0;
  for (int leaves = 1; leaves <= 12; ++leaves) {
    for (const auto& blocks : trees(leaves)) {
      check_all_asks(case_of(blocks));
      ++count;
    }
  }
  CHECK(count == 6'081);
}

TEST_CASE("placement: 10,000 random trees of up to 12 hosts", "[.][oracle]") {
  Trees trees;
  for (int i = 0; i < 10'000; ++i) {
    INFO("case " << i);
    check_all_asks(trees.next(12));
  }
}

TEST_CASE("placement: 10,000 random trees of up to 12 hosts, beside members that stay",
          "[.][oracle]") {
  Trees trees;
  for (int i = 0; i < 10'000; ++i) {
    INFO("case " << i);
    const Case one = trees.next(12);
    Ask ask = trees.ask_of(one);
    ask.units = 1 + ask.units / 2;
    ask.beside = trees.some_of(one);
    check_against_brute_force(one, ask);
  }
}
