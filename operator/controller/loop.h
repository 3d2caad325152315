// The controller: takes what was posted, plans what is due, sends what the plans ask for. One
// turn() does everything that can be done now and says when to be called again at the latest; the
// Operator calls it from its thread, the simulator from its event loop in virtual time. A key is a
// job; at most one plan of a key is under way, and events meanwhile only mark it. Owner thread
// only; talks to the outside through Inbox, Transport and Clock.
#pragma once

#include <array>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/random.h"
#include "common/kube/transport.h"
#include "operator/controller/cache.h"
#include "operator/controller/inbox.h"
#include "operator/controller/loop_options.h"
#include "operator/controller/metrics.h"
#include "operator/controller/node_request_book.h"
#include "operator/controller/placer.h"
#include "operator/controller/plan_run.h"
#include "operator/controller/queue_reporter.h"
#include "operator/controller/served_api.h"
#include "operator/core/plan.h"

namespace pawl::controller {

class ControllerLoop {
 public:
  ControllerLoop(kube::Transport& transport, const Clock& clock, Random random, Log& log,
                 std::shared_ptr<Inbox> inbox, LoopOptions options);
  ~ControllerLoop();  // cancels what is in flight

  // The steady time at which to turn again if nothing is posted before; nothing: only when
  // something is posted.
  std::optional<SteadyPoint> turn();
  bool is_synced() const;
  // When the view that was heard of least recently was; views in sync get bookmarks each minute.
  SteadyPoint last_contact() const;
  std::string metrics() const;

  // Ends standing by: every job is looked at afresh, as soon as the views have come as far as
  // `at_least`, the newest that the leader before had seen and written.
  void lead(const Views& at_least);
  bool is_caught_up() const;
  // No request leaves at or after this time; at first there is no limit. A loop that has kept one
  // back does nothing any more: another may lead.
  void lead_until(SteadyPoint time) { lead_until_ = time; }
  std::size_t requests_in_flight() const;
  void cancel_requests();
  Views newest() const;

  // A loop that follows another one in this process: its requests are told apart from those that
  // are still on their way, its counters go on.
  void follow(const ControllerLoop& other);

 private:
  struct Keyed {
    bool is_queued = false, is_marked = false;  // marked while a plan is under way
    std::uint64_t run = 0;                      // 0: none
    std::optional<SteadyPoint> timer;           // entry of timers_
    SteadyPoint not_before{};                   // back-off after an error
    int errors = 0, refusals = 0;               // in a row
    std::optional<core::Refusal> refusal;
    std::optional<TimePoint> status_written_at;
  };
  struct Flight {
    std::unique_ptr<PlanRun> run;
    struct Sent {
      kube::RequestHandle handle = 0;
      SteadyPoint at{};
    };
    std::map<std::size_t, Sent> sent;  // by action
  };

  bool may_plan() const;
  void receive(Mail& mail);
  void mark(const JobKey& key);
  void fire_timers();
  void share_out_reports();
  SteadyPoint steady_of(TimePoint time) const;
  void wake_at(const JobKey& key, SteadyPoint time);
  void consider(const JobKey& key);
  void release(const JobKey& key, const JobEntry* entry);
  core::Observed observed(const JobKey& key, const JobEntry& entry, const Keyed& keyed) const;
  core::Plan decide(const JobKey& key, const JobEntry& entry, const Keyed& keyed);
  std::optional<SteadyPoint> ask_what_is_served();
  void hold_seats();
  bool decide_on_room();
  std::optional<SteadyPoint> report_queues();
  void consider_queued();
  void start(const JobKey& key, const JobEntry& entry, core::Plan plan);
  void send_ready(std::uint64_t id, Flight& flight);
  void finish(std::uint64_t id);
  void on_error(const JobKey& key, Keyed& keyed, const PlanRun::RunError& error);
  void on_partial(const JobKey& key, Keyed& keyed);
  void hold_back(const JobKey& key, Keyed& keyed, std::chrono::milliseconds first,
                 std::chrono::milliseconds most, const Error& error);
  void refuse(const JobKey& key, Keyed& keyed, const PlanRun::RunError& error);
  void forget_if_idle(const JobKey& key);

  kube::Transport& transport_;
  const Clock& clock_;
  Random random_;
  Log& log_;
  const std::shared_ptr<Inbox> inbox_;
  const LoopOptions options_;
  core::Policy policy_;  // of the options, with the present interval of reports

  Cache cache_;
  std::optional<Placer> placer_;
  QueueReporter queue_reporter_;
  ServedApi pod_groups_, provisioning_;
  NodeRequestBook node_requests_;
  std::set<JobKey> unseen_;  // that were there when it began to lead, and were not looked at since
  bool are_seats_held_ = false;  // of all jobs, so that the first decision can be made
  WriteGate gate_;
  Metrics metrics_;
  std::array<std::string, kKinds> view_;
  std::array<bool, kKinds> is_synced_{};
  std::array<SteadyPoint, kKinds> contact_at_;
  std::map<JobKey, Keyed> keyed_;
  std::deque<JobKey> queue_;  // marked keys, first come first served
  std::set<JobKey> gated_;    // wait for their own writes to appear
  std::set<std::pair<SteadyPoint, JobKey>> timers_;
  std::map<std::uint64_t, Flight> flights_;
  std::uint64_t next_run_ = 1;
  bool is_leading_;
  SteadyPoint lead_until_ = SteadyPoint::max();
  Views at_least_, written_;
};

}  // namespace pawl::controller
