#include <algorithm>

#include "common/base/mutant.h"
#include "operator/core/node_steps.h"
#include "operator/core/steps.h"

namespace pawl::core {
namespace {

using namespace api;

std::int64_t newest_step(const Pass& pass) {
  const std::int64_t saved = pass.next.checkpoint ? pass.next.checkpoint->step : 0;
  if (pass.job.spec.runtime_kind == RuntimeKind::kNative) return saved;
  return std::max(saved, pass.next.progress ? pass.next.progress->step : 0);
}

// Counts the attempts in a row that failed without a newer step. A disruption says nothing about
// the job.
void count_progress(Pass& pass, LossKind kind) {
  if (kind == LossKind::kDisruption) return;
  Restarts& restarts = pass.next.restarts;
  const std::int64_t step = newest_step(pass);
  const bool has_progress = step > restarts.progress_step;
  restarts.without_progress = has_progress ? 1 : restarts.without_progress + 1;
  restarts.progress_step = std::max(restarts.progress_step, step);
}

// A gang that ran well for long has its whole budget again. Judged when it fails, so that no write
// and no clock is needed while it runs.
void reset_budget(Pass& pass) {
  const auto& after = pass.job.spec.reset_after_seconds;
  const Condition* running = find_condition(pass.job.status, condition::kRunning);
  if (!after || running == nullptr || running->status != "True") return;
  if (!running->last_transition_time) return;
  if (pass.now - *running->last_transition_time < std::chrono::seconds{*after}) return;
  const bool has_progress = newest_step(pass) > pass.job.status.restarts.progress_step;
  if (tells_progress(pass) && !has_progress) return;
  pass.next.restarts.spent = 0;
}

// What follows from verdict and loss: the words, and whether it counts.
Restart restart_of(Pass& pass, const Loss& loss, const Verdict& verdict) {
  Restart restart{loss.failure.cause, sentence(loss.failure),
                  verdict.action == RuleAction::kRestart};
  if (!verdict.rule.empty()) restart.why += "; rule " + verdict.rule;
  // Its node is avoided as it is.
  const std::string& left = loss.failure.cause;
  const bool has_left = left == cause::kInterrupted || left == cause::kStraggler;
  if (verdict.action == RuleAction::kReplaceNode && !has_left) {
    const std::string& node = loss.failure.node;
    restart.is_counted = !exclude_node(pass, loss.failure);
    if (!restart.is_counted) restart.why += "; node " + node + " is avoided from now on";
  }
  std::string advice;
  const bool has_less = lower_memory(pass, loss.failure, advice);
  if (has_less && verdict.rule.empty()) restart.is_counted = false;
  restart.why += advice;
  if (!restart.is_counted) restart.why += "; this restart is free";
  return restart;
}

}  // namespace

// Only a job that tells its progress can be seen to make none: an image of somebody else's that
// never spoke the channel keeps its whole restart budget.
bool tells_progress(const Pass& pass) {
  return pass.job.spec.runtime_kind == RuntimeKind::kNative || pass.next.progress ||
         pass.next.checkpoint;
}

std::chrono::seconds doubled(std::chrono::seconds first, std::chrono::seconds most,
                             std::ptrdiff_t times) {
  std::chrono::seconds time = first;
  for (std::ptrdiff_t i = 1; i < times && time < most; ++i) time *= 2;
  return std::min(time, most);
}

std::chrono::seconds backoff_after(const Failure& failure, int without_progress,
                                   const Policy& policy) {
  const std::string& why = failure.cause;
  if (why == cause::kNodeRefused || why == cause::kEvicted) return policy.refused_backoff;
  const bool is_disruption =
      why == cause::kDeleted || why == cause::kPreempted || why == cause::kNodeLost ||
      why == cause::kInterrupted || why == cause::kGpuFault || why == cause::kStraggler ||
      why == cause::kUnreached || why == cause::kStartTimeout || why == cause::kNodesTimeout;
  if (is_disruption) return std::chrono::seconds{0};
  return doubled(policy.backoff_first, policy.backoff_max, without_progress);
}

namespace {

bool is_repeated(const Pass& pass, const Failure& failure) {
  const auto identity = parse_pod_name(pass.job.meta.name, failure.pod);
  return identity && identity->n > 0;
}

// Attempt after attempt is taken away before the gang has run: wait as long as it has not run,
// which doubles each time. A gang that ran until now is not held up.
std::chrono::seconds time_without_gang(const Pass& pass, TimePoint failed_at) {
  const Condition* running = find_condition(pass.next, condition::kRunning);
  if (running == nullptr || !running->last_transition_time) return std::chrono::seconds{0};
  // The next attempt has fewer machines to fail on: quarantines must not run out meanwhile.
  if (is_in_quarantine(pass, *pass.next.last_failure)) return std::chrono::seconds{0};
  const auto time =
      std::chrono::floor<std::chrono::seconds>(failed_at - *running->last_transition_time);
  return std::clamp(time, std::chrono::seconds{0}, pass.policy.backoff_max);
}

}  // namespace

std::optional<TimePoint> creation_time(const Pass& pass) {
  const auto& failure = pass.next.last_failure;
  // Of the attempt before, or of this one where a member is replaced.
  const bool is_recent = failure && (failure->attempt + 1 == pass.next.attempt ||
                                     (failure->attempt == pass.next.attempt && has_replaced(pass)));
  const bool is_restarting = is_true(pass.next, condition::kRestarting);
  const bool is_after_failure =
      is_recent && failure->time && (is_restarting || failure->attempt == pass.next.attempt);
  if (!is_after_failure || is_mutant(Mutant::kB43NoBackoff)) return std::nullopt;
  // How often a member may be killed without a new step is limited by its gang.
  const bool is_killed_member = failure->attempt == pass.next.attempt && is_killed(*failure);
  const auto wait = is_killed_member
                        ? std::chrono::seconds{0}
                        : backoff_after(*failure, pass.next.restarts.without_progress, pass.policy);
  // Of a pod that was to come in, or that the others have gone on without: it may be the next of
  // many.
  if (!is_restarting && is_repeated(pass, *failure))
    return *failure->time +
           std::max({wait, pass.policy.refused_backoff, backoff_of_node(pass, *failure)});
  if (!is_restarting) return *failure->time + wait;
  return *failure->time +
         std::max({wait, time_without_gang(pass, *failure->time), backoff_of_node(pass, *failure)});
}

namespace {

// Until the member has gone, which its gang may use to save. Nobody else's place is empty
// meanwhile.
void wait_for_leaving(Pass& pass, const Loss& leaving) {
  const auto loss = find_loss(pass, true);
  if (loss && !loss->wait_until && can_replace(pass, *loss)) return handle_loss(pass, *loss);
  if (has_replaced(pass)) run_gang(pass);
  pass.wake(*leaving.wait_until);
  pass.say("MemberLeaving", sentence(leaving.failure) + "; its gang may save until " +
                                format_time(*leaving.wait_until));
}

// While others still save. A pod that has gone may not be there to be asked when they have, too.
void note_gone(Pass& pass, const Loss& loss) {
  count_spot_losses(pass, loss);
  for (const Failure& left : loss.left) {
    const ExcludedNode* node = left_node(pass, left.pod, left.node);
    const bool is_noted =
        node != nullptr && std::ranges::find(node->pods, left.pod) != node->pods.end();
    if (left.cause != cause::kGpuFault && !is_noted) avoid_node(pass, left);
  }
}

// The first word of a loss: its time is what the wait for more counts from. A broken GPU explains
// what was noted of others, and begins a wait of its own.
void note(Pass& pass, const Failure& failure) {
  const Failure* noted_before = noted_failure(pass);
  const bool is_explained = failure.cause == cause::kGpuFault && noted_before != nullptr &&
                            noted_before->cause != cause::kGpuFault;
  if (noted_before != nullptr && !is_explained) return;
  pass.next.last_failure = failure;
  // A silence is told again, and judged anew, with each generation that it befalls.
  Failure& noted = *pass.next.last_failure;
  if (!is_silence(noted) || noted.generation == 0)
    noted.generation = pass.report != nullptr ? pass.report->generation : 0;
}

void wait_for_culprit(Pass& pass, const Loss& loss) {
  if (has_replaced(pass)) run_gang(pass);
  note(pass, loss.failure);
  pass.wake(*loss.wait_until);
  pass.say(kMemberLost, sentence(pass.next.last_failure.value()) +
                            "; waiting for the report of who failed first");
}

// An attempt that ends for one broken GPU takes along the pods that are about to tell of theirs:
// each machine that is broken would cost an attempt of its own.
std::optional<TimePoint> others_deadline(const Pass& pass, const Loss& loss) {
  if (loss.failure.cause != cause::kGpuFault || pass.pods.active == 0) return std::nullopt;
  const Failure* noted = noted_failure(pass);
  const bool is_noted = noted != nullptr && noted->cause == cause::kGpuFault;
  const TimePoint until = (is_noted ? *noted->time : pass.now) + pass.policy.broken_wait;
  // A clock that was set back holds nobody up.
  const bool is_far = until > pass.now_exact + pass.policy.broken_wait;
  return pass.now_exact < until && !is_far ? std::optional{until} : std::nullopt;
}

void wait_for_others(Pass& pass, const Loss& loss, TimePoint until) {
  note(pass, loss.failure);
  pass.wake(until);
  pass.say(kMemberLost, sentence(loss.failure) + "; waiting for what the others say of theirs");
}

}  // namespace

void handle_loss(Pass& pass, const Loss& loss) {
  if (loss.failure.cause == cause::kUnreached) quarantine_node(pass, loss.failure);
  for (const Failure& left : loss.left)
    if (left.cause == cause::kGpuFault) quarantine_node(pass, left);
  if (loss.is_leaving) {
    note_gone(pass, loss);
    return wait_for_leaving(pass, loss);
  }
  if (loss.wait_until) return wait_for_culprit(pass, loss);
  // The cluster knows of it only after a while, and would put the next pod there.
  if (loss.failure.cause == cause::kNodeLost) quarantine_node(pass, loss.failure);
  for (const Failure& left : loss.left)
    if (left.cause != cause::kGpuFault) avoid_node(pass, left);
  const bool is_replaced = can_replace(pass, loss);
  const auto deadline = is_replaced ? std::nullopt : others_deadline(pass, loss);
  if (deadline) return wait_for_others(pass, loss, *deadline);
  count_spot_losses(pass, loss);
  if (is_replaced) return replace_members(pass, loss);
  pass.confirms = loss.confirms;
  pass.next.last_failure = loss.failure;
  reset_budget(pass);
  count_progress(pass, loss.kind);
  const Verdict verdict = judge(pass, loss);
  const std::string what = sentence(loss.failure);
  if (verdict.action == RuleAction::kFail) {
    if (!verdict.rule.empty()) {
      return begin_failure(pass, "FailureRule", what + "; rule " + verdict.rule + " says Fail");
    }
    return begin_failure(pass, "FatalExit", what + ", which means that a restart cannot help");
  }
  const TrainingJobStatus before = pass.next;
  const Restart next = restart_of(pass, loss, verdict);
  const bool has_less_memory = before.micro_batch != pass.next.micro_batch;
  if (has_less_memory) --pass.next.restarts.without_progress;  // the next attempt is another one
  const int fruitless = pass.next.restarts.without_progress;
  if (loss.kind != LossKind::kDisruption && tells_progress(pass) &&
      fruitless >= pass.policy.fruitless_max) {
    return begin_failure(pass, "NoProgress",
                         std::to_string(fruitless) +
                             " attempts in a row failed without new progress; the last: " + what);
  }
  if (next.is_counted && pass.next.restarts.spent >= pass.job.spec.max_restarts) {
    return begin_failure(pass, "MaxRestartsReached", next.why + "; " + budget_text(pass));
  }
  restart(pass, next);
}

}  // namespace pawl::core
