#include "operator/placement/room.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"

namespace pawl::placement {

Room::Room(const Topology& topology, std::vector<int> units, std::vector<bool> is_pristine)
    : units_(std::move(units)),
      is_pristine_(std::move(is_pristine)),
      totals_(static_cast<std::size_t>(topology.host_depth())) {
  PAWL_CHECK(
      std::cmp_equal(units_.size(), topology.hosts()) && is_pristine_.size() == units_.size(),
      "room is said of each host");
  for (int depth = topology.host_depth() - 1; depth >= 0; --depth) {
    auto& totals = totals_[static_cast<std::size_t>(depth)];
    totals.resize(topology.domains(depth).size());
    for (std::size_t index = 0; index < totals.size(); ++index) count(topology, depth, index);
  }
}

// From the domains next below.
void Room::count(const Topology& topology, int depth, std::size_t index) {
  Totals& totals = totals_[static_cast<std::size_t>(depth)][index];
  totals = {};
  const auto add = [&totals](int units, int in_use, int most) {
    totals.units += units;
    totals.in_use += in_use;
    if (most > totals.most) totals.fullest = 0;
    totals.most = std::max(totals.most, most);
    totals.fullest += most == totals.most ? 1 : 0;
  };
  const Domain& domain = topology.domains(depth)[index];
  for (int child = domain.first_child; child < domain.end_child; ++child) {
    if (depth + 1 == topology.host_depth()) {
      add(units_on(child), is_in_use(child) ? 1 : 0, units_on(child));
    } else {
      const Totals& below =
          totals_[static_cast<std::size_t>(depth) + 1][static_cast<std::size_t>(child)];
      add(below.units, below.in_use, below.most);
    }
  }
}

// Of a domain whose last host with the most room has less now the domains next below are looked at
// again; of all others nothing is.
Room Room::emptied(const Topology& topology, std::vector<int> units) {
  std::vector<bool> is_pristine(units.size(), true);
  return Room(topology, std::move(units), std::move(is_pristine));
}

void Room::set(const Topology& topology, int host, int units, bool is_pristine) {
  const auto number = static_cast<std::size_t>(host);
  const int were_in_use = is_in_use(host) ? 1 : 0;
  int before = std::exchange(units_[number], units), after = units;
  is_pristine_[number] = is_pristine;
  const int more = after - before, more_in_use = (is_in_use(host) ? 1 : 0) - were_in_use;
  if (more == 0 && more_in_use == 0) return;
  auto index = static_cast<std::size_t>(topology.domains(topology.host_depth())[number].parent);
  for (int depth = topology.host_depth() - 1; depth >= 0; --depth) {
    Totals& totals = totals_[static_cast<std::size_t>(depth)][index];
    totals.units += more;
    totals.in_use += more_in_use;
    const int most = totals.most;
    if (before != after && after > most) {
      totals.most = after;
      totals.fullest = 1;
    } else if (before != after) {
      totals.fullest += (after == most ? 1 : 0) - (before == most ? 1 : 0);
      if (totals.fullest == 0) count(topology, depth, index);
    }
    before = most;
    after = totals.most;
    index = static_cast<std::size_t>(topology.domains(depth)[index].parent);
  }
}

}  // namespace pawl::placement
