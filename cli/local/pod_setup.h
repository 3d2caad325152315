// What a pod is given before its process starts: a private folder with fresh tokens, a health port,
// a log file, and its rights at the embedded API. The process node's thread.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <set>
#include <string>

#include "cli/local/pod_process.h"
#include "cli/local/process_node.h"

namespace pawl::local {

inline constexpr std::chrono::hours kTokenLife{24};
inline constexpr std::chrono::hours kTokenRenewal{12};

class PodSetup {
 public:
  PodSetup(const NodeBase& base, const ProcessNodeOptions& options)
      : base_(base), options_(options) {}

  // Fills `place`. Invalid: the pod cannot run here.
  Result<ProcessSpec> prepare(const nlohmann::json& pod, PodPlace& place);
  // Again every kTokenRenewal.
  Status write_tokens(const nlohmann::json& pod, const PodPlace& place) const;
  void release(const PodPlace& place) { ports_.erase(place.health_port); }
  std::string log_file(const std::string& pod_name) const;

 private:
  const NodeBase& base_;
  const ProcessNodeOptions& options_;
  std::set<std::uint16_t> ports_;
};

}  // namespace pawl::local
