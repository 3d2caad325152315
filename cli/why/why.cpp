#include "cli/why/why.h"

#include <algorithm>
#include <array>
#include <utility>

#include "cli/status/status_text.h"
#include "cli/text.h"
#include "cli/why/reasons.h"
#include "operator/core/failures.h"

namespace pawl::cli {
namespace {

using namespace reasons;

using LostTime = std::pair<const std::string, int>;
constexpr std::chrono::minutes kQuietProgress{10};  // longer than any step that is still normal

// Worth a word from here on.
std::string losses_text(const api::Goodput& goodput) {
  constexpr int kGoodPercent = 90;
  if (!goodput.percent || *goodput.percent >= kGoodPercent || goodput.lost_by_cause.empty())
    return "";
  const auto worst = std::ranges::max_element(goodput.lost_by_cause, {}, &LostTime::second);
  return "; " + std::to_string(*goodput.percent) +
         "% of its time went into new steps, most of the rest was lost to " + worst->first + " (" +
         format_seconds(worst->second) + ")";
}

std::string spot_text(const JobSnapshot& snapshot) {
  const api::CapacityStatus& capacity = snapshot.job.status.capacity;
  if (!capacity.is_spot_avoided || !capacity.until || snapshot.now >= *capacity.until) return "";
  const auto left =
      std::chrono::duration_cast<std::chrono::seconds>(*capacity.until - snapshot.now);
  return "; spot machines were taken back too often, so new workers prefer others for another " +
         format_seconds(left.count());
}

Answer while_running(const JobSnapshot& snapshot) {
  const api::TrainingJobStatus& status = snapshot.job.status;
  Answer answer;
  const bool is_whole = status.ready_replicas >= snapshot.job.spec.replicas;
  answer.because = is_whole ? "all " + count_text(snapshot.job.spec.replicas, "worker") +
                                  " run in attempt " + std::to_string(status.attempt)
                            : status.message;
  const auto& progress = status.progress;
  if (!progress) {
    answer.because += "; the training reports no steps";
    answer.next =
        pawl(snapshot, "logs " + snapshot.job.meta.name + " --follow") + " shows what it does";
    return answer;
  }
  answer.because += "; " + progress_text(*progress);
  if (progress->straggler) answer.because += "; " + core::sentence(*progress->straggler);
  if (status.checkpoint) {
    answer.because +=
        "; the newest checkpoint is of step " + std::to_string(status.checkpoint->step);
    if (status.checkpoint->time) {
      answer.because += ", " + age_text(status.checkpoint->time, snapshot.now) + " old";
    }
  }
  answer.because += losses_text(status.goodput) + spot_text(snapshot);
  const bool is_quiet = progress->time && snapshot.now - *progress->time > kQuietProgress;
  if (is_quiet) {
    answer.because +=
        "; but no step has been reported for " + age_text(progress->time, snapshot.now);
    answer.next = "see whether it hangs: " +
                  pawl(snapshot, "logs " + snapshot.job.meta.name + " --all-ranks --tail 20");
    return answer;
  }
  const api::Condition* healthy = nullptr;
  for (const api::Condition& condition : status.conditions) {
    if (condition.type == api::condition::kCheckpointHealthy) healthy = &condition;
  }
  if (healthy != nullptr && healthy->status == "False") {
    answer.because += "; but its checkpoints are not well: " + healthy->message;
    answer.next = "correct what the checkpoints' message names, before a restart needs them";
    return answer;
  }
  answer.next = "nothing to do; " + pawl(snapshot, "logs " + snapshot.job.meta.name + " --follow") +
                " shows it at work";
  return answer;
}

// Waiting out the pause after a failure.
std::optional<Answer> while_backing_off(const JobSnapshot& snapshot) {
  const api::TrainingJobStatus& status = snapshot.job.status;
  if (status.reason != "BackOff" || !status.last_failure) return std::nullopt;
  return Answer{status.message, advice(snapshot, *status.last_failure)};
}

// The operator says Running while the pods are gone: its word is old.
std::optional<Answer> from_stale_status(const JobSnapshot& snapshot) {
  const bool is_contradiction = snapshot.job.status.phase == api::phase::kRunning &&
                                snapshot.job.status.reason != "MemberLost" &&
                                current_workers(snapshot).empty() && snapshot.unread.empty();
  if (!is_contradiction) return std::nullopt;
  return Answer{
      "its status says Running, but it has no pods, so the status is old: the operator "
      "does not run or cannot write",
      "see the operator: `kubectl get pods -A -l app.kubernetes.io/name=pawl`"};
}

Answer in_its_own_words(const JobSnapshot& snapshot) {
  const api::TrainingJobStatus& status = snapshot.job.status;
  Answer answer;
  answer.because = status.message.empty() ? "the operator says no more about it" : status.message;
  const bool is_waiting = status.reason == "MemberLost" || status.reason == "WaitingForCleanup";
  if (is_waiting) {
    answer.next = "nothing yet: this passes by itself";
  } else if (status.reason == "WaitingForRoom") {
    answer.next =
        "wait, add nodes, or lower spec.replicas or what its template asks for; "
        "`kubectl describe nodes` shows what takes the room";
  } else if (status.reason == "WaitingForQuota") {
    answer.next =
        "wait, lower spec.replicas, or have the quota raised; `kubectl get tq` shows what the "
        "queues use, and `kubectl get tj -A -o wide` whose jobs do";
  } else if (status.last_failure && status.phase == api::phase::kRestarting) {
    answer.next = advice(snapshot, *status.last_failure);
  } else {
    answer.next = "ask again in a moment; " +
                  kubectl(snapshot, "describe tj " + snapshot.job.meta.name) + " shows the events";
  }
  return answer;
}

}  // namespace

Answer answer_why(const JobSnapshot& snapshot) {
  constexpr std::array kReasons = {from_lifecycle,    from_operator,     from_stall,
                                   from_ending_pods,  while_backing_off, from_stale_status,
                                   from_starting_pods};
  for (const auto& reason : kReasons) {
    if (auto answer = reason(snapshot)) return std::move(*answer);
  }
  const api::TrainingJobStatus& status = snapshot.job.status;
  const bool is_running = status.phase == api::phase::kRunning && status.reason != "MemberLost";
  if (is_running) return while_running(snapshot);
  return in_its_own_words(snapshot);
}

std::string why_paragraph(const JobSnapshot& snapshot) {
  const Answer answer = answer_why(snapshot);
  std::string text =
      snapshot.job.meta.name + " is " + phase_text(snapshot.job) + ": " + answer.because;
  while (!text.empty() && (text.back() == '.' || text.back() == '\n')) text.pop_back();
  text += ". Next: " + answer.next + ".";
  if (!snapshot.unread.empty()) text += " (Not seen: " + snapshot.unread.front() + ".)";
  return text + "\n";
}

}  // namespace pawl::cli
