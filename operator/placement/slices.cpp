#include "operator/placement/slices.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>
#include <vector>

#include "operator/placement/choice.h"
#include "operator/placement/ranks.h"

namespace pawl::placement {
namespace {

// Of a domain that slices have to be in.
bool is_pristine(const Topology& topology, const Room& room, int depth, const Domain& domain) {
  if (depth == topology.host_depth()) return room.is_pristine(domain.first_host);
  return room.totals(depth)[topology.index_of(depth, domain)].in_use == 0;
}

// How many slices each of them holds, as if they were hosts and the slices members.
Room room_for_slices(const Topology& topology, const Room& room, const Topology& tree,
                     const Slices& slices) {
  std::vector<int> units;
  std::vector<bool> are_pristine;
  for (const Domain& domain : topology.domains(slices.depth)) {
    units.push_back(room.units_in(topology, slices.depth, domain) / slices.size);
    are_pristine.push_back(is_pristine(topology, room, slices.depth, domain));
  }
  return {tree, std::move(units), std::move(are_pristine)};
}

int number_of(const Topology& topology, int depth, int host) {
  return static_cast<int>(topology.index_of(depth, domain_of(topology, depth, host)));
}

// Domains at each depth below the common one, but for those that `beside` has touched before.
std::vector<int> touched_by(const Topology& topology, int depth, const Beside& beside,
                            const std::vector<Share>& shares) {
  std::vector<int> counts;
  for (++depth; depth <= topology.host_depth(); ++depth) {
    std::set<int> touched;
    for (const Share& share : shares) {
      const Domain& domain = domain_of(topology, depth, share.host);
      if (!beside.touches(domain)) touched.insert(domain.first_host);
    }
    counts.push_back(static_cast<int>(touched.size()));
  }
  return counts;
}

}  // namespace

// Where all fit into one of the slices' domains they are together whichever way.
std::optional<Placement> place_slices(const Topology& topology, const Room& room, const Ask& ask) {
  const auto& [size, depth] = ask.slices;
  if (ask.units % size != 0) return std::nullopt;
  const Ask together{.units = ask.units, .required_depth = ask.slices.depth, .beside = ask.beside};
  if (auto placed = place(topology, room, together)) return placed;
  const Topology tree = topology.cut(depth);
  Ask of_slices{.units = ask.units / size, .required_depth = ask.required_depth};
  for (const int host : ask.beside) of_slices.beside.push_back(number_of(topology, depth, host));
  const auto placed = place(tree, room_for_slices(topology, room, tree, ask.slices), of_slices);
  if (!placed) return std::nullopt;
  std::vector<Share> shares;
  for (const auto& [index, slices] : placed->shares) {
    const Domain& domain = topology.domains(depth)[static_cast<std::size_t>(index)];
    Ask here{.units = slices * size, .required_depth = depth};
    std::ranges::copy_if(ask.beside, std::back_inserter(here.beside),
                         [&](int host) { return number_of(topology, depth, host) == index; });
    const Placement part = place_within(topology, room, here, domain);
    shares.insert(shares.end(), part.shares.begin(), part.shares.end());
  }
  std::ranges::sort(shares, {}, &Share::host);
  const Beside beside(ask.beside);
  Placement found{.depth = placed->depth};
  found.touched = touched_by(topology, found.depth, beside, shares);
  found.shares = in_order_of_ranks(topology, found.depth, beside, std::move(shares));
  return found;
}

Room whole_slices(const Topology& topology, const Room& room, const Slices& slices) {
  std::vector<int> units = room.units();
  std::vector<bool> are_pristine;
  for (int host = 0; host < topology.hosts(); ++host)
    are_pristine.push_back(room.is_pristine(host));
  for (const Domain& domain : topology.domains(slices.depth)) {
    int rest = room.units_in(topology, slices.depth, domain) % slices.size;
    for (int host = domain.end_host - 1; rest > 0; --host) {
      int& here = units[static_cast<std::size_t>(host)];
      const int less = std::min(here, rest);
      here -= less;
      rest -= less;
    }
  }
  return {topology, std::move(units), std::move(are_pristine)};
}

Largest largest(const Topology& topology, const Room& room, const Ask& ask) {
  if (!ask.has_slices()) return largest(topology, room, ask.required_depth);
  return largest(topology, whole_slices(topology, room, ask.slices), ask.required_depth);
}

}  // namespace pawl::placement
