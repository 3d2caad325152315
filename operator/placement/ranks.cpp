#include "operator/placement/ranks.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <numeric>
#include <span>
#include <tuple>
#include <utility>

namespace pawl::placement {
namespace {

// One of the domains next below.
struct Branch {
  bool is_new = false;
  int units = 0;
  std::vector<int> touched;  // domains at each depth below it, coarse to fine
  std::vector<Share> shares;
  // What is smaller goes first.
  bool precedes(const Branch& other) const {
    return std::tie(is_new, other.units, touched) < std::tie(other.is_new, units, other.touched);
  }
};

class Order {
 public:
  Order(const Topology& topology, const Beside& beside) : topology_(topology), beside_(beside) {}

  // `branch` has its shares by host. Afterwards they are in order, and it knows what they touch.
  void arrange(int depth, Branch& branch) const {
    if (depth == topology_.host_depth()) return;
    if (depth + 1 == topology_.host_depth()) {
      std::ranges::stable_sort(branch.shares, {}, [this](const Share& share) {
        return std::pair{!beside_.has(share.host), -share.units};
      });
      branch.touched = {static_cast<int>(branch.shares.size())};
      return;
    }
    std::vector<Branch> below = split(depth + 1, branch.shares);
    for (Branch& one : below) arrange(depth + 1, one);
    std::ranges::stable_sort(below, &Branch::precedes);
    const auto depths = static_cast<std::size_t>(topology_.host_depth() - depth);
    branch.touched.assign(depths, 0);
    branch.touched.front() = static_cast<int>(below.size());
    branch.shares.clear();
    for (const Branch& one : below) {
      for (std::size_t i = 1; i < depths; ++i) branch.touched[i] += one.touched[i - 1];
      branch.shares.insert(branch.shares.end(), one.shares.begin(), one.shares.end());
    }
  }

 private:
  std::vector<Branch> split(int depth, std::span<const Share> shares) const {
    std::vector<Branch> branches;
    int end = 0;  // of the domain of the last one
    for (const Share& share : shares) {
      if (branches.empty() || share.host >= end) {
        const Domain& domain = domain_of(topology_, depth, share.host);
        branches.push_back({.is_new = !beside_.touches(domain)});
        end = domain.end_host;
      }
      branches.back().units += share.units;
      branches.back().shares.push_back(share);
    }
    return branches;
  }

  const Topology& topology_;
  const Beside& beside_;
};

}  // namespace

// Sorted by the first member of its domain at each depth, coarse to fine.
std::vector<int> order_of_ranks(const Topology& topology, std::span<const int> hosts) {
  std::vector<std::vector<int>> keys(hosts.size());
  for (int depth = 1; depth <= topology.host_depth(); ++depth) {
    std::map<int, int> first;  // member, by the domain's first host
    for (std::size_t member = 0; member < hosts.size(); ++member) {
      const int domain = domain_of(topology, depth, hosts[member]).first_host;
      keys[member].push_back(first.emplace(domain, static_cast<int>(member)).first->second);
    }
  }
  std::vector<int> order(hosts.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, {}, [&](int member) -> const std::vector<int>& {
    return keys[static_cast<std::size_t>(member)];
  });
  return order;
}

std::vector<Share> in_order_of_ranks(const Topology& topology, int depth, const Beside& beside,
                                     std::vector<Share> shares) {
  Branch all{.shares = std::move(shares)};
  Order(topology, beside).arrange(depth, all);
  return std::move(all.shares);
}

}  // namespace pawl::placement
