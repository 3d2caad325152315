// A cluster in one process: embedded API, its HTTP front, the keeper's process node, and the real
// operator above them. Built and destroyed in that order by one thread. The Keeper comes from
// outside, because it has to be forked before the first thread exists. The file
// `kubeconfig` of the run folder is for `pawl status` and whoever else asks.
#pragma once

#include <memory>
#include <string>

#include "cli/local/api_server.h"
#include "cli/local/keeper.h"
#include "cli/local/process_node.h"
#include "cli/local/store_transport.h"
#include "cli/local/tokens.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "operator/controller/operator.h"

namespace pawl::cli {

struct ClusterOptions {
  std::string run_folder;     // absolute
  std::string launcher_path;  // pawl-launch
  std::string trainer_path;   // pawl-train
};

class LocalCluster {
 public:
  static Result<std::unique_ptr<LocalCluster>> start(local::Keeper& keeper, const Clock& clock,
                                                     Log& log, const ClusterOptions& options);
  ~LocalCluster();

  local::StoreTransport& transport() { return transport_; }
  local::ProcessNode& node() { return *node_; }

 private:
  LocalCluster(const Clock& clock, std::unique_ptr<local::TokenAuthority> tokens);

  local::StoreTransport transport_;
  std::unique_ptr<local::TokenAuthority> tokens_;
  std::unique_ptr<local::ApiServer> server_;
  std::unique_ptr<local::ProcessNode> node_;
  std::unique_ptr<controller::Operator> operator_;
};

}  // namespace pawl::cli
