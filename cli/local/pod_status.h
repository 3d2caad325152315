// What the process node writes about a pod: its status as a kubelet does, its binding as the
// scheduler does. Pure.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "common/base/clock.h"
#include "common/kube/transport.h"

namespace pawl::local {

struct ProcessFacts {
  TimePoint created, ready_since;  // ready_since: when is_ready last changed
  std::optional<TimePoint> started, finished;
  bool is_ready = false;
  int exit_code = 0;
  std::optional<int> signal;
  std::string reason;   // of an end that is no plain exit: StartError, CreateContainerConfigError
  std::string message;  // the termination message
};

// {status: …} for a merge patch of the status subresource. Lists are whole.
nlohmann::json pod_status_patch(const nlohmann::json& pod, const ProcessFacts& facts);
kube::HttpRequest binding_of(const nlohmann::json& pod, const std::string& node_name);

}  // namespace pawl::local
