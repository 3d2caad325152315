// spec.scheduling of a TrainingJob: which job gets room first, and how near together its workers
// are. Used by the codec and by operator/controller. Values; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace pawl::api {

enum class TopologyMode { kRequired, kPreferred };

struct TopologyTerm {
  std::string level;  // "host", a level's name, or the key of its label
  TopologyMode mode = TopologyMode::kRequired;
  bool operator==(const TopologyTerm&) const = default;
};

// Each so many workers, in the order of ranks, within one domain of this level.
struct SliceTerm {
  int size = 0;
  std::string level;  // as in a TopologyTerm
  bool operator==(const SliceTerm&) const = default;
};

struct Scheduling {
  std::string queue_name;              // "": none
  std::string priority_class_name;     // "": the one that the template names
  std::vector<TopologyTerm> topology;  // one of each mode at most
  std::optional<SliceTerm> slices = {};
  int spares = 0;  // workers beside spec.replicas, in wait for a lost one's place
  // For the gang to form once a pod of it is bound; after that others get its nodes. None: for
  // ever.
  std::optional<std::int64_t> start_timeout_seconds = {};
  bool operator==(const Scheduling&) const = default;
};

// Within one domain of which the workers have to be; "": any.
std::string required_level(const std::optional<Scheduling>& scheduling);

}  // namespace pawl::api
