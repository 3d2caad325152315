// What losses cost the job: the launchers' own counts (common/api/tally.h), and the time that only
// the operator sees, from the start of an attempt to the gang's first step. That time is what is
// left of the whole: the time since the start, without what is accounted for already. So whatever
// was counted a moment too early or too late comes out with the next such sum.
#include <algorithm>

#include "common/base/mutant.h"
#include "operator/core/steps.h"
#include "operator/core/stop_steps.h"

namespace pawl::core {
namespace {

using namespace api;

bool is_over(const TrainingJobStatus& status) {
  return is_true(status, condition::kComplete) || is_true(status, condition::kFailed);
}

bool is_stopped(const TrainingJobStatus& status) {
  const Condition* suspended = find_condition(status, condition::kSuspended);
  return suspended != nullptr && (suspended->status == "True" || suspended->reason == kSuspending);
}

std::int64_t accounted(const Goodput& goodput) {
  return goodput.productive_seconds + sum_of(goodput.lost_by_cause);
}

// Since the start or the last resume, and in no account yet.
std::int64_t open_seconds(const Pass& pass) {
  const Goodput& goodput = pass.next.goodput;
  const auto& start = pass.job.status.start_time;
  if (!start || pass.now <= *start) return 0;
  const auto since = std::chrono::duration_cast<std::chrono::seconds>(pass.now - *start).count();
  return std::max<std::int64_t>(goodput.before_seconds + since - accounted(goodput), 0);
}

// The newest gang of this attempt has trained.
bool has_trained(const Pass& pass) {
  return pass.group != nullptr && pass.group->status.tally.time.attempt == pass.job.status.attempt;
}

// Its steps are not known: it counts as productive while it runs.
bool is_silent(const Pass& pass) {
  return pass.job.spec.runtime_kind != RuntimeKind::kNative && has_trained(pass) &&
         !pass.group->status.progress;
}

void close(Pass& pass, const std::string& cause, std::int64_t open) {
  if (is_mutant(Mutant::kI39LostAttempt) || open <= 0) return;
  constexpr std::int64_t kSecondsMax = 2'147'483'647;  // of the schema
  int& account = pass.next.goodput.lost_by_cause[cause];
  account = static_cast<int>(std::min(account + open, kSecondsMax));
}

// What is open since the newest attempt has trained, which may be seen late: the launchers count
// it.
std::int64_t trained_seconds(const Pass& pass) {
  if (!has_trained(pass)) return 0;
  const GangTime& time = pass.group->status.tally.time;
  if (!time.since || pass.now <= *time.since) return 0;
  const auto since = std::chrono::duration_cast<std::chrono::seconds>(pass.now - *time.since);
  return std::max<std::int64_t>(since.count() - (sum_of(time) - time.counted_seconds), 0);
}

void close_start(Pass& pass) {
  Goodput& goodput = pass.next.goodput;
  if (goodput.losing.empty()) return;
  close(pass, goodput.losing, open_seconds(pass) - trained_seconds(pass));
  goodput.losing.clear();
}

void close_gang(Pass& pass) {
  close_start(pass);
  if (is_silent(pass)) pass.next.goodput.productive_seconds += open_seconds(pass);
}

std::string cause_of_end(const Pass& pass) {
  const auto& failure = pass.next.last_failure;
  const bool is_told = is_true(pass.next, condition::kFailed) && failure &&
                       failure->attempt == pass.next.attempt && !failure->cause.empty();
  return is_told ? failure->cause : lost::kOther;
}

void add_own_time(Pass& pass) {
  const TrainingJobStatus& before = pass.job.status;
  Goodput& goodput = pass.next.goodput;
  if (pass.is_new_attempt && (before.attempt == 0 || is_true(before, condition::kSuspended))) {
    goodput.before_seconds = accounted(goodput);
    goodput.losing = lost::kStarting;
  } else if (pass.is_new_attempt) {
    close_gang(pass);
    goodput.losing = find_condition(pass.next, condition::kRestarting)->reason;
  } else if (is_over(pass.next)) {
    close_gang(pass);
    if (!is_stopped(before)) close(pass, cause_of_end(pass), open_seconds(pass));
    goodput.losing.clear();
  } else if (is_stopped(pass.next)) {
    if (!is_stopped(before)) close_gang(pass);
    goodput.losing.clear();
  } else if (has_trained(pass) && !goodput.losing.empty()) {
    close_start(pass);
  }
  // Its time begins anew: in line what was told late may have come meanwhile.
  if (pass.next.start_time != before.start_time) goodput.before_seconds = accounted(goodput);
}

}  // namespace

void take_tally(Pass& pass) {
  if (is_over(pass.job.status)) return;
  Goodput& goodput = pass.next.goodput;
  if (pass.group != nullptr && !is_mutant(Mutant::kI38CountsForgotten)) {
    const Tally& tally = pass.group->status.tally;
    raise(pass.next.recoveries, tally.recoveries);
    goodput.productive_seconds =
        std::max(goodput.productive_seconds, tally.time.productive_seconds);
    raise(goodput.lost_by_cause, tally.time.lost_by_cause);
  }
  add_own_time(pass);
  goodput.lost_seconds = sum_of(goodput.lost_by_cause);
  const std::int64_t all = goodput.productive_seconds + goodput.lost_seconds;
  goodput.percent.reset();
  if (goodput.productive_seconds > 0 && all > 0)
    goodput.percent = static_cast<int>(100 * goodput.productive_seconds / all);
}

Tally tally_of(const TrainingJobStatus& status) {
  Tally tally;
  tally.recoveries = status.recoveries;
  tally.time.step = status.progress ? status.progress->step : 0;
  tally.time.productive_seconds = status.goodput.productive_seconds;
  tally.time.lost_by_cause = status.goodput.lost_by_cause;
  return tally;
}

}  // namespace pawl::core
