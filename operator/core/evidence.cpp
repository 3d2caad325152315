#include "operator/core/evidence.h"

#include <algorithm>
#include <array>

#include "common/api/codec.h"
#include "common/api/contract.h"
#include "common/base/mutant.h"
#include "operator/core/node_steps.h"
#include "operator/core/shortage.h"
#include "operator/core/steps.h"

namespace pawl::core {
namespace {

using api::Failure;
using api::PodView;

// A launcher says by these that it leaves its machine, and not why its gang ends.
bool is_of_machine(const std::string& name) {
  return name == cause::kGpuFault || name == cause::kInterrupted;
}

bool is_free_cause(const std::string& name) {
  return name == cause::kEvicted || name == cause::kNodeLost || name == cause::kDeleted ||
         name == cause::kPreempted || name == cause::kNodeRefused || is_of_machine(name) ||
         name == cause::kStraggler;
}

// A termination message is the pod's own text: a word that nobody knows must not become a key of
// restarts.byCause, which is bounded.
void use_known_cause(Failure& failure) {
  constexpr std::array kLaunchers{cause::kError,    cause::kSignal,   cause::kOutOfMemory,
                                  cause::kEvicted,  cause::kNodeLost, cause::kVictim,
                                  cause::kUnknown,  cause::kHang,     cause::kInterrupted,
                                  cause::kGpuFault, cause::kUnreached};
  const bool is_known =
      std::ranges::any_of(kLaunchers, [&](const char* known) { return failure.cause == known; });
  if (!failure.cause.empty() && !is_known) failure.cause = cause::kUnknown;
}

// https://kubernetes.io/docs/concepts/workloads/pods/disruptions/#pod-disruption-conditions
std::string disruption_cause(const std::string& reason) {
  if (reason == "PreemptionByScheduler" || reason == "WorkloadEvictedDueToPreempted") {
    return cause::kPreempted;
  }
  if (reason == "DeletionByTaintManager" || reason == "DeletionByPodGC") return cause::kNodeLost;
  return cause::kEvicted;  // EvictionByEvictionAPI, TerminationByKubelet, Kueue's other reasons
}

// status.reason of a pod that the kubelet ended or never admitted; empty if it says nothing of the
// kind.
std::string kubelet_cause(const PodView& pod) {
  const std::string& reason = pod.reason;
  if (reason == "Evicted" || reason == "Preempting") return cause::kEvicted;
  if (reason == "NodeLost" || reason == "NodeShutdown" || reason == "Terminated" ||
      reason == "Shutdown") {
    return cause::kNodeLost;
  }
  return !reason.empty() && !pod.exit_code ? cause::kNodeRefused : "";
}

void fill_exit(const PodView& pod, Evidence& out) {
  Failure& failure = out.failure;
  if (const auto left = api::decode_termination(pod.termination_message)) {
    failure = *left;
    use_known_cause(failure);
  } else if (!pod.termination_message.empty()) {
    failure.log_tail = pod.termination_message;
  }
  if (!failure.exit_code) failure.exit_code = pod.exit_code;
  if (!failure.signal) failure.signal = pod.signal;
  if (failure.message.empty()) failure.message = pod.message;
  const int code = pod.exit_code.value_or(failure.exit_code.value_or(-1));
  const bool is_of_its_machine = is_of_machine(failure.cause);
  out.is_victim = !is_of_its_machine && (code == api::kExitRetry || code == api::kExitDrained ||
                                         failure.cause == cause::kVictim);
  if (pod.terminated_reason == "OOMKilled") {
    failure.cause = cause::kOutOfMemory;
    out.is_victim = false;
  } else if (out.is_victim) {
    failure.cause = cause::kVictim;
  } else if (is_of_its_machine) {
    out.kind = LossKind::kDisruption;
  } else if (code == api::kExitFatal || failure.exit_code == api::kExitFatal) {
    out.kind = LossKind::kFatal;
    failure.cause = cause::kFatal;
  } else if (failure.cause.empty()) {
    const bool is_signal = failure.signal.value_or(0) > 0 || code > 128;
    failure.cause = is_signal ? cause::kSignal : code < 0 ? cause::kUnknown : cause::kError;
  }
  if (is_free_cause(failure.cause)) out.kind = LossKind::kDisruption;
}

// A pod that was told to terminate runs until its containers have ended, at the latest until its
// deletion time, which has the grace in it. Its gang uses that time to save: voiding the generation
// now would cost it everything since the checkpoint before. Without a generation nobody saves.
std::optional<TimePoint> leaves_by(const Pass& pass, const PodView& pod) {
  const bool may_save = pass.report != nullptr && outcome_of(pod) == Outcome::kNone &&
                        is_terminating(pod) && pass.now_exact < *pod.meta.deletion_time;
  return may_save ? pod.meta.deletion_time : std::nullopt;
}

bool is_taken_away(const Failure& failure) {
  return failure.cause == cause::kDeleted || failure.cause == cause::kEvicted ||
         failure.cause == cause::kNodeLost;
}

// A launcher that its cloud told of the end, or that found its machine broken: it leaves a gang
// that goes on, unless it says by its exit code that the gang ends; it may be deleted, or killed,
// on the way.
void use_cloud_word(const PodView& pod, Evidence& out) {
  const auto word = api::decode_termination(pod.termination_message);
  if (!word || !is_of_machine(word->cause)) return;
  out.was_told_by_cloud = true;
  out.has_last_words = pod.exit_code == api::kExitRetry;
  if (!is_taken_away(out.failure)) return;
  out.failure.cause = word->cause;
  out.failure.message = word->message;
}

// Whoever deletes pods of a machine that goes, and whatever the reason is called: it is one story.
void use_signal(const Pass& pass, Evidence& out) {
  Failure& failure = out.failure;
  const NodeSignal* signal = signal_of(pass, failure.node);
  const api::ExcludedNode* left = left_node(pass, failure.pod, failure.node);
  if (!is_taken_away(failure) || (signal == nullptr && left == nullptr)) return;
  failure.cause = cause::kInterrupted;
  failure.message = signal != nullptr ? signal->what : left->message;
  if (failure.node.empty() && left != nullptr) failure.node = left->name;
}

// We have deleted it, and nobody else.
void use_move(const Pass& pass, Evidence& out) {
  const api::ExcludedNode* node = moved_from(pass, out.failure.pod);
  if (node == nullptr || out.failure.cause != cause::kDeleted) return;
  out.failure.cause = cause::kStraggler;
  out.failure.message = node->message;
  if (out.failure.node.empty()) out.failure.node = node->name;
}

// So that another job gets its room. We have deleted it, and nobody else: that excuses no failure
// beside it.
void use_order(const Pass& pass, Evidence& out) {
  if (out.failure.cause != cause::kDeleted || !gave_room(pass, out.failure.pod)) return;
  out.failure.cause = cause::kPreempted;
  out.is_left_out = true;
}

// Its process was killed, and its gang went on without it: it ends because the others do.
bool is_left_behind(const Pass& pass, const PodView& pod, const Failure& failure) {
  if (pass.report == nullptr || !is_killed(failure) || pass.is_member(pod.meta.uid)) return false;
  return std::ranges::any_of(pass.report->failures, [&](const Failure& loss) {
    return loss.pod_uid == pod.meta.uid && is_killed(loss) && is_outlived(pass, loss);
  });
}

// What one pod of the attempt says; nothing while it is well, or when it has succeeded.
std::optional<Evidence> read_pod(const Pass& pass, const PodView& pod) {
  const Outcome outcome = outcome_of(pod);
  const bool is_failed = outcome == Outcome::kFailed;
  if (outcome == Outcome::kSucceeded) return std::nullopt;
  if (!is_failed && !is_terminating(pod)) return std::nullopt;
  Evidence out;
  out.leaves_by = leaves_by(pass, pod);
  out.has_last_words = api::decode_termination(pod.termination_message).has_value();
  const std::string by_kubelet = is_failed ? kubelet_cause(pod) : "";
  if (pod.has_disruption_target) {
    out.kind = is_mutant(Mutant::kB26DisruptionCounts) ? LossKind::kFault : LossKind::kDisruption;
    // The kubelet gives one reason for memory that is short and for a machine that is shut down.
    const bool is_shut_down =
        pod.disruption_reason == "TerminationByKubelet" && by_kubelet == cause::kNodeLost;
    out.failure.cause =
        is_shut_down ? std::string(cause::kNodeLost) : disruption_cause(pod.disruption_reason);
    out.is_drained = pod.disruption_reason == "EvictionByEvictionAPI";
    out.failure.message = pod.message;
  } else if (!by_kubelet.empty()) {
    out.kind = LossKind::kDisruption;
    out.failure.cause = by_kubelet;
    out.failure.message = pod.message.empty() ? pod.reason : pod.message;
  } else if (is_terminating(pod)) {
    out.kind = LossKind::kDisruption;
    out.failure.cause = cause::kDeleted;
    out.failure.exit_code = pod.exit_code;
  } else {
    fill_exit(pod, out);
    if (is_left_behind(pass, pod, out.failure)) {
      out.is_victim = true;
      out.failure.cause = cause::kVictim;
    }
  }
  out.failure.pod = pod.meta.name;
  out.failure.pod_uid = pod.meta.uid;
  out.failure.node = pod.node;
  use_cloud_word(pod, out);
  use_move(pass, out);
  use_order(pass, out);
  use_signal(pass, out);
  if (out.failure.rank < 0) out.failure.rank = rank_of(pass, pod.meta.uid);
  // One that was to come in and could not has no gang that ends.
  const bool is_newcomer = pass.report != nullptr && !pass.is_member(pod.meta.uid);
  if (is_newcomer && (out.is_victim || out.was_told_by_cloud)) out.has_last_words = false;
  return out;
}

// A slot whose pod was eligible and is not there any more, or is another one.
std::optional<Evidence> read_missing(const Pass& pass, const api::EligiblePod& slot) {
  const PodView* pod = pass.pods.at(slot.slot);
  if (slot.uid.empty() || (pod != nullptr && pod->meta.uid == slot.uid)) return std::nullopt;
  Evidence out;
  out.kind = LossKind::kDisruption;
  out.failure.cause = cause::kDeleted;
  out.failure.pod = slot.name;
  out.failure.pod_uid = slot.uid;
  out.failure.rank = rank_of(pass, slot.uid);
  use_move(pass, out);
  use_order(pass, out);
  use_signal(pass, out);
  out.slot = slot.slot;
  if (pod == nullptr) out.confirms.push_back({ObjectKind::kPod, slot.name, slot.uid});
  return out;
}

// A killed process in a pod that is well: its launcher has started another one.
bool is_being_outlived(const Pass& pass, const Failure& failure) {
  if (!pass.group->spec.is_in_place || !is_killed(failure)) return false;
  return std::ranges::any_of(pass.pods.current, [&](const Worker& worker) {
    return worker.pod->meta.uid == failure.pod_uid && outcome_of(*worker.pod) == Outcome::kNone &&
           !is_terminating(*worker.pod);
  });
}

// A gang that lives on waits for a member that it has lost touch with, whose pod looks well.
std::optional<Evidence> read_silence(const Pass& pass, const PodView& pod) {
  if (pass.report == nullptr || !pass.group->spec.has_successors) return std::nullopt;
  for (const Failure& failure : pass.report->failures) {
    if (failure.pod_uid != pod.meta.uid || !is_silence(failure)) continue;
    if (is_outlived(pass, failure)) continue;
    Evidence out;
    out.failure = failure;
    out.is_silence = true;
    out.is_left_out = is_left_out(pass, failure);
    // It has trained to the end, and its gang has not heard of that.
    if (is_terminal(pod)) out.kind = LossKind::kDisruption;
    return out;
  }
  return std::nullopt;
}

// Of a member in a place that the gang is to be without (I34): who is not heard there is no loss.
bool is_beyond_size(const Pass& pass, const Failure& failure) {
  const auto slot =
      std::ranges::find(pass.group->spec.pods, failure.pod_uid, &api::EligiblePod::uid);
  return slot != pass.group->spec.pods.end() && slot->slot >= pass.size();
}

std::string disruption_beyond_size(const Pass& pass, const Failure& failure) {
  for (const Worker& worker : pass.pods.leaving) {
    const auto said = worker.pod->meta.uid == failure.pod_uid ? read_pod(pass, *worker.pod)
                                                              : std::optional<Evidence>{};
    if (said && said->kind == LossKind::kDisruption) return said->failure.cause;
  }
  return cause::kNodeLost;
}

}  // namespace

int rank_of(const Pass& pass, const std::string& uid) {
  if (pass.report == nullptr) return -1;
  for (const api::Member& member : pass.report->members) {
    if (member.ref.uid == uid) return member.rank * api::processes_per_worker(pass.job);
  }
  return -1;
}

std::optional<Evidence> read_report(const Pass& pass, bool is_ending) {
  // Each of them names its attempt, so that those count which come before the first commit.
  if (pass.group == nullptr || pass.group->status.attempt != pass.job.status.attempt)
    return std::nullopt;
  std::optional<Evidence> left_out;  // explains nothing of what came after it
  for (const Failure& failure : pass.group->status.failures) {
    if (failure.attempt != pass.job.status.attempt || failure.cause == cause::kVictim) continue;
    if (is_outlived(pass, failure) || has_successor(pass, failure)) continue;
    if (!is_ending && is_being_outlived(pass, failure)) continue;
    const bool is_unwanted = is_silence(failure) && is_beyond_size(pass, failure);
    if (is_unwanted && !is_ending) continue;
    Evidence out;
    out.failure = failure;
    use_known_cause(out.failure);
    if (is_unwanted) out.failure.cause = disruption_beyond_size(pass, failure);
    if (failure.exit_code == api::kExitFatal) {
      out.kind = LossKind::kFatal;
      out.failure.cause = cause::kFatal;
    } else if (is_free_cause(out.failure.cause)) {
      out.kind = LossKind::kDisruption;
    }
    out.is_left_out = is_left_out(pass, failure);
    if (!out.is_left_out) return out;
    if (!left_out) left_out = std::move(out);
  }
  return left_out;
}

std::vector<Evidence> collect(const Pass& pass) {
  std::vector<Evidence> all;
  for (const Worker& worker : pass.pods.current) {
    auto evidence = read_pod(pass, *worker.pod);
    if (!evidence) evidence = read_silence(pass, *worker.pod);
    if (!evidence) continue;
    evidence->slot = worker.identity.slot;
    all.push_back(std::move(*evidence));
  }
  if (pass.current_group != nullptr) {
    for (const api::EligiblePod& slot : pass.current_group->spec.pods) {
      if (slot.slot >= pass.size()) continue;  // its gang goes on without it
      if (auto evidence = read_missing(pass, slot)) all.push_back(std::move(*evidence));
    }
  }
  return all;
}

}  // namespace pawl::core
