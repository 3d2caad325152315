// Machines that are about to go: the cloud says so seconds to minutes ahead (a taint, a condition).
// Their workers leave while there is time to hand over what they hold, or to save it; what comes in
// their places goes elsewhere (design §6).
#include <algorithm>
#include <chrono>

#include "common/api/contract.h"
#include "common/base/mutant.h"
#include "operator/core/steps.h"

namespace pawl::core {
namespace {

using namespace api;
using std::chrono::seconds;

// Spot machines go in groups: who else has to leave is known a moment later, and successors are
// made once for all.
constexpr seconds kTogether{1}, kTogetherMax{3};
// A machine that was not taken away after all, or comes back by its old name.
constexpr std::chrono::minutes kAvoidedFor{10};
constexpr seconds kGraceMin{2};

bool is_staying(const PodView& pod) {
  return !is_terminal(pod) && !is_terminating(pod) && outcome_of(pod) == Outcome::kNone;
}

std::vector<const PodView*> pods_to_leave(const Pass& pass) {
  std::vector<const PodView*> pods;
  for (const auto* workers : {&pass.pods.current, &pass.pods.leaving}) {
    for (const Worker& worker : *workers) {
      if (signal_of(pass, worker.pod->node) != nullptr && is_staying(*worker.pod))
        pods.push_back(worker.pod);
    }
  }
  return pods;
}

std::optional<seconds> time_left(const Pass& pass, const NodeSignal& signal) {
  if (!signal.deadline) return std::nullopt;
  return std::max(std::chrono::floor<seconds>(*signal.deadline - pass.now_exact), kGraceMin);
}

std::string leaving_text(const Pass& pass, const std::vector<const PodView*>& pods) {
  const PodView& first = *pods.front();
  const NodeSignal& signal = *signal_of(pass, first.node);
  const int rank = rank_of(pass, first.meta.uid);
  std::string text = rank >= 0 ? "rank " + std::to_string(rank) + " (pod " + first.meta.name + ")"
                               : "pod " + first.meta.name;
  const std::size_t others = pods.size() - 1;
  text += others > 0 ? " and " + std::to_string(others) + " more leave" : " leaves";
  text += " node " + first.node + ", which goes away: " + signal.what;
  const auto left = time_left(pass, signal);
  return text + (left ? "; " + std::to_string(left->count()) + " s are left" : "");
}

void forget_returned(Pass& pass) {
  std::erase_if(pass.next.excluded_nodes, [&](const ExcludedNode& node) {
    return node.cause == cause::kInterrupted && signal_of(pass, node.name) == nullptr &&
           (!node.time || pass.now >= *node.time + kAvoidedFor);
  });
}

}  // namespace

const NodeSignal* signal_of(const Pass& pass, const std::string& node) {
  if (pass.seen.signals == nullptr) return nullptr;
  const auto found = pass.seen.signals->find(node);
  return found == pass.seen.signals->end() ? nullptr : &found->second;
}

const ExcludedNode* left_node(const Pass& pass, const std::string& pod, const std::string& node) {
  const auto& nodes = pass.job.status.excluded_nodes;
  const auto found = std::ranges::find_if(nodes, [&](const ExcludedNode& one) {
    const bool was_told = std::ranges::find(one.pods, pod) != one.pods.end();
    return one.cause == cause::kInterrupted && (one.name == node || was_told);
  });
  return found == nodes.end() ? nullptr : &*found;
}

bool leaves_nodes(Pass& pass) {
  if (is_mutant(Mutant::kI36SignalIgnored)) return false;
  forget_returned(pass);
  const std::vector<const PodView*> pods = pods_to_leave(pass);
  if (pods.empty()) return false;
  const auto [first, last] = std::ranges::minmax(
      pods, {},
      [&](const PodView* pod) -> const TimePoint& { return signal_of(pass, pod->node)->seen_at; });
  const TimePoint due = std::min(signal_of(pass, last->node)->seen_at + kTogether,
                                 signal_of(pass, first->node)->seen_at + kTogetherMax);
  if (pass.now_exact < due) {
    pass.wake(due);
    return false;
  }
  pass.is_status_due = true;  // where nobody is to go, before anybody goes
  for (const PodView* pod : pods) {
    const NodeSignal& signal = *signal_of(pass, pod->node);
    exclude_node(pass, {.pod = pod->meta.name,
                        .node = pod->node,
                        .cause = cause::kInterrupted,
                        .message = signal.what});
    const auto left = time_left(pass, signal);
    const bool is_short = left && *left < seconds{pod->grace_seconds};
    pass.acts.push_back(
        DeletePod{pod->meta.name, pod->meta.uid, is_short ? left : std::optional<seconds>{}});
  }
  pass.emit(true, cause::kInterrupted, leaving_text(pass, pods), pods.front()->meta.name);
  return true;
}

}  // namespace pawl::core
