// Drives the LeaseMachine on a Transport: sends what it asks for, shows it the Lease by a watch,
// logs and counts. Has no thread of its own: the controller's thread calls turn(), so that a
// controller that hangs loses the lease; answers and the watch post to a small box and `wake` that
// thread. The requests of a candidate: one GET, one LIST, a watch; of a leader: one PATCH each
// `renew_every`, the only writes of an idle operator.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/kube/informer.h"
#include "common/kube/transport.h"
#include "operator/leader/lease.h"

namespace pawl::leader {

class LeaseBox;

class Elector {
 public:
  // `wake` is called from threads of the transport; it may be called once more after stop().
  Elector(kube::Transport& transport, const Clock& clock, Random random, Log& log,
          LeaseOptions options, std::function<void()> wake);
  ~Elector();
  Elector(const Elector&) = delete;
  Elector& operator=(const Elector&) = delete;

  void start();  // opens the watch
  // Takes what has come, sends what is due. When to be called again at the latest.
  SteadyPoint turn();
  // Not to be acted upon before turn() has been called at that time.
  SteadyPoint leads_until() const { return machine_.leads_until(); }
  // Changes whenever the lead was gained or lost; odd: this process leads.
  std::uint64_t epoch() const { return machine_.terms() + machine_.losses(); }
  bool is_leading() const { return machine_.is_leading(); }
  // What the leader before left for this term when it gave the lease back; empty: nothing is known.
  const std::string& inherited() const { return machine_.inherited(); }

  // Stops leading; turn() until is_released() gives the lease back.
  void release(std::string handover) { machine_.release(std::move(handover)); }
  bool is_released() const { return machine_.is_released(); }

  std::string metrics() const;  // Prometheus text

 private:
  void report();
  void send_event(const std::string& message);

  kube::Transport& transport_;
  const Clock& clock_;
  Log& log_;
  const LeaseOptions options_;
  LeaseMachine machine_;
  const std::shared_ptr<LeaseBox> box_;  // outlives us in callbacks
  kube::Informer watch_;
  kube::RequestHandle in_flight_ = 0;
  std::uint64_t reported_terms_ = 0, reported_losses_ = 0;
  std::string reported_trouble_, reported_holder_;
};

}  // namespace pawl::leader
