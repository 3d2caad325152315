// How many members of one shape fit on each host, and what that comes to in each domain. The totals
// follow each change, in as many steps as the tree is deep: a decision asks domains, and looks only
// into those that matter. A value; it is said of one topology, which every call that changes it
// gets.
#pragma once

#include <cstddef>
#include <vector>

#include "operator/placement/topology.h"

namespace pawl::placement {

struct Totals {     // of one domain
  int units = 0;    // members that fit on all its hosts
  int in_use = 0;   // hosts with room on which something runs
  int most = 0;     // members that fit on one host of it
  int fullest = 0;  // of the domains next below, those that have such a host
  bool operator==(const Totals&) const = default;
};

class Room {
 public:
  Room() = default;
  // By the host's number: members that fit there, none below 0; nothing runs there.
  Room(const Topology& topology, std::vector<int> units, std::vector<bool> is_pristine);

  static Room emptied(const Topology& topology, std::vector<int> units);  // nothing runs anywhere

  const std::vector<int>& units() const { return units_; }
  int units_on(int host) const { return units_[static_cast<std::size_t>(host)]; }
  bool is_pristine(int host) const { return is_pristine_[static_cast<std::size_t>(host)]; }
  const std::vector<Totals>& totals(int depth) const {  // not of the hosts' own depth
    return totals_[static_cast<std::size_t>(depth)];
  }
  int units_in(const Topology& topology, int depth, const Domain& domain) const {
    if (depth == topology.host_depth()) return units_on(domain.first_host);
    return totals(depth)[topology.index_of(depth, domain)].units;
  }

  void set(const Topology& topology, int host, int units, bool is_pristine);
  void close(const Topology& topology, int host) { set(topology, host, 0, is_pristine(host)); }
  bool operator==(const Room&) const = default;

 private:
  bool is_in_use(int host) const { return units_on(host) > 0 && !is_pristine(host); }
  void count(const Topology& topology, int depth, std::size_t index);

  std::vector<int> units_;
  std::vector<bool> is_pristine_;
  std::vector<std::vector<Totals>> totals_;  // by depth, in the order of its domains
};

}  // namespace pawl::placement
