#include "cli/run/local_cluster.h"

#include <utility>

#include "cli/local/node_files.h"
#include "common/base/random.h"
#include "common/os/process.h"

namespace pawl::cli {
namespace {

// There is one job to watch and a person who waits: report more often than a cluster could afford.
constexpr int kReportSeconds = 1;
constexpr std::chrono::milliseconds kNumbersEvery{500};

local::StoreTransportOptions store_options() {
  local::StoreTransportOptions options;
  options.seed = os::entropy();
  return options;
}

std::string kubeconfig(const local::ApiServer& server) {
  return "apiVersion: v1\nkind: Config\ncurrent-context: run\n"
         "clusters: [{name: run, cluster: {server: \"" +
         server.url() +
         "\"}}]\n"
         "users: [{name: user, user: {token: \"" +
         server.user_token() +
         "\"}}]\n"
         "contexts: [{name: run, context: {cluster: run, user: user, namespace: default}}]\n";
}

}  // namespace

LocalCluster::LocalCluster(const Clock& clock, std::unique_ptr<local::TokenAuthority> tokens)
    : transport_(clock, store_options()), tokens_(std::move(tokens)) {}

LocalCluster::~LocalCluster() = default;

Result<std::unique_ptr<LocalCluster>> LocalCluster::start(local::Keeper& keeper, const Clock& clock,
                                                          Log& log, const ClusterOptions& options) {
  PAWL_TRY(tokens, local::TokenAuthority::create());
  std::unique_ptr<LocalCluster> cluster{new LocalCluster{clock, std::move(tokens)}};
  PAWL_TRY(server, local::ApiServer::start(cluster->transport_, *cluster->tokens_, clock));
  cluster->server_ = std::move(server);
  PAWL_TRY_VOID(
      local::write_private_file(options.run_folder + "/kubeconfig", kubeconfig(*cluster->server_)));

  local::ProcessNodeOptions node;
  node.node_name = os::host_name();
  node.run_folder = options.run_folder;
  node.environment = os::environment();
  cluster->node_ =
      std::make_unique<local::ProcessNode>(local::NodeBase{cluster->transport_, *cluster->server_,
                                                           *cluster->tokens_, keeper, clock, log},
                                           std::move(node));

  controller::OperatorOptions brain;
  brain.children.is_local = true;
  brain.children.launcher_path = options.launcher_path;
  brain.children.trainer_path = options.trainer_path;
  brain.report_seconds = kReportSeconds;
  brain.numbers_every = kNumbersEvery;
  cluster->operator_ = std::make_unique<controller::Operator>(
      cluster->transport_, clock, Random{os::entropy()}, log, std::move(brain));
  cluster->operator_->start();
  return cluster;
}

}  // namespace pawl::cli
