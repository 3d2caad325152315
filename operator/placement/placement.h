// Where a gang goes: one decision on one view of what is free, which whoever decides debits before
// the next. Pure, deterministic, integers only.
//
// Minimised in this order: the depth of the common domain (as deep as it fits), the domains touched
// at each depth below it from coarse to fine, hosts opened on which nothing ran, room left over in
// the common domain, its place in the tree.
//
// Ranks are dealt depth-first: a ring of all ranks leaves every touched domain once, and no order
// can do with less. Within each domain those with most members come first (hosts too; before all
// that `beside` touches), of as many those that touch fewer domains below, then in the order of the
// tree. So of a gang that becomes smaller, which keeps its first ranks, any number of members
// touches the fewest domains at the first depth below the common one, and what it keeps within any
// domain the fewest of those next below. It need not be the fewest at all depths together: of four
// members on four hosts of one rack and three on one host of another three had better stay in the
// second, and four in the first, and no order has both.
//
// With slices, their domains are the smallest that are counted: how they fill those is decided as
// for hosts, and within each as for a gang of its own.
//
// Exact for the common domain and the two depths below it at any size (a knapsack over sorted
// children; the greedy choice of the largest is the fewest of one level). Below that exact for
// kExactHosts hosts; for more the better of two: the fewest within what the knapsack chose, and the
// largest of each level, which is Kueue's rule. Beside members that stay, and more hosts than
// that: the fewest new ones of each level within what was chosen above.
#pragma once

#include <compare>
#include <optional>
#include <span>
#include <vector>

#include "operator/placement/room.h"
#include "operator/placement/topology.h"

namespace pawl::placement {

inline constexpr int kExactHosts = 24;

// Members that exchange more among themselves than with the others (of one tensor-parallel or
// pipeline group): each so many, in the order of ranks, lie within one domain of this depth.
struct Slices {
  int size = 1;  // 1: there are none
  int depth = 0;
  auto operator<=>(const Slices&) const = default;
};

struct Ask {
  int units = 0;           // members, 1 at least
  int required_depth = 0;  // the common domain is this deep at least
  // Hosts of members of the same gang that stay where they are, in any order: they and their
  // domains are touched already, and the common domain is that of all.
  std::vector<int> beside = {};
  // `units` is a multiple of their size, and of `beside` each of their domains has one.
  Slices slices = {};
  bool has_slices() const { return slices.size > 1 && required_depth < slices.depth; }
};

struct Share {
  int host = 0, units = 0;
  bool operator==(const Share&) const = default;
};

struct Placement {
  int depth = 0;              // of the common domain
  std::vector<int> touched;   // domains at each depth below it, coarse to fine; `beside` apart
  std::vector<Share> shares;  // in the order of ranks
};

const Domain& domain_of(const Topology& topology, int depth, int host);
// Of the smallest domain with all these hosts; of none, that of the hosts themselves.
int common_depth(const Topology& topology, std::span<const int> hosts);

// What one domain of this depth holds: the most, and the first that does.
struct Largest {
  int units = 0;
  const Domain* domain = nullptr;  // of the topology; nothing where no host has room
};
Largest largest(const Topology& topology, const Room& room, int depth);
// … of members in whole slices, in one that is deep enough.
Largest largest(const Topology& topology, const Room& room, const Ask& ask);
// What is left over of a domain where they do not fill a group is no room. Of the same topology.
Room whole_slices(const Topology& topology, const Room& room, const Slices& slices);

// Of members that are there, each on its host: their numbers, depth-first, of domains the one with
// the first member first. So a ring leaves each domain once, and they keep the order that they had
// as far as that allows.
std::vector<int> order_of_ranks(const Topology& topology, std::span<const int> hosts);

// Nothing: it does not fit into any domain that is deep enough.
std::optional<Placement> place(const Topology& topology, const Room& room, const Ask& ask);

}  // namespace pawl::placement
