#include "operator/core/status.h"

#include <string_view>

#include "common/api/contract.h"
#include "common/api/json_fields.h"
#include "common/base/check.h"
#include "common/base/mutant.h"
#include "operator/core/shortage.h"
#include "operator/core/steps.h"
#include "operator/core/stop_steps.h"

namespace pawl::core {
namespace {

using namespace api;

constexpr std::chrono::milliseconds kStartingEvery{5'000}, kStartingCountsEvery{10'000};

const char* phase_of(const TrainingJobStatus& status) {
  if (is_true(status, condition::kComplete)) return phase::kComplete;
  if (is_true(status, condition::kFailed)) return phase::kFailed;
  if (is_true(status, condition::kSuspended)) return phase::kSuspended;
  if (is_true(status, condition::kStalled)) return phase::kStalled;
  if (is_true(status, condition::kRestarting)) return phase::kRestarting;
  const Condition* running = find_condition(status, condition::kRunning);
  // While it saves, a gang that is to stop, or to leave, still runs.
  const bool is_saving =
      running != nullptr && (running->reason == kSuspending || running->reason == kPreempting);
  const bool runs = running != nullptr && running->status == "True";
  return runs || is_saving ? phase::kRunning : phase::kStarting;
}

void fill_in(Pass& pass) {
  TrainingJobStatus& next = pass.next;
  next.observed_generation = pass.job.meta.generation;
  for (Condition& condition : next.conditions) {
    condition.observed_generation = next.observed_generation;
    condition.message = clip_front(condition.message, kMessageBytesMax);
  }
  if (is_mutant(Mutant::kB15HotStatus)) next.message += " at " + format_time(pass.now);
  next.message = clip_front(next.message, kMessageBytesMax);
  const int size = pass.is_new_attempt ? pass.job.spec.replicas : pass.gang_size();
  next.replicas = pass.is_new_attempt ? 0 : pass.pods.active;
  next.ready_replicas = pass.is_new_attempt ? 0 : pass.ready();
  next.ready = std::to_string(next.ready_replicas) + "/" + std::to_string(size);
  next.selector = pod_selector(pass.job);
  next.phase = phase_of(next);
}

void drop_messages(TrainingJobStatus& status) {
  status.message.clear();
  for (Condition& condition : status.conditions) condition.message.clear();
}

// Worth no write of its own.
void drop_tally(TrainingJobStatus& status) {
  status.recoveries = {};
  status.goodput = {};
}

void drop_numbers(TrainingJobStatus& status) {
  status.reason.clear();
  status.replicas = status.ready_replicas = 0;
  status.ready.clear();
  if (status.progress && status.progress->straggler) {  // who it is means something
    api::Straggler slow = std::move(*status.progress->straggler);
    slow.factor.clear();
    status.progress = Progress{};
    status.progress->straggler = std::move(slow);
  } else {
    status.progress.reset();
  }
  status.progress_time.reset();
  status.checkpoint.reset();
}

// When the status may be written: at once for a change of meaning, else some time after the last
// write.
TimePoint due_time(const Pass& pass, Difference difference) {
  if (difference == Difference::kMeaning || !pass.seen.status_written_at) return pass.now_exact;
  const TimePoint last = *pass.seen.status_written_at;
  if (difference != Difference::kNumbers) return last + pass.policy.message_every;
  if (pass.next.phase != phase::kStarting) return last + pass.policy.numbers_every;
  // Most gangs start within this time, and their counts are worth no write on the way.
  const bool has_reason = pass.next.reason != pass.job.status.reason;
  return last +
         std::max(has_reason ? kStartingEvery : kStartingCountsEvery, pass.policy.numbers_every);
}

// One that fails between others is the next one's business; a run of them is the user's.
void judge_checkpoints(Pass& pass) {
  const TrainingJobStatus& now = pass.job.status;
  if (is_true(now, condition::kComplete) || is_true(now, condition::kFailed)) return;
  constexpr int kUnhealthyAfter = 2;
  const CheckpointFailures& failures = pass.report->checkpoint_failures;
  const Condition* known = find_condition(pass.next, condition::kCheckpointHealthy);
  if (failures.count >= kUnhealthyAfter) {
    const std::string message =
        std::to_string(failures.count) +
        " checkpoints in a row could not be saved; the last: " + failures.message;
    if (known == nullptr || known->status != "False") {
      pass.emit(true, "CheckpointFailed", message);
    }
    return set_condition(pass, condition::kCheckpointHealthy, "False", "CheckpointFailed", message);
  }
  const bool is_saving = failures.count == 0 && pass.next.checkpoint;
  if (!is_saving || (known != nullptr && known->status == "True")) return;
  set_condition(pass, condition::kCheckpointHealthy, "True", "Saved", "checkpoints are saved");
}

// What the status knows is of the same generation or a later one. Where it was only waited for, the
// end of the waiting is news.
bool is_told(const Pass& pass, const Failure& failure) {
  const auto& known = pass.next.last_failure;
  if (!known || known->attempt != failure.attempt) return false;
  if (known->generation != failure.generation) return known->generation > failure.generation;
  const bool is_same = known->pod_uid == failure.pod_uid && known->rank == failure.rank;
  return has_successor(pass, failure) || (is_same && pass.job.status.reason != kMemberLost);
}

void tell_straggler(Pass& pass) {
  const auto& slow = pass.next.progress->straggler;
  const auto& before = pass.job.status.progress;
  const bool is_known = before && before->straggler && slow &&
                        before->straggler->rank == slow->rank &&
                        before->straggler->pod == slow->pod;
  if (!slow || is_known) return;
  pass.emit(true, "Straggler", sentence(*slow), slow->pod);
}

}  // namespace

void tell_outlived(Pass& pass) {
  const Failure* newest = nullptr;
  for (const Failure& failure : pass.report->failures) {
    if (is_outlived(pass, failure)) newest = &failure;
  }
  if (newest == nullptr || is_told(pass, *newest)) return;
  pass.next.last_failure = *newest;
  const bool is_back = is_silence(*newest);
  pass.emit(true, "RecoveredInPlace",
            sentence(*newest) + (is_back ? "; it is back" : "; a new process took its place") +
                ", and " + start_text(pass),
            std::to_string(pass.report->generation));
}

std::string start_text(const Pass& pass) {
  if (!goes_on_from_memory(pass)) return "all programs were started again";
  const bool is_from_memory = pass.report->base_generation > 0;
  return "the gang goes on from step " + std::to_string(pass.report->start_step) +
         (is_from_memory ? ", which the others hold in memory" : ", the newest stored one");
}

Difference difference_of(TrainingJobStatus before, TrainingJobStatus after) {
  drop_tally(before);
  drop_tally(after);
  if (before == after) return Difference::kNone;
  drop_messages(before);
  drop_messages(after);
  if (before == after) return Difference::kMessage;
  drop_numbers(before);
  drop_numbers(after);
  return before == after ? Difference::kNumbers : Difference::kMeaning;
}

void copy_report(Pass& pass) {
  if (pass.report == nullptr) return;
  if (const auto& progress = pass.report->progress) {
    const auto& known = pass.job.status.progress;
    if (!known || known->step != progress->step) pass.next.progress_time = pass.now;
    pass.next.progress = progress;
    tell_straggler(pass);
  }
  if (pass.report->checkpoint) pass.next.checkpoint = pass.report->checkpoint;
  judge_checkpoints(pass);
  // The one that is waited for has to stand in the status until it is judged.
  if (noted_failure(pass) == nullptr) tell_outlived(pass);
}

const Condition* find_condition(const TrainingJobStatus& status, const char* type) {
  const auto found =
      std::ranges::find(status.conditions, std::string_view{type},
                        [](const auto& item) -> std::string_view { return item.type; });
  return found == status.conditions.end() ? nullptr : &*found;
}

bool is_true(const TrainingJobStatus& status, const char* type) {
  const Condition* found = find_condition(status, type);
  return found != nullptr && found->status == "True";
}

void set_condition(Pass& pass, const char* type, const char* status, const std::string& reason,
                   const std::string& message) {
  const Condition* found = find_condition(pass.next, type);
  Condition changed = found != nullptr ? *found : Condition{.type = type};
  if (changed.status != status) changed.last_transition_time = pass.now;
  changed.status = status;
  changed.reason = reason;
  changed.message = message;
  if (found == nullptr) {
    pass.next.conditions.push_back(std::move(changed));
  } else {
    const auto index = static_cast<std::size_t>(found - pass.next.conditions.data());
    pass.next.conditions[index] = std::move(changed);
  }
}

void clear_condition(Pass& pass, const char* type, const std::string& reason,
                     const std::string& message) {
  if (is_true(pass.next, type)) set_condition(pass, type, "False", reason, message);
}

Plan seal(Pass& pass) {
  fill_in(pass);
  Plan out;
  out.why = pass.next.reason + ": " + pass.next.message;
  const Difference difference = difference_of(pass.job.status, pass.next);
  const TimePoint due = pass.is_status_due ? pass.now_exact : due_time(pass, difference);
  if (difference != Difference::kNone && due > pass.now_exact) pass.wake(due);
  const bool is_written = difference != Difference::kNone && due <= pass.now_exact;
  if (is_written) {
    take_tally(pass);
    out.actions = std::move(pass.confirms);
    out.actions.push_back(
        PatchStatus{pass.job.meta.resource_version, pass.job.status, std::move(pass.next)});
  }
  PAWL_CHECK(!pass.is_new_attempt || pass.acts.empty(), "a new attempt is only persisted (I1)");
  out.actions.insert(out.actions.end(), pass.acts.begin(), pass.acts.end());
  if (is_written) out.actions.insert(out.actions.end(), pass.events.begin(), pass.events.end());
  out.wake_up = pass.wake_up;
  out.asks_for_seats = pass.asks_for_seats;
  out.seats_wanted = pass.seats_wanted;
  out.seats_least = pass.seats_least;
  if (pass.asks_for_seats) {
    out.members_least = least_members(pass);
    out.pods_wanted = places_of(pass);
  }
  return out;
}

}  // namespace pawl::core
