// Answers that the job's own object gives: deletion, ends, suspension, an operator that is silent,
// a spec that stalls.
#include "cli/text.h"
#include "cli/why/reasons.h"
#include "operator/core/failures.h"

namespace pawl::cli::reasons {
namespace {

constexpr std::chrono::seconds kFirstLook{10};  // an operator that runs has looked long before

std::string pods_left(const JobSnapshot& snapshot) {
  std::int64_t count = 0;
  for (const SeenWorker& worker : snapshot.workers) count += is_terminal(worker) ? 0 : 1;
  return count_text(count, "pod") + (count == 1 ? " has" : " have") + " not ended yet";
}

std::string resume_command(const JobSnapshot& snapshot) {
  return kubectl(snapshot, "patch tj " + snapshot.job.meta.name +
                               R"( --type merge -p '{"spec":{"suspend":false}}')");
}

Answer after_failure(const JobSnapshot& snapshot, const api::Condition& failed) {
  const auto& failure = snapshot.job.status.last_failure;
  Answer answer{failed.message, ""};
  if (failure && !contains(failed.message, core::sentence(*failure).c_str())) {
    answer.because += "; the last failure: " + core::sentence(*failure);
  }
  answer.next = failure ? advice(snapshot, *failure) : "correct what the message names";
  answer.next += "; a failed job stays as it is: apply it again under a new name";
  return answer;
}

Answer while_suspended(const JobSnapshot& snapshot, const api::Condition& suspended) {
  if (!snapshot.job.spec.is_suspended)
    return {suspended.message + "; it is about to resume", "wait a moment"};
  return {"spec.suspend is true: " + suspended.message, "resume it: " + resume_command(snapshot)};
}

std::optional<Answer> while_ending(const JobSnapshot& snapshot) {
  const bool is_success = true_condition(snapshot, api::condition::kSuccessCriteriaMet) != nullptr;
  const api::Condition* target = is_success
                                     ? true_condition(snapshot, api::condition::kSuccessCriteriaMet)
                                     : true_condition(snapshot, api::condition::kFailureTarget);
  if (target == nullptr) return std::nullopt;
  if (auto stuck = from_ending_pods(snapshot)) return stuck;
  return Answer{std::string(is_success ? "it has succeeded" : "it has failed") + " (" +
                    target->message + ") and ends when its pods have ended: " + pods_left(snapshot),
                "wait a moment"};
}

Answer after_refusal(const JobSnapshot& snapshot, const std::string& message) {
  if (contains(message, "exceeded quota")) {
    return {message, "raise that quota, free what uses it, or lower spec.replicas; see " +
                         kubectl(snapshot, "describe resourcequota")};
  }
  if (contains(message, "violates PodSecurity")) {
    return {message, "set what the message names in the template's securityContext: " +
                         edit_template(snapshot)};
  }
  if (contains(message, "forbidden")) {
    return {message, "give the operator that right, or correct what the message names"};
  }
  return {message, "correct what the message names; " + edit_template(snapshot)};
}

}  // namespace

std::optional<Answer> from_lifecycle(const JobSnapshot& snapshot) {
  const api::TrainingJob& job = snapshot.job;
  if (job.meta.deletion_time) {
    return Answer{"somebody deleted it; " + pods_left(snapshot), "nothing: it goes when they have"};
  }
  if (const auto* complete = true_condition(snapshot, api::condition::kComplete)) {
    return Answer{complete->message +
                      (job.status.completion_time
                           ? ", " + age_text(job.status.completion_time, snapshot.now) + " ago"
                           : ""),
                  job.status.checkpoint
                      ? "nothing to do; the result is at " + job.status.checkpoint->uri
                      : "nothing to do"};
  }
  if (const auto* failed = true_condition(snapshot, api::condition::kFailed)) {
    return after_failure(snapshot, *failed);
  }
  if (auto answer = while_ending(snapshot)) return answer;
  const auto* suspended = true_condition(snapshot, api::condition::kSuspended);
  if (suspended != nullptr) return while_suspended(snapshot, *suspended);
  if (job.status.reason == "Suspending") {
    if (auto stuck = from_ending_pods(snapshot)) return stuck;
    return Answer{
        "spec.suspend was set to true and its workers save and leave: " + pods_left(snapshot),
        "wait; it is Suspended when they have ended"};
  }
  if (const auto* leaves = true_condition(snapshot, api::condition::kPreempted)) {
    if (auto stuck = from_ending_pods(snapshot)) return stuck;
    return Answer{
        leaves->message + "; its workers save and leave: " + pods_left(snapshot),
        "wait; it is in line again when they have ended, and goes on from its checkpoint"};
  }
  return std::nullopt;
}

std::optional<Answer> from_operator(const JobSnapshot& snapshot) {
  const api::TrainingJob& job = snapshot.job;
  const std::int64_t seen = job.status.observed_generation;
  if (seen >= job.meta.generation) return std::nullopt;
  const std::string look =
      "see whether the operator runs: `kubectl get pods -A -l "
      "app.kubernetes.io/name=pawl`; without one, install it: `helm install pawl "
      "charts/pawl -n pawl-system --create-namespace`";
  if (seen > 0) {
    return Answer{"its spec was changed (generation " + std::to_string(job.meta.generation) +
                      ") and the operator has acted on generation " + std::to_string(seen) +
                      " only",
                  "ask again in a moment; if this stays, " + look};
  }
  const auto& created = job.meta.creation_time;
  if (created && snapshot.now - *created < kFirstLook) {
    return Answer{"it was created just now and the operator has not looked at it yet",
                  "ask again in a moment"};
  }
  return Answer{"nobody has looked at it in the " + age_text(created, snapshot.now) +
                    " since it was created: no Pawl operator runs in this cluster",
                look};
}

std::optional<Answer> from_stall(const JobSnapshot& snapshot) {
  const api::Condition* stalled = true_condition(snapshot, api::condition::kStalled);
  if (stalled == nullptr) return std::nullopt;
  if (stalled->reason == "InvalidTemplate") {
    return Answer{"its template cannot become a pod: " + stalled->message,
                  "correct it: " + edit_template(snapshot)};
  }
  if (stalled->reason == "InvalidScheduling") {
    return Answer{"it asks for a place that this cluster does not give: " + stalled->message,
                  "do what it says, or correct spec.scheduling: " +
                      kubectl(snapshot, "edit tj " + snapshot.job.meta.name)};
  }
  if (stalled->reason == "NeverFits") {
    return Answer{stalled->message,
                  "do what it says: " + kubectl(snapshot, "edit tj " + snapshot.job.meta.name) +
                      "; `kubectl describe nodes` shows what the nodes have"};
  }
  if (stalled->reason == "NameConflict") {
    return Answer{"something stands in the way: " + stalled->message,
                  "delete that object if nobody needs it, or give the job another name"};
  }
  return after_refusal(snapshot, stalled->message);
}

}  // namespace pawl::cli::reasons
