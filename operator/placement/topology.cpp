#include "operator/placement/topology.h"

#include <algorithm>
#include <utility>

namespace pawl::placement {
namespace {

struct Leaf {
  std::vector<std::string> path;  // a value of each label, and the name
};

// No value of a label begins so: one that is missing is nobody else's.
std::string alone(const std::string& name) { return "~" + name; }

Leaf leaf_of(Machine machine, std::span<const std::string> labels) {
  Leaf leaf;
  for (const std::string& key : labels) {
    const auto found = machine.labels.find(key);
    const bool is_there = found != machine.labels.end() && !found->second.empty();
    leaf.path.push_back(is_there ? found->second : alone(machine.name));
  }
  leaf.path.push_back(std::move(machine.name));
  return leaf;
}

std::string text_of(const Leaf& leaf, std::size_t depth) {
  std::string text;
  for (std::size_t i = 0; i < depth; ++i) text += (i == 0 ? "" : "/") + leaf.path[i];
  return text;
}

bool is_same_domain(const Leaf& one, const Leaf& other, std::size_t depth) {
  const auto end = one.path.begin() + static_cast<std::ptrdiff_t>(depth);
  return std::equal(one.path.begin(), end, other.path.begin());
}

}  // namespace

Topology::Topology(std::vector<Machine> machines, std::span<const std::string> labels) {
  std::vector<Leaf> leaves;
  leaves.reserve(machines.size());
  for (Machine& machine : machines) leaves.push_back(leaf_of(std::move(machine), labels));
  std::ranges::sort(leaves, {}, &Leaf::path);
  const std::size_t depths = labels.size() + 2;
  levels_.resize(depths);
  for (std::size_t depth = 0; depth < depths; ++depth) {
    std::vector<Domain>& level = levels_[depth];
    for (std::size_t i = 0; i < leaves.size(); ++i) {
      const int host = static_cast<int>(i);
      const bool is_new = i == 0 || !is_same_domain(leaves[i - 1], leaves[i], depth);
      if (is_new)
        level.push_back({.path = text_of(leaves[i], depth), .first_host = host, .end_host = host});
      level.back().end_host = host + 1;
    }
    if (leaves.empty() && depth == 0) level.emplace_back();
  }
  for (std::size_t depth = 0; depth + 1 < depths; ++depth) {
    int child = 0, parent = 0;
    std::vector<Domain>& below = levels_[depth + 1];
    for (Domain& domain : levels_[depth]) {
      domain.first_child = child;
      while (std::cmp_less(child, below.size()) &&
             below[static_cast<std::size_t>(child)].first_host < domain.end_host)
        below[static_cast<std::size_t>(child++)].parent = parent;
      domain.end_child = child;
      ++parent;
    }
  }
  names_.reserve(leaves.size());
  for (Leaf& leaf : leaves) names_.push_back(std::move(leaf.path.back()));
}

Topology Topology::cut(int depth) const {
  Topology tree;
  for (int above = 0; above <= depth; ++above) {
    std::vector<Domain>& level = tree.levels_.emplace_back();
    level.reserve(domains(above).size());
    for (const Domain& domain : domains(above))
      level.push_back({.first_child = domain.first_child,
                       .end_child = domain.end_child,
                       .parent = domain.parent});
  }
  int number = 0;
  for (Domain& leaf : tree.levels_.back()) {
    leaf.first_child = leaf.end_child = 0;
    leaf.first_host = number;
    leaf.end_host = ++number;
  }
  for (int above = depth - 1; above >= 0; --above) {
    const std::vector<Domain>& below = tree.levels_[static_cast<std::size_t>(above) + 1];
    for (Domain& domain : tree.levels_[static_cast<std::size_t>(above)]) {
      domain.first_host = domain.end_host = 0;
      if (domain.first_child == domain.end_child) continue;  // a cluster without machines
      domain.first_host = below[static_cast<std::size_t>(domain.first_child)].first_host;
      domain.end_host = below[static_cast<std::size_t>(domain.end_child) - 1].end_host;
    }
  }
  tree.names_.resize(static_cast<std::size_t>(number));
  return tree;
}

std::span<const Domain> Topology::children(int depth, const Domain& domain) const {
  if (depth >= host_depth()) return {};
  return domains(depth + 1).subspan(
      static_cast<std::size_t>(domain.first_child),
      static_cast<std::size_t>(domain.end_child - domain.first_child));
}

}  // namespace pawl::placement
