// The machines of a cluster as a tree of domains (zone, block, rack: whatever labels the chart
// names, and the hosts at its leaves), which placement.h decides in. Built anew when machines or
// labels change; what is free is apart from it. Pure; any thread, as it does not change.
#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace pawl::placement {

struct Machine {
  std::string name;
  std::map<std::string, std::string> labels;
};

// Hosts are numbered depth-first, so that a domain covers a range of them.
struct Domain {
  std::string path;                    // "block-a/rack-3"; of the whole cluster ""
  int first_child = 0, end_child = 0;  // in the next depth; of a host none
  int first_host = 0, end_host = 0;
  int parent = 0;  // in the depth before
};

class Topology {
 public:
  // `labels`: keys, coarse to fine. A machine without one of them is alone in its domain of that
  // level: nothing is known to be near it. The same value below two parents is two domains.
  Topology(std::vector<Machine> machines, std::span<const std::string> labels);

  int hosts() const { return static_cast<int>(names_.size()); }
  const std::string& host(int number) const { return names_[static_cast<std::size_t>(number)]; }
  // Depth 0 is the cluster, 1 the first label's, the last one the hosts.
  int host_depth() const { return static_cast<int>(levels_.size()) - 1; }
  std::span<const Domain> domains(int depth) const {
    return levels_[static_cast<std::size_t>(depth)];
  }
  std::span<const Domain> children(int depth, const Domain& domain) const;
  // The tree down to this depth: the domains there are its hosts. Nothing has a name in it.
  Topology cut(int depth) const;
  // Of a domain in domains(depth).
  std::size_t index_of(int depth, const Domain& domain) const {
    return static_cast<std::size_t>(&domain - domains(depth).data());
  }

 private:
  Topology() = default;
  std::vector<std::vector<Domain>> levels_;
  std::vector<std::string> names_;
};

}  // namespace pawl::placement
