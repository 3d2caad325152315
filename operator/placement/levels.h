// The levels of the tree of domains, as the chart configures them and as jobs name them: coarse to
// fine, each the key of a node's label, with a name of its own where it has one ("rack"). Machines
// are the finest of all, and need no label. Pure; values.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/base/result.h"

namespace pawl::placement {

class Levels {
 public:
  Levels() = default;  // machines only
  // "rack=example.com/rack,…" or "example.com/rack,…", coarse to fine; "nodes": machines only.
  static Result<Levels> parse(const std::string& text);

  const std::vector<std::string>& labels() const { return labels_; }
  int host_depth() const { return static_cast<int>(labels_.size()) + 1; }
  // By the level's name or its label's key; of the machines also "host". Nothing: there is none.
  std::optional<int> depth_of(const std::string& level) const;
  // 1: the coarsest; of the whole cluster, 0, it is "".
  std::string name_at(int depth) const;

 private:
  std::vector<std::string> names_, labels_;
};

}  // namespace pawl::placement
