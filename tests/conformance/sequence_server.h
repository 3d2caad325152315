// The two that answer sequences. SequenceServer: a real API server, whose watches stand open over
// all namespaces for the whole run, so that a sequence waits for what it caused and no longer.
// Callbacks run on the transport's threads; the rest on the test's.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>

#include "cli/local/api_store.h"
#include "common/os/real_clock.h"
#include "sequence_side.h"

namespace pawl::conformance {

class SequenceServer {
 public:
  // Needs the CRDs to be served.
  explicit SequenceServer(const std::string& kubeconfig);
  ~SequenceServer();
  SequenceServer(const SequenceServer&) = delete;
  SequenceServer& operator=(const SequenceServer&) = delete;

  Reply call(const kube::HttpRequest& request);
  // Creates it, and the account that its pods run as.
  void make_namespace(const std::string& ns);
  std::vector<Event> events(const std::string& ns);
  // False when they do not come in time.
  bool wait_for_events(const std::string& ns, std::size_t count);
  // Events of one watch until that of the closing object.
  std::vector<Event> watch(const std::string& plural, const std::string& target);
  // Until the garbage collector works for our kinds.
  void wait_for_collector();

 private:
  struct Stream;
  void open(const std::string& plural);
  void take(const std::string& plural, std::string_view line);
  std::string newest_revision();

  RealClock clock_;
  std::unique_ptr<kube::Transport> transport_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::vector<Event>> events_;  // by namespace
  std::map<std::string, nlohmann::json> newest_;      // what an object is now, by uid
  int open_streams_ = 0;
};

class ServerSide final : public Side {
 public:
  ServerSide(SequenceServer& server, const std::string& ns);
  std::vector<Event> events() override;

 private:
  Reply perform(const kube::HttpRequest& request) override;
  std::vector<Event> watch(const std::string& plural, const std::string& target) override;

  SequenceServer& server_;
};

class StoreSide final : public Side {
 public:
  explicit StoreSide(const std::string& ns);
  std::vector<Event> events() override;

 private:
  Reply perform(const kube::HttpRequest& request) override;
  std::vector<Event> watch(const std::string& plural, const std::string& target) override;
  void settle();

  FakeClock clock_;
  local::ApiStore store_;
  std::map<std::string, local::Watch> watches_;  // by "pods"
  std::vector<Event> events_;
};

}  // namespace pawl::conformance
