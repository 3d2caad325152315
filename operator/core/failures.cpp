#include "operator/core/failures.h"

#include <algorithm>
#include <tuple>

#include "common/base/mutant.h"
#include "operator/core/evidence.h"
#include "operator/core/node_steps.h"
#include "operator/core/steps.h"

namespace pawl::core {
namespace {

using api::Failure;

// In the gang's present report, for this loss.
bool is_named(const Pass& pass, const Failure& failure) {
  return pass.report != nullptr &&
         std::ranges::any_of(pass.report->failures, [&](const Failure& one) {
           const bool is_same = one.generation == failure.generation || one.generation == 0;
           return one.pod_uid == failure.pod_uid && is_same;
         });
}

// Who is blamed: a fatal exit ends everything; a disruption explains the failures beside it; then
// whoever failed first; then the lowest rank. Victims are never blamed while anybody else can be.
// Of several that were taken away, one that may still save comes before those that have gone.
auto blame_order(const Evidence& evidence) {
  const bool is_victim = evidence.is_victim && !is_mutant(Mutant::kI8VictimBlamed);
  const int weight = is_victim                                ? 4
                     : evidence.is_left_out                   ? 3
                     : evidence.kind == LossKind::kFatal      ? 0
                     : evidence.kind == LossKind::kDisruption ? 1
                                                              : 2;
  const TimePoint time = evidence.failure.time.value_or(TimePoint::max());
  const bool has_gone = !evidence.leaves_by;
  return std::tuple{weight, has_gone, time,
                    evidence.failure.rank < 0 ? 1 << 20 : evidence.failure.rank,
                    evidence.failure.pod};
}

// Neither taken away, nor killed from outside while its gang ran. A launcher that says why it ends
// has a gang that ends.
bool is_own_fault(const Pass& pass, const Evidence& evidence) {
  if (evidence.has_last_words) return true;
  if (evidence.kind == LossKind::kDisruption || evidence.is_victim) return false;
  const Failure& failure = evidence.failure;
  if (is_silence(failure)) return false;
  // A new member has to come in first, unless the others go on without it.
  const bool is_waited_for = pass.group == nullptr || !api::may_be_smaller(pass.group->spec);
  return !is_killed(failure) || (is_waited_for && rank_of(pass, failure.pod_uid) < 0);
}

// The report's word on a pod is richer than the pod's (rank, log tail); the pod's verdict on
// disruption stays.
void merge_report(const Pass& pass, std::vector<Evidence>& all) {
  auto reported = read_report(pass, std::ranges::any_of(all, &Evidence::has_last_words));
  if (!reported) return;
  for (Evidence& evidence : all) {
    if (evidence.failure.pod_uid != reported->failure.pod_uid) continue;
    if (evidence.failure.rank < 0) evidence.failure.rank = reported->failure.rank;
    if (evidence.failure.log_tail.empty()) evidence.failure.log_tail = reported->failure.log_tail;
    if (!evidence.failure.time) evidence.failure.time = reported->failure.time;
    // What a pod says of its own end counts more than that its launcher fell silent.
    if (!evidence.is_victim || is_silence(reported->failure)) return;
  }
  all.push_back(std::move(*reported));
}

// Only victims so far. The first of them is written down (with its time), and the culprit gets
// `culprit_wait` to be heard of; a gang with nobody left to wait for is judged at once.
std::optional<TimePoint> culprit_deadline(const Pass& pass) {
  if (pass.pods.active == 0) return std::nullopt;
  const Failure* noted = noted_failure(pass);
  return (noted != nullptr ? *noted->time : pass.now) + pass.policy.culprit_wait;
}

// The gang lost touch with a member whose pod has not ended: a process that was killed with its
// container will soon be known by its exit code, a node that died tells nothing for a minute.
bool is_only_silent(const Pass& pass, const Failure& failure) {
  if (!is_silence(failure)) return false;
  return std::ranges::any_of(pass.pods.current, [&](const Worker& worker) {
    return worker.pod->meta.uid == failure.pod_uid && !is_terminal(*worker.pod);
  });
}

// As spot machines are, whoever says so; a machine that died says nothing. A kubelet that is short
// of memory and a queue that takes its quota back evict, too, and no machine goes.
bool is_taken(const Evidence& evidence) {
  const std::string& why = evidence.failure.cause;
  if (why == cause::kUnreached) return false;  // it is there
  return evidence.is_silence || why == cause::kInterrupted || why == cause::kNodeLost ||
         (why == cause::kEvicted && evidence.is_drained);
}

}  // namespace

bool is_killed(const Failure& failure) {
  const bool is_hung = failure.cause == cause::kHang && !failure.pod_uid.empty();
  return failure.cause == cause::kSignal || is_hung;
}

bool is_outlived(const Pass& pass, const Failure& failure) {
  if (is_mutant(Mutant::kI5OutlivedBlamed)) return false;
  const bool is_past = pass.report != nullptr && failure.generation > 0 &&
                       failure.attempt == pass.job.status.attempt &&
                       failure.generation < pass.report->generation;
  return is_past && !is_left_out(pass, failure);
}

bool is_left_out(const Pass& pass, const Failure& failure) {
  return pass.report != nullptr && is_silence(failure) && failure.generation > 0 &&
         failure.generation < pass.report->generation && !pass.is_member(failure.pod_uid);
}

bool has_successor(const Pass& pass, const Failure& failure) {
  const bool is_recorded = pass.current_group != nullptr && !failure.pod_uid.empty();
  return is_recorded && std::ranges::none_of(pass.current_group->spec.pods, [&](const auto& pod) {
           // The UIDs of an attempt come on record when all of its pods are there.
           return pod.uid == failure.pod_uid || (pod.uid.empty() && pod.name == failure.pod);
         });
}

const Failure* noted_failure(const Pass& pass) {
  const auto& last = pass.job.status.last_failure;
  const bool is_of_now = last && last->attempt == pass.job.status.attempt && last->time;
  const bool is_back = is_of_now && is_silence(*last) && !is_named(pass, *last);
  const bool is_open =
      is_of_now && !is_back && !is_outlived(pass, *last) && !has_successor(pass, *last);
  return is_open ? &*last : nullptr;
}

std::optional<Loss> find_loss(const Pass& pass, bool without_leaving) {
  std::vector<Evidence> all = collect(pass);
  if (without_leaving)
    std::erase_if(all, [](const Evidence& evidence) { return evidence.leaves_by.has_value(); });
  if (all.empty()) return std::nullopt;
  merge_report(pass, all);
  const auto culprit = std::ranges::min_element(all, {}, blame_order);
  Loss loss{
      culprit->kind, culprit->failure, {}, culprit->leaves_by, culprit->leaves_by.has_value()};
  for (const Evidence& evidence : all) {
    loss.confirms.insert(loss.confirms.end(), evidence.confirms.begin(), evidence.confirms.end());
    // One that looks well is judged by itself, after a while.
    const bool is_sure = !evidence.is_silence || &evidence == &*culprit;
    if (evidence.slot >= 0 && !evidence.leaves_by && is_sure) loss.slots.push_back(evidence.slot);
    if (!evidence.leaves_by && is_sure && is_taken(evidence))
      loss.taken.push_back(evidence.failure.pod);
    loss.has_fault = loss.has_fault || is_own_fault(pass, evidence);
    const bool is_going = evidence.failure.cause == cause::kInterrupted &&
                          (evidence.was_told_by_cloud || signal_of(pass, evidence.failure.node));
    const bool is_broken = evidence.failure.cause == cause::kGpuFault;
    if (is_going || is_broken) loss.left.push_back(evidence.failure);
  }
  // The view of pods may be ahead of that of the record, in which the leader has just named the
  // culprit or a newer checkpoint.
  if (pass.group != nullptr) {
    loss.confirms.push_back(ConfirmRecord{pass.group->meta.resource_version});
  }
  loss.failure.attempt = pass.job.status.attempt;
  // The launchers' clocks order the failures; the back-off is anchored on ours.
  loss.failure.time = pass.now;
  if (loss.is_leaving) return loss;
  const bool is_silent = is_only_silent(pass, loss.failure);
  const bool is_blamed = !culprit->is_victim || is_mutant(Mutant::kI8VictimBlamed);
  if (is_blamed && !is_silent) return loss;
  const auto deadline = culprit_deadline(pass);
  if (deadline && pass.now_exact < *deadline) {
    loss.wait_until = deadline;
    return loss;
  }
  loss.kind = is_silent ? LossKind::kDisruption : LossKind::kRetry;
  const bool is_going = signal_of(pass, loss.failure.node) != nullptr ||
                        left_node(pass, loss.failure.pod, loss.failure.node) != nullptr;
  const bool is_unreached = loss.failure.cause == cause::kUnreached;
  loss.failure.cause = !is_silent     ? cause::kRetry
                       : is_going     ? cause::kInterrupted
                       : is_unreached ? cause::kUnreached
                                      : cause::kNodeLost;
  // The gang's word for it, where its pod has none.
  if (is_silent && loss.failure.cause != cause::kUnreached &&
      std::ranges::find(loss.taken, loss.failure.pod) == loss.taken.end())
    loss.taken.push_back(loss.failure.pod);
  return loss;
}

std::string sentence(const api::Straggler& slow) {
  return "rank " + std::to_string(slow.rank) + " (pod " + slow.pod + " on node " + slow.node +
         ") takes " + slow.factor + " times as long as the others";
}

std::string sentence(const Failure& failure) {
  std::string who = failure.rank >= 0 ? "rank " + std::to_string(failure.rank) : "a worker";
  if (!failure.pod.empty()) {
    who += " (pod " + failure.pod + (failure.node.empty() ? "" : " on node " + failure.node) + ")";
  }
  const std::string& why = failure.cause;
  if (why == cause::kHang && failure.pod.empty()) return failure.message;
  if (why == cause::kOutOfMemory) return who + " ran out of memory";
  if (why == cause::kDeleted) return who + " was deleted";
  if (why == cause::kPreempted) return who + " was preempted";
  if (why == cause::kNodeLost) return who + " was lost with its node";
  const std::string detail = failure.message.empty() ? "" : ": " + failure.message;
  if (why == cause::kHang) return who + " hung" + detail;
  if (why == cause::kEvicted) return who + " was evicted" + detail;
  if (why == cause::kInterrupted) return who + " left a machine that goes" + detail;
  if (why == cause::kStraggler) return who + " held up its gang" + detail;
  if (why == cause::kNodeRefused) return who + " was refused by its node" + detail;
  if (why == cause::kUnreached) return who + " made room for another" + detail;
  if (why == cause::kGpuFault) return who + " has a broken GPU" + detail;
  if (failure.exit_code) {
    return who + " ended with exit code " + std::to_string(*failure.exit_code) + detail;
  }
  if (failure.signal.value_or(0) > 0) {
    return who + " was killed by signal " + std::to_string(*failure.signal) + detail;
  }
  return who + " failed" + detail;
}

}  // namespace pawl::core
