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
  std::optional<std::vector<int>> best(const Ask& ask) const {
    const auto& [units, required_depth, beside] = ask;
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
      hosts.insert(hosts.end(), beside.begin(), beside.end());
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
  const auto best = world.best(ask);
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
    CHECK(share.units <= world.room.units[static_cast<std::size_t>(share.host)]);
  }
  CHECK(sum == ask.units);
  CHECK(std::ranges::is_sorted(hosts));
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
  world.room.is_pristine = {true, false, false};
  CHECK(place(world.topology, world.room, {3, 0})->shares == std::vector<Share>{{1, 3}});
  CHECK(place(world.topology, world.room, {4, 0})->shares == std::vector<Share>{{2, 4}});
  CHECK(place(world.topology, world.room, {6, 0})->shares == std::vector<Share>{{0, 6}});
  CHECK_FALSE(place(world.topology, world.room, {17, 0}).has_value());
}

namespace {

struct Trees {
  int below(unsigned count) { return static_cast<int>(random() % count); }
  Case next(int machines_max) {
    Case one;
    const int levels = below(4);
    for (int level = 0; level < levels; ++level) one.labels.push_back(std::to_string(level));
    const int machines = 1 + below(static_cast<unsigned>(machines_max));
    for (int machine = 0; machine < machines; ++machine) {
      Machine made{.name = "m" + std::to_string(machine)};
      for (const std::string& label : one.labels) {
        if (below(8) > 0) made.labels[label] = std::to_string(below(3));
      }
      one.machines.push_back(std::move(made));
      one.units.push_back(below(5));
    }
    return one;
  }
  Ask ask_of(const Case& one) {
    const int total = std::accumulate(one.units.begin(), one.units.end(), 0);
    const int units = 1 + below(static_cast<unsigned>(total) + 1);
    return {units, below(static_cast<unsigned>(one.labels.size()) + 2)};
  }
  std::mt19937 random{20261125};  // its numbers are the same everywhere
};

}  // namespace

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
    const int hosts = static_cast<int>(one.machines.size());
    for (int host = 0; host < hosts; ++host) {
      if (trees.below(3) == 0) ask.beside.push_back(host);
    }
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
  REQUIRE(world.room.units[static_cast<std::size_t>(first)] == 1);
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
    const int total = std::accumulate(world.room.units.begin(), world.room.units.end(), 0);
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
      sum += world_.room.units[static_cast<std::size_t>(host)];
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

// All ways to write `sum` as a sum of parts in falling order, none above `most`.
std::vector<std::vector<int>> partitions(int sum, int most) {
  if (sum == 0) return {{}};
  std::vector<std::vector<int>> all;
  for (int part = std::min(sum, most); part > 0; --part) {
    for (auto rest : partitions(sum - part, part)) {
      rest.insert(rest.begin(), part);
      all.push_back(std::move(rest));
    }
  }
  return all;
}

// All ways to deal `leaves` hosts to blocks of racks, up to the order of either.
std::vector<std::vector<std::vector<int>>> trees(int leaves) {
  std::vector<std::vector<std::vector<int>>> all;
  for (const auto& blocks : partitions(leaves, leaves)) {
    std::vector<std::vector<std::vector<int>>> some = {{}};
    for (const int block : blocks) {
      std::vector<std::vector<std::vector<int>>> more;
      for (const auto& before : some) {
        for (const auto& racks : partitions(block, block)) {
          const bool is_again = !before.empty() &&
                                std::reduce(before.back().begin(), before.back().end()) == block &&
                                racks > before.back();
          if (is_again) continue;
          more.push_back(before);
          more.back().push_back(racks);
        }
      }
      some = std::move(more);
    }
    all.insert(all.end(), some.begin(), some.end());
  }
  return all;
}

}  // namespace

TEST_CASE("placement: every tree of up to 12 free hosts in racks and blocks", "[.][oracle]") {
  std::size_t count = 0;
  for (int leaves = 1; leaves <= 12; ++leaves) {
    for (const auto& blocks : trees(leaves)) {
      Case one{.labels = {"block", "rack"}};
      for (std::size_t block = 0; block < blocks.size(); ++block) {
        for (std::size_t rack = 0; rack < blocks[block].size(); ++rack) {
          for (int host = 0; host < blocks[block][rack]; ++host) {
            const std::string at = std::to_string(block), in = std::to_string(rack);
            one.machines.push_back(
                {at + "-" + in + "-" + std::to_string(host), {{"block", at}, {"rack", in}}});
            one.units.push_back(1);
          }
        }
      }
      check_all_asks(one);
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
    const int hosts = static_cast<int>(one.machines.size());
    for (int host = 0; host < hosts; ++host) {
      if (trees.below(3) == 0) ask.beside.push_back(host);
    }
    check_against_brute_force(one, ask);
  }
}
