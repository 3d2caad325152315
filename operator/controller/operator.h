// The operator as one object: informers, the controller thread that owns all state, and the
// execution of plans, above a Transport. main.cpp runs it in a cluster, `pawl run` above the
// embedded store, the simulator in virtual time. start() and stop() from one thread; metrics() and
// is_synced() from any.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "common/api/children.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/random.h"
#include "common/kube/transport.h"

namespace pawl::controller {

struct OperatorOptions {
  api::ChildOptions children;
  std::string ns;           // watch one namespace; empty: all
  int report_seconds = 10;  // how often a running gang reports, at most
  std::chrono::milliseconds numbers_every{
      2'000};  // how often progress is written to a job, at most
};

class Operator {
 public:
  Operator(kube::Transport& transport, const Clock& clock, Random random, Log& log,
           OperatorOptions options);
  ~Operator();  // stops

  void start();
  void stop();
  bool is_synced() const;  // every informer has listed once: /readyz
  // /healthz: the controller thread has turned in the last 30 s, and every informer has heard of
  // its kind in the last 10 minutes. Some ends of contact heal only by starting anew: another CA,
  // an API server that was set back.
  bool is_alive() const;
  std::string metrics() const;  // Prometheus text

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace pawl::controller
