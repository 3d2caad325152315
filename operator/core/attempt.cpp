#include "common/base/mutant.h"
#include "operator/core/steps.h"

namespace pawl::core {
namespace {

using namespace api;

// Higher than everything that was ever seen of this job, so that no pod or record of before can be
// taken for one of this attempt, even if the job's status was lost.
void raise_attempt(Pass& pass) {
  const std::int64_t in_group = pass.group != nullptr ? pass.group->spec.attempt : 0;
  const std::int64_t highest = std::max({pass.job.status.attempt, in_group, pass.pods.attempt_max});
  pass.next.attempt = highest + 1;
  pass.is_new_attempt = true;
}

std::string workers(int count) {
  return std::to_string(count) + (count == 1 ? " worker" : " workers");
}

}  // namespace

void start_first(Pass& pass) {
  raise_attempt(pass);
  pass.next.start_time = pass.now;
  const std::string message = "starting " + workers(pass.job.spec.replicas);
  set_condition(pass, condition::kRunning, "False", "Starting", message);
  pass.say("Starting", message);
  pass.emit(false, "Started",
            "attempt " + std::to_string(pass.next.attempt) + " starts with " +
                workers(pass.job.spec.replicas));
}

void resume(Pass& pass) {
  raise_attempt(pass);
  pass.next.start_time = pass.now;
  pass.next.restarts.without_progress = 0;  // whoever resumes a job has looked at it
  const std::string message = "resumed with " + workers(pass.job.spec.replicas);
  set_condition(pass, condition::kSuspended, "False", "Resumed", message);
  set_condition(pass, condition::kRunning, "False", "Starting", message);
  pass.say("Resumed", message);
  pass.emit(false, "Resumed", "attempt " + std::to_string(pass.next.attempt) + ": " + message);
}

void restart_free(Pass& pass, const std::string& cause_name, const std::string& why) {
  raise_attempt(pass);
  ++pass.next.restarts.free;
  const bool grows = is_mutant(Mutant::kB41StatusGrows);
  ++pass.next.restarts.by_cause[cause_name + (grows ? std::to_string(pass.next.attempt) : "")];
  const std::string message = "attempt " + std::to_string(pass.next.attempt) + " follows: " + why;
  set_condition(pass, condition::kRunning, "False", "Restarting", message);
  set_condition(pass, condition::kRestarting, "True", cause_name, message);
  pass.say(cause_name, message);
  pass.emit(false, "Restarting", message);
}

}  // namespace pawl::core
