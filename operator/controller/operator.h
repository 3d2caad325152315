// The operator as one object: informers, the controller thread that owns all state, the election,
// and the execution of plans, above a Transport. main.cpp runs it in a cluster, `pawl run` above
// the embedded store and without an election. start() and stop() from one thread; the rest from
// any.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "common/api/children.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/random.h"
#include "common/kube/transport.h"
#include "operator/controller/placer.h"
#include "operator/controller/signal_table.h"
#include "operator/leader/lease.h"

namespace pawl::controller {

struct OperatorOptions {
  api::ChildOptions children;
  std::string ns;           // watch one namespace; empty: all
  int report_seconds = 10;  // how often a running gang reports, at most
  std::chrono::milliseconds numbers_every{
      2'000};                                  // how often progress is written to a job, at most
  std::shared_ptr<const SignalTable> signals;  // null: what nodes say is not looked at
  std::optional<placement::Levels> placement;  // nothing: the cluster's scheduler decides on nodes
  admission::Patience patience;
  Flavors flavors;                // of nodes, with quotas of their own
  bool wants_pod_groups = false;  // for what the scheduler places, where the cluster serves them
  bool asks_by_pods = false;      // an autoscaler, for nodes for who waits
  // Several operators: only the holder of this Lease acts. Without: this one acts, and is alone.
  std::optional<leader::LeaseOptions> lease;
  // Where renewals do not wait behind the requests of a thousand jobs; null: the same transport.
  kube::Transport* lease_transport = nullptr;
};

class Operator {
 public:
  Operator(kube::Transport& transport, const Clock& clock, Random random, Log& log,
           OperatorOptions options);
  ~Operator();  // stops

  void start();
  // A leader ends what is in flight, then gives its lease back; 2 s at most.
  void stop();
  bool is_synced() const;  // every informer has listed once, leader or not: /readyz
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
