// One plan under way: which requests may be sent now, and when it is over. Runs the actions in
// order; neighbours of one kind (children, pods, deletions, events) go out together, up to a bound;
// stops at the first error and then waits for what is in flight. A plain machine: it sends nothing
// itself. Owner thread only.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "operator/controller/cache.h"
#include "operator/controller/exchange.h"
#include "operator/core/actions.h"

namespace pawl::controller {

class PlanRun {
 public:
  struct Outgoing {
    std::size_t action = 0;
    kube::HttpRequest request;
  };
  struct RunError {
    core::Action action;
    Error error;
    bool is_leftover = false;
    std::int64_t generation = 0;  // of the job that was planned for
  };

  PlanRun(JobKey key, core::Plan plan, ExchangeContext context, std::size_t wave_max);
  PlanRun(const PlanRun&) = delete;
  PlanRun& operator=(const PlanRun&) = delete;

  std::vector<Outgoing> take_requests();
  void on_answer(std::size_t action, const Result<Reply>& answer);

  bool is_over() const;
  const JobKey& key() const { return key_; }
  const core::Plan& plan() const { return plan_; }
  std::string job_uid() const { return context_.job ? context_.job->meta.uid : ""; }
  const std::optional<RunError>& error() const { return error_; }
  // Written or, where a write did not take effect, read: what our view has to come up to.
  const std::vector<Written>& written() const { return written_; }
  std::size_t done() const { return done_; }
  bool has_written_status() const { return has_written_status_; }
  bool is_partial() const { return is_partial_; }  // of a write not everything was kept

 private:
  void settle(std::size_t action, Outcome outcome);
  bool may_start(std::size_t action) const;

  const JobKey key_;
  const core::Plan plan_;
  const ExchangeContext context_;
  const std::size_t wave_max_;
  std::size_t next_ = 0;  // first action that was not begun
  std::size_t done_ = 0;
  std::map<std::size_t, Exchange> in_flight_;
  std::vector<Outgoing> ready_;
  std::vector<Written> written_;
  std::optional<RunError> error_;
  bool has_written_status_ = false, is_partial_ = false;
};

}  // namespace pawl::controller
