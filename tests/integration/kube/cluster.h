// The real API server that the tests of this folder talk to. PAWL_TEST_KUBECONFIG is the kubeconfig
// of `e2e/cluster/cluster.py apiserver-only up`; without it every test skips. Each test has a
// namespace of its own.
#pragma once

#include <catch2/catch_test_macros.hpp>
#include <condition_variable>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "common/base/json.h"
#include "common/base/log.h"
#include "common/kube/cpprest_transport.h"
#include "common/kube/informer.h"
#include "common/kube/requests.h"
#include "common/os/real_clock.h"

namespace pawl::kube {

using nlohmann::json;

constexpr std::chrono::seconds kPatience{60};
extern const Resource kConfigMaps;

class Cluster {
 public:
  Cluster();
  ~Cluster();
  Cluster(const Cluster&) = delete;
  Cluster& operator=(const Cluster&) = delete;

  const std::string& ns() const { return ns_; }
  Transport& transport() { return *transport_; }
  const Clock& clock() const { return clock_; }
  Log& log() { return log_; }

  Result<json> call(const HttpRequest& request) { return call(*transport_, request); }
  static Result<json> call(Transport& transport, const HttpRequest& request);
  // A ConfigMap in this test's namespace; fails the test if it cannot be made.
  json create(const std::string& name, const json& labels = json::object());
  json patch(const std::string& name, const json& patch);
  void remove(const json& object);

  // Somebody else: a ServiceAccount with a real token and the rules that `rules` allows; empty:
  // none.
  std::unique_ptr<Transport> as_service_account(const std::string& name, const json& rules = {});

  // etcd forgets what was before now.
  void compact_history();
  // kill -9, and the same program again on the same port.
  void restart_api_server();
  void wait_until_ready();
  // SIGSTOP: connections stay, nothing is answered. Until thaw().
  void freeze_api_server();
  void thaw_api_server();
  // Waits until a line with this text has been logged.
  void wait_for_log(const std::string& text);

 private:
  void write_log(std::string_view line);
  int api_server_pid() const;

  json created(const Resource& resource, const json& object);

  RealClock clock_;
  std::mutex mutex_;
  std::condition_variable logged_;
  std::string lines_;
  Log log_;
  std::filesystem::path folder_;
  ClusterConfig config_;
  std::unique_ptr<Transport> transport_;
  std::string ns_;
};

// An informer's view of ConfigMaps, and what it was told, as words: "+a", "-a", "synced".
class View {
 public:
  View(Cluster& cluster, Transport& transport, InformerOptions options);
  // The value of data.v of an object that is in view; "" if it is not.
  std::string value(const std::string& name);
  std::size_t size();
  void wait_for(const std::string& what, const std::function<bool(View&)>& holds);
  std::vector<std::string> told();
  int synced();
  bool is_told(const std::string& word);
  Informer& informer() { return *informer_; }

 private:
  std::recursive_mutex mutex_;
  std::condition_variable_any changed_;
  std::map<std::string, json> objects_;  // by UID
  std::vector<std::string> told_;
  int synced_ = 0;
  std::unique_ptr<Informer> informer_;  // last: it stops first
};

}  // namespace pawl::kube
