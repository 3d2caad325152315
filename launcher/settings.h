// What the operator told this launcher: read once at start from the environment
// (common/api/contract.h). Pure.
#pragma once

#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "common/api/worker_facts.h"
#include "common/base/result.h"

namespace pawl::launcher {

inline constexpr int kCheckpointSecondsAuto = 60;
inline constexpr int kStandbySeconds = 15;

struct Settings {
  api::WorkerFacts worker;
  std::string pod_uid, pod_ip, node;
  std::string token_file, ca_file, peer_token_file;
  std::string api_server;  // only in `pawl run`
  std::string metadata;    // "http://169.254.169.254": the cloud's service; empty: nobody asks it
  int health_port = -1;    // -1: none
  std::string termination_log = "/dev/termination-log";
  std::string nvml;  // NVIDIA's management library; empty: where it usually lies
  bool has_health_gate = true;
  // That a program has run before another process stands by for it; 0: none ever does.
  std::chrono::seconds standby_after{kStandbySeconds};

  std::vector<std::string> command;
  std::vector<std::string> launcher;       // what starts this program again, in any image (MPI)
  std::map<std::string, std::string> env;  // everything, for the processes
  // Between two checkpoints; also where the job leaves it to us.
  int checkpoint_seconds() const {
    const bool is_set = worker.checkpoint && worker.checkpoint->seconds > 0;
    return is_set ? worker.checkpoint->seconds : kCheckpointSecondsAuto;
  }
  bool is_local() const { return !api_server.empty(); }
};

// Invalid with one sentence that names everything that is missing or wrong.
Result<Settings> read_settings(const std::map<std::string, std::string>& env,
                               std::vector<std::string> command);

}  // namespace pawl::launcher
