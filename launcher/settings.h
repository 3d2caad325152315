// What the operator told this launcher: read once at start from the environment
// (common/api/contract.h). Pure.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "common/api/types.h"
#include "common/base/result.h"

namespace pawl::launcher {

struct Settings {
  std::string job_name, job_uid, ns, pod, pod_uid, pod_ip, node;
  std::int64_t attempt = 0;
  int slot = 0, processes = 1;
  api::RuntimeKind runtime = api::RuntimeKind::kCustom;
  std::string checkpoint_uri;
  int checkpoint_seconds = 60, checkpoint_keep = 3;
  std::string token_file, ca_file, peer_token_file;
  std::string api_server;  // only in `pawl run`
  int health_port = -1;    // -1: none
  std::string termination_log = "/dev/termination-log";

  std::vector<std::string> command;
  std::map<std::string, std::string> env;  // everything, for the processes
  bool is_local() const { return !api_server.empty(); }
};

// Invalid with one sentence that names everything that is missing or wrong.
Result<Settings> read_settings(const std::map<std::string, std::string>& env,
                               std::vector<std::string> command);

}  // namespace pawl::launcher
