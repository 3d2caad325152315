#include "common/base/check.h"
#include "common/base/mutant.h"
#include "operator/core/steps.h"

namespace pawl::core {
namespace {

using namespace api;

void delete_active(Pass& pass) {
  for (const Worker& worker : pass.pods.current) {
    if (!is_terminal(*worker.pod)) pass.delete_pod(*worker.pod);
  }
  for (const Worker& worker : pass.pods.previous) {
    if (!is_terminal(*worker.pod)) pass.delete_pod(*worker.pod);
  }
}

std::string restarts_text(const Restarts& restarts) {
  const int total = restarts.counted + restarts.free;
  if (total == 0) return "";
  return " after " + std::to_string(total) + (total == 1 ? " restart" : " restarts");
}

void write_end(Pass& pass, const char* type, const std::string& reason,
               const std::string& message) {
  set_condition(pass, type, "True", reason, message);
  clear_condition(pass, condition::kRunning, reason, message);
  clear_condition(pass, condition::kRestarting, reason, message);
  clear_condition(pass, condition::kSuspended, reason, message);
  clear_condition(pass, condition::kStalled, reason, message);
  pass.next.completion_time = pass.now;
  pass.emit(type == std::string(condition::kFailed), type, message);
}

}  // namespace

bool has_succeeded(const Pass& pass) {
  const bool is_finished = pass.report != nullptr && pass.report->is_finished;
  if (pass.job.status.attempt == 0 || (pass.pods.succeeded == 0 && !is_finished)) return false;
  for (int slot = 0; slot < pass.size(); ++slot) {
    const PodView* pod = pass.pods.at(slot);
    // The gang passed its closing barrier; a pod that was tidied away afterwards changes nothing.
    if (pod == nullptr && is_finished && pass.pods.active == 0) continue;
    if (is_mutant(Mutant::kI9EarlySuccess)) continue;
    if (pod == nullptr || outcome_of(*pod) != Outcome::kSucceeded) return false;
  }
  return true;
}

void begin_success(Pass& pass) {
  const std::string message = "all " + std::to_string(pass.size()) + " workers succeeded" +
                              restarts_text(pass.next.restarts);
  set_condition(pass, condition::kSuccessCriteriaMet, "True", "AllRanks", message);
  finish(pass);
}

void begin_failure(Pass& pass, const std::string& reason, const std::string& message) {
  set_condition(pass, condition::kFailureTarget, "True", reason, message);
  finish(pass);
}

void finish(Pass& pass) {
  const bool is_success = is_true(pass.next, condition::kSuccessCriteriaMet);
  const Condition cause_of_end = *find_condition(
      pass.next, is_success ? condition::kSuccessCriteriaMet : condition::kFailureTarget);
  if (!is_mutant(Mutant::kB27FinishedKeepsPods)) delete_active(pass);
  pass.say(cause_of_end.reason, cause_of_end.message);
  if (pass.pods.has_active() && !is_mutant(Mutant::kB27FinishedKeepsPods)) return;
  write_end(pass, is_success ? condition::kComplete : condition::kFailed, cause_of_end.reason,
            cause_of_end.message);
}

void after_end(Pass& pass) {
  if (!is_mutant(Mutant::kB27FinishedKeepsPods)) delete_active(pass);
  const auto& ttl = pass.job.spec.ttl_seconds_after_finished;
  if (is_mutant(Mutant::kB31ZeroIsAbsent) && ttl && *ttl == 0) return;
  PAWL_CHECK(!is_mutant(Mutant::kB10AbsentField) || pass.job.status.completion_time, "B10");
  if (!ttl || !pass.job.status.completion_time) return;
  const TimePoint due = *pass.job.status.completion_time + std::chrono::seconds{*ttl};
  if (pass.now_exact < due) return pass.wake(due);
  pass.acts.push_back(DeleteJob{pass.job.meta.uid, pass.job.meta.resource_version});
}

}  // namespace pawl::core
