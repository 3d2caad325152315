// A kubelet of processes: takes every pod of the embedded API, runs its worker container's command
// as a process of this machine (through the Keeper), probes its readiness, reports its status, and
// ends it as a kubelet would: SIGTERM, grace, SIGKILL, then the object. Also the scheduler of its
// one node. Its own thread owns all pods; public methods from any thread. It does not restart
// containers (our pods say Never), and has no liveness probes: a launcher that hangs stops being
// ready.
#pragma once

#include <sys/types.h>
#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "cli/local/api_server.h"
#include "cli/local/keeper.h"
#include "cli/local/store_transport.h"
#include "cli/local/tokens.h"
#include "common/base/clock.h"
#include "common/base/log.h"

namespace pawl::local {

struct ProcessNodeOptions {
  std::string node_name = "local";
  std::string run_folder;                          // gets logs/<pod>.log and pods/<pod>/
  std::map<std::string, std::string> environment;  // that pods inherit
  std::chrono::milliseconds probe_first{100};      // between probes until a pod is ready
  std::chrono::milliseconds probe_later{1000};     // and afterwards
};

// What the node stands on; all of it outlives the node.
struct NodeBase {
  StoreTransport& transport;
  ApiServer& server;
  const TokenAuthority& tokens;
  Keeper& keeper;
  const Clock& clock;
  Log& log;
};

class ProcessNode {
 public:
  ProcessNode(const NodeBase& base, ProcessNodeOptions options);
  ~ProcessNode();  // stops watching; processes that still run are the Keeper's to end

  // The main process of a running pod.
  std::optional<pid_t> pid_of(const std::string& pod_name) const;
  std::string log_file(const std::string& pod_name) const;
  // False when the Keeper died: no process of ours is left.
  bool is_able() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace pawl::local
