// Small trees of machines, enumerated and random, and what is best in them by brute force. For the
// tests of placement.
#pragma once

#include <algorithm>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "operator/placement/placement.h"

namespace pawl::placement::forest {

using Labels = std::vector<std::string>;

struct Case {
  Labels labels;
  std::vector<Machine> machines;
  std::vector<int> units;  // by machine
};

struct World {
  explicit World(const Case& from) : topology(from.machines, from.labels) {
    std::vector<int> units(from.units.size());
    for (int host = 0; host < topology.hosts(); ++host) {
      const auto found = std::ranges::find(from.machines, topology.host(host), &Machine::name) -
                         from.machines.begin();
      units[static_cast<std::size_t>(host)] = from.units[static_cast<std::size_t>(found)];
    }
    room = Room(topology, std::move(units), std::vector<bool>(from.units.size(), false));
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

  Topology topology;
  Room room;
};

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
  // Of members that stay.
  std::vector<int> some_of(const Case& one) {
    std::vector<int> hosts;
    for (int host = 0; host < static_cast<int>(one.machines.size()); ++host) {
      if (below(3) == 0) hosts.push_back(host);
    }
    return hosts;
  }
  Ask ask_of(const Case& one) {
    const int total = std::accumulate(one.units.begin(), one.units.end(), 0);
    const int units = 1 + below(static_cast<unsigned>(total) + 1);
    return {units, below(static_cast<unsigned>(one.labels.size()) + 2)};
  }
  std::mt19937 random{20261125};  // its numbers are the same everywhere
};

// All ways to write `sum` as a sum of parts in falling order, none above `most`.
inline std::vector<std::vector<int>> partitions(int sum, int most) {
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
inline std::vector<std::vector<std::vector<int>>> trees(int leaves) {
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

// One member fits on each host.
inline Case case_of(const std::vector<std::vector<int>>& blocks) {
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
  return one;
}

}  // namespace pawl::placement::forest
