#include "tests/placement/states.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <random>

namespace pawl::placement {
namespace {

constexpr int kGpus = 8, kRackHosts = 16, kBlockRacks = 16, kZoneBlocks = 15;

class Dice {
 public:
  explicit Dice(std::uint32_t seed) : random_(seed) {}
  int below(int count) { return static_cast<int>(random_() % static_cast<unsigned>(count)); }
  bool one_in(int count) { return below(count) == 0; }

 private:
  std::mt19937 random_;
};

std::string name_of(const char* kind, int number) { return kind + std::to_string(number); }

std::vector<Machine> irregular_machines(Dice& dice, const std::vector<std::string>& labels) {
  std::vector<Machine> machines;
  const int hosts = 16 + dice.below(385);
  // Where each level goes on to its next domain: so often that the coarse ones hold several.
  std::vector<int> number(labels.size(), 0), odds;
  int each = 2 + dice.below(12);
  for (std::size_t level = labels.size(); level-- > 0;) {
    odds.insert(odds.begin(), each);
    each *= 2 + dice.below(6);
  }
  for (int host = 0; host < hosts; ++host) {
    Machine machine{.name = name_of("h", host)};
    for (std::size_t level = 0; level < labels.size(); ++level) {
      if (dice.one_in(odds[level])) ++number[level];
      if (!dice.one_in(40)) machine.labels[labels[level]] = name_of("d", number[level]);
    }
    machines.push_back(std::move(machine));
  }
  return machines;
}

}  // namespace

State random_state(std::uint32_t seed) {
  constexpr std::array kLabels{"zone", "block", "rack"};
  Dice dice(seed);
  const auto levels = static_cast<std::size_t>(1 + dice.below(3));
  const std::vector<std::string> labels(kLabels.end() - levels, kLabels.end());
  Topology topology(irregular_machines(dice, labels), labels);
  const auto hosts = static_cast<std::size_t>(topology.hosts());
  std::vector<int> free(hosts, 0);
  std::vector<bool> is_pristine(hosts, false);
  const bool takes_all = dice.one_in(2);  // a member has a host for itself
  const int most = takes_all ? 1 : kGpus, taken_one_in = (takes_all ? 2 : 1) + dice.below(4);
  int total = 0;
  for (std::size_t host = 0; host < hosts; ++host) {
    const int used = dice.one_in(taken_one_in) ? 1 + dice.below(most) : 0;
    free[host] = most - used;
    is_pristine[host] = used == 0;
    total += free[host];
  }
  const int size = 1 << dice.below(8);
  const int units = dice.one_in(4) ? 1 + dice.below(std::max(total, 1)) : size;
  Room room(topology, std::move(free), std::move(is_pristine));
  return {std::move(topology), std::move(room), {std::clamp(units, 1, std::max(total, 1)), 0}};
}

Topology regular_topology(int hosts) {
  std::vector<Machine> machines;
  for (int host = 0; host < hosts; ++host) {
    const int rack = host / kRackHosts, block = rack / kBlockRacks;
    machines.push_back({.name = name_of("h", host),
                        .labels = {{"zone", name_of("z", block / kZoneBlocks)},
                                   {"block", name_of("b", block)},
                                   {"rack", name_of("r", rack)}}});
  }
  const std::vector<std::string> labels{"zone", "block", "rack"};
  return Topology(std::move(machines), labels);
}

int gpus_at(std::span<const Slice> mix, int percent) {
  std::size_t which = 0;
  while (percent >= mix[which].percent) percent -= mix[which++].percent;
  return mix[which].gpus;
}

void add_hosts(Ledger& ledger, int hosts) {
  for (int host = 0; host < hosts; ++host) {
    const int rack = host / kRackHosts;
    ledger.set_host({.name = name_of("host-", host),
                     .labels = {{"block", name_of("block-", rack / kBlockRacks)},
                                {"rack", name_of("rack-", rack)}},
                     .allocatable = {{"gpu", kGpus}, {"pods", 100}},
                     .is_ready = true});
  }
}

Room worn_room(const Topology& topology, std::uint32_t seed) {
  Dice dice(seed);
  const auto hosts = static_cast<std::size_t>(topology.hosts());
  std::vector<int> free(hosts, 0);
  std::vector<bool> is_pristine(hosts, false);
  for (const Domain& rack : topology.domains(topology.host_depth() - 1)) {
    const int kind = dice.below(4);
    for (int host = rack.first_host; host < rack.end_host; ++host) {
      const bool is_idle = kind == 0 || (kind == 1 && dice.one_in(2));
      const bool is_full = kind == 2 || (kind == 1 && !is_idle);
      const auto at = static_cast<std::size_t>(host);
      free[at] = is_idle ? kGpus : is_full ? 0 : dice.below(kGpus + 1);
      is_pristine[at] = free[at] == kGpus;
    }
  }
  return {topology, std::move(free), std::move(is_pristine)};
}

}  // namespace pawl::placement
