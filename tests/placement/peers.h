// What other schedulers would choose on the same free hosts, from their published rules
// (scheduling research, section 2): for the benchmark, so that each is given what it would be
// given by its users: the finest level as the one that is preferred, the whole cluster as the
// widest. Pods of one shape; a pod that fits a host is all that their predicates say.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "operator/placement/placement.h"

namespace pawl::placement::peers {

// Kueue 0.19, TAS: the smallest domain of the preferred level that suffices, else one level up; at
// the top the largest first, the last one best-fit; below, the children of all chosen ones pooled,
// and taken the same way.
std::vector<int> kueue(const Topology& topology, const Room& room, const Ask& ask);

// Volcano 1.13, hypernodes: the lowest tier that holds the gang, of its hypernodes the fullest;
// within it pods go one by one to the fullest host that has room.
std::vector<int> volcano(const Topology& topology, const Room& room, const Ask& ask);

// KAI: the deepest level at which a domain holds the gang, of those the tightest; within it
// subdomains with the most room first, in eleven grades, hosts in the same way.
std::vector<int> kai(const Topology& topology, const Room& room, const Ask& ask);

// As the hosts in the order in which they are filled; empty: no place.
using Strategy = std::function<std::vector<int>(const Topology&, const Room&, const Ask&)>;
struct Peer {
  const char* name;
  Strategy hosts;
};
const std::vector<Peer>& all();
std::vector<int> ours(const Topology& topology, const Room& room, const Ask& ask);

// Of these hosts: the depth of the common domain, negated, then the domains touched at each depth
// below it. Smaller is better; of none nothing.
std::vector<int> score(const Topology& topology, const std::vector<int>& hosts);

struct Tally {
  int better = 0, equal = 0, worse = 0;  // ours
};
// By the scores; who has none found no place, which is worse than any.
void count(Tally& tally, const std::vector<int>& ours, const std::vector<int>& theirs);

}  // namespace pawl::placement::peers
