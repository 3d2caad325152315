// Which hosts of one domain a gang takes, if it goes there: the part of placement.cpp that knows of
// nothing beyond the domain. Pure; used by placement.cpp, and ranks.cpp for who stays.
#pragma once

#include <algorithm>
#include <tuple>
#include <vector>

#include "operator/placement/placement.h"

namespace pawl::placement {

// Hosts within one domain that hold the gang. Of two choices the one with the smaller key is
// better.
struct Choice {
  std::vector<int> touched, hosts;
  int pristine = 0, left_over = 0;
  auto key() const { return std::tie(touched, pristine, left_over); }
};

// Hosts of members that stay.
class Beside {
 public:
  explicit Beside(std::vector<int> hosts) : hosts_(std::move(hosts)) { std::ranges::sort(hosts_); }
  bool is_empty() const { return hosts_.empty(); }
  int first() const { return hosts_.front(); }
  bool has(int host) const { return std::ranges::binary_search(hosts_, host); }
  bool touches(const Domain& domain) const {
    const auto found = std::ranges::lower_bound(hosts_, domain.first_host);
    return found != hosts_.end() && *found < domain.end_host;
  }
  bool lies_in(const Domain& domain) const {
    return is_empty() || (domain.first_host <= hosts_.front() && hosts_.back() < domain.end_host);
  }

 private:
  std::vector<int> hosts_;
};

class Chooser {
 public:
  // All of them outlive it.
  Chooser(const Topology& topology, const Room& room, const Beside& beside, int units)
      : topology_(topology), room_(room), beside_(beside), units_(units) {}

  // In a domain that holds the gang.
  Choice choose(int depth, const Domain& domain) const;
  // New ones that it takes, at least.
  int fewest_children(int depth, const Domain& domain) const;

 private:
  using Pool = std::vector<const Domain*>;
  int units_in(int depth, const Domain& domain) const {
    return room_.units_in(topology_, depth, domain);
  }
  Choice choose_down(int depth, const Domain& domain, bool is_greedy) const;
  void choose_exactly(int depth, const Domain& domain, Choice& choice) const;
  Pool choose_two_levels(int depth, const Domain& domain, Choice& choice) const;
  Pool choose_largest(int depth, Pool pool, Choice& choice) const;

  const Topology& topology_;
  const Room& room_;
  const Beside& beside_;
  const int units_;
};

}  // namespace pawl::placement
