// The anchors stand in status (startTime, attemptTime, the transition of Running, progressTime), so
// that a crash moves no deadline. They are wall-clock times of the operator: a clock that goes back
// lengthens a deadline by as much, and the controller looks again at least every ten minutes.
#include <algorithm>

#include "operator/core/node_steps.h"
#include "operator/core/steps.h"
#include "operator/core/stop_steps.h"

namespace pawl::core {
namespace {

using namespace api;
using std::chrono::seconds;

// True when `limit` has passed since `anchor`; else the pass wakes up then.
bool is_over(Pass& pass, const std::optional<TimePoint>& anchor,
             const std::optional<std::int64_t>& limit) {
  if (!anchor || !limit) return false;
  const TimePoint due = *anchor + seconds{*limit};
  if (pass.now_exact >= due) return true;
  pass.wake(due);
  return false;
}

std::string in_seconds(const std::optional<std::int64_t>& limit) {
  return std::to_string(limit.value_or(0)) + " s";
}

}  // namespace

bool has_missed_deadline(Pass& pass) {
  const Deadlines& limits = pass.job.spec.deadlines;
  const TrainingJobStatus& status = pass.job.status;
  const bool is_active = !waits_in_line(pass);
  if (is_active && is_over(pass, status.start_time, limits.active_seconds)) {
    begin_failure(pass, "DeadlineExceeded",
                  "the job has been active for longer than " + in_seconds(limits.active_seconds) +
                      " (deadlines.activeSeconds)");
    return true;
  }
  const Condition* running = find_condition(status, condition::kRunning);
  if (running != nullptr && running->status == "True") return false;
  // Who was sent away has this long from when it has nodes again.
  const bool was_sent_away = has_made_room(pass);
  if (was_sent_away && !is_active) return false;
  // A gang that lost a member has this long to be whole again.
  std::optional<TimePoint> anchor = status.attempt_time;
  if (anchor && was_sent_away) anchor = std::max(*anchor, status.start_time.value_or(*anchor));
  if (anchor && running != nullptr && running->last_transition_time) {
    // To be tried again and again is no new beginning; a resume is, and so are nodes after others
    // had them.
    if (gave_up_start(status)) anchor = status.start_time.value_or(*anchor);
    anchor = std::max(*anchor, *running->last_transition_time);
  }
  if (is_over(pass, anchor, limits.start_seconds)) {
    begin_failure(pass, "StartDeadlineExceeded",
                  waiting_for(pass).message + "; attempt " + std::to_string(status.attempt) +
                      " had " + in_seconds(limits.start_seconds) +
                      " to start (deadlines.startSeconds)");
    return true;
  }
  const auto& elastic = pass.job.spec.elastic;
  const bool may_fail =
      elastic && elastic->on_shortage == OnShortage::kFail && has_successors(pass);
  if (may_fail && is_over(pass, anchor, elastic->shortage_seconds)) {
    begin_failure(pass, "Shortage",
                  waiting_for(pass).message + "; attempt " + std::to_string(status.attempt) +
                      " had " + in_seconds(elastic->shortage_seconds) +
                      " to get its workers (elastic.shortageSeconds, onShortage is Fail)");
    return true;
  }
  return false;
}

// A gang that runs and reports no new step. Nobody is to blame: the pods all look well.
std::optional<Loss> find_hang(Pass& pass) {
  const auto& limit = pass.job.spec.deadlines.progress_seconds;
  const Condition* running = find_condition(pass.job.status, condition::kRunning);
  if (!limit || running == nullptr || running->status != "True" || !tells_progress(pass)) {
    return std::nullopt;
  }
  std::optional<TimePoint> anchor = running->last_transition_time;
  const auto& seen = pass.next.progress_time;  // of this pass: a step that has just come counts
  if (anchor && seen) anchor = std::max(*anchor, *seen);
  if (!is_over(pass, anchor, limit)) return std::nullopt;
  Loss loss;
  loss.failure.cause = cause::kHang;
  loss.failure.attempt = pass.job.status.attempt;
  loss.failure.time = pass.now;
  loss.failure.message = "no new step for " + in_seconds(limit) + " (deadlines.progressSeconds)";
  // The silence may be that of our own view of the record.
  if (pass.group != nullptr) {
    loss.confirms.push_back(ConfirmRecord{pass.group->meta.resource_version});
  }
  if (pass.next.progress) {
    loss.failure.message += "; the last was step " + std::to_string(pass.next.progress->step);
  }
  return loss;
}

}  // namespace pawl::core
