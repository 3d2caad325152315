#include "common/base/mutant.h"
#include "operator/core/node_steps.h"
#include "operator/core/steps.h"

namespace pawl::core {
namespace {

using namespace api;

// Higher than everything that was ever seen of this job, so that no pod or record of before can be
// taken for one of this attempt, even if the job's status was lost; and higher than what is left of
// a deleted job of this name, whose pods may hold their names for as long as their node is dead.
void raise_attempt(Pass& pass) {
  const std::int64_t in_group = pass.group != nullptr ? pass.group->spec.attempt : 0;
  const std::int64_t highest = std::max(
      {pass.job.status.attempt, in_group, pass.pods.attempt_max, pass.pods.leftover_attempt_max});
  pass.next.attempt = highest + 1;
  pass.next.attempt_time = pass.now;
  pass.is_new_attempt = true;
}

std::string workers(int count) {
  return std::to_string(count) + (count == 1 ? " worker" : " workers");
}

}  // namespace

std::string budget_text(const Pass& pass) {
  return std::to_string(pass.next.restarts.spent) + " of " +
         std::to_string(pass.job.spec.max_restarts) + " restarts used";
}

void start_first(Pass& pass) {
  raise_attempt(pass);
  pass.next.start_time = pass.now;
  const std::string message = "starting " + workers(pass.job.spec.replicas);
  set_condition(pass, condition::kRunning, "False", "Starting", message);
  pass.say("Starting", message);
}

void resume(Pass& pass) {
  raise_attempt(pass);
  pass.next.start_time = pass.now;
  // Whoever resumes a job has looked at it.
  pass.next.restarts.without_progress = 0;
  pass.next.excluded_nodes.clear();
  pass.next.capacity = {};
  pass.next.micro_batch.reset();
  const std::string message = "resumed with " + workers(pass.job.spec.replicas);
  set_condition(pass, condition::kSuspended, "False", "Resumed", message);
  set_condition(pass, condition::kRunning, "False", "Starting", message);
  pass.say("Resumed", message);
  pass.emit(false, "Resumed", "attempt " + std::to_string(pass.next.attempt) + ": " + message);
}

void restart(Pass& pass, const Restart& how) {
  keep_quota(pass);
  raise_attempt(pass);
  Restarts& restarts = pass.next.restarts;
  const bool forgets = is_mutant(Mutant::kB39CountLost) && !pass.seen.status_written_at;
  const bool is_counted = how.is_counted && !forgets;
  restarts.free += is_counted ? 0 : 1;
  restarts.counted += is_counted ? 1 : 0;
  restarts.spent += is_counted ? 1 : 0;
  if (is_mutant(Mutant::kB04DoubleCount) && is_counted && pass.report != nullptr)
    ++restarts.counted;
  const bool grows = is_mutant(Mutant::kB41StatusGrows);
  ++restarts.by_cause[how.cause + (grows ? std::to_string(pass.next.attempt) : "")];
  std::string message = "attempt " + std::to_string(pass.next.attempt) + " follows: " + how.why;
  if (how.is_counted) message += "; " + budget_text(pass);
  set_condition(pass, condition::kRunning, "False", "Restarting", message);
  set_condition(pass, condition::kRestarting, "True", how.cause, message);
  // It waits in line as a new one would: its time begins when it has nodes, and it keeps no quota.
  if (is_true(pass.next, condition::kPreempted)) pass.next.start_time = pass.now;
  clear_condition(pass, condition::kPreempted, "Left", message);
  pass.say(how.cause, message);
  pass.emit(how.is_counted, "Restarting", message);
}

}  // namespace pawl::core
