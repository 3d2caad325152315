// How a pod becomes a process of this machine: the worker container's command and environment,
// resolved as the kubelet would. Pure. Images, volumes, resources, security contexts and init
// containers mean nothing here; what cannot work without them is refused with the field's name.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "cli/local/keeper.h"
#include "common/base/result.h"

namespace pawl::local {

inline constexpr char kLocalAddress[] = "127.0.0.1";  // of node and pods

// What the node gives a pod.
struct PodPlace {
  std::string folder;      // private to the pod: tokens and termination log
  std::string log;         // file
  std::string api_server;  // URL
  std::uint16_t health_port = 0;
  std::map<std::string, std::string> environment;  // of `pawl` itself; the pod inherits it
};

std::string token_file(const PodPlace& place);
std::string peer_token_file(const PodPlace& place);
std::string termination_log(const PodPlace& place);

// Invalid: the pod cannot run here, as a CreateContainerConfigError on a cluster.
Result<ProcessSpec> process_of(const nlohmann::json& pod, const PodPlace& place);
// The container named "worker", else the first; of a pod that passed process_of.
const nlohmann::json& worker_container(const nlohmann::json& pod);

}  // namespace pawl::local
