// Machines that are about to go: the cloud says so seconds to minutes ahead (a taint, a condition).
// Their workers leave while there is time to hand over what they hold, or to save it; what comes in
// their places goes elsewhere (design §6).
#include <algorithm>
#include <chrono>
#include <iterator>

#include "common/api/contract.h"
#include "common/api/json_fields.h"
#include "common/api/pod_scheduling.h"
#include "common/base/mutant.h"
#include "operator/core/evidence.h"
#include "operator/core/node_steps.h"
#include "operator/core/steps.h"

namespace pawl::core {
namespace {

using namespace api;
using std::chrono::seconds;

// Spot machines go in groups: who else has to leave is known a moment later, and successors are
// made once for all.
constexpr seconds kTogether{1}, kTogetherMax{3};
constexpr seconds kGraceMin{2};

// Before a machine's end, and after it: nobody knows the moment.
constexpr seconds kLastMoment{30}, kLate{60};
constexpr std::chrono::minutes kAvoidedFor{10};

// There was no other place for it: it was made when the node was avoided already. Else null.
const ExcludedNode* came_to(const Pass& pass, const PodView& pod) {
  const auto& nodes = pass.job.status.excluded_nodes;
  const auto known = std::ranges::find(nodes, pod.node, &ExcludedNode::name);
  const bool is_later = known != nodes.end() && known->time &&
                        pod.meta.creation_time > *known->time &&
                        std::ranges::find(known->pods, pod.meta.name) == known->pods.end();
  return is_later ? &*known : nullptr;
}

// It works there as long as it can, instead of coming and going.
bool may_stay(Pass& pass, const PodView& pod, const NodeSignal& signal) {
  const ExcludedNode* known = came_to(pass, pod);
  if (known == nullptr) return false;
  if (!signal.deadline) return true;
  // Where nobody says when it began, this process may have come later than the signal.
  const TimePoint deadline =
      signal.is_exact ? *signal.deadline : *known->time + (*signal.deadline - signal.seen_at);
  const TimePoint last = deadline - kLastMoment;
  if (pass.now_exact < last) pass.wake(last);
  return pass.now_exact < last || pass.now_exact > deadline + kLate;
}

std::vector<const PodView*> pods_to_leave(Pass& pass) {
  std::vector<const PodView*> pods;
  for (const auto* workers : {&pass.pods.current, &pass.pods.leaving}) {
    for (const Worker& worker : *workers) {
      const NodeSignal* signal = signal_of(pass, worker.pod->node);
      if (signal != nullptr && is_staying(*worker.pod) && !may_stay(pass, *worker.pod, *signal))
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

// A pod that was told to leave it has its place still: its loss is to be told.
bool is_awaited(const Pass& pass, const ExcludedNode& node) {
  return pass.group != nullptr &&
         std::ranges::any_of(pass.group->spec.pods, [&](const EligiblePod& pod) {
           return std::ranges::find(node.pods, pod.name) != node.pods.end();
         });
}

// A machine that was not taken away after all, or comes back by its old name. What its launchers
// alone have heard holds for a time, since nobody hears of its end.
void forget_returned(Pass& pass) {
  std::erase_if(pass.next.excluded_nodes, [&](const ExcludedNode& node) {
    if (node.cause != cause::kInterrupted || signal_of(pass, node.name) != nullptr) return false;
    if (is_awaited(pass, node)) return false;
    if (node.until && pass.now < *node.until) pass.wake(*node.until);
    return node.until ? pass.now >= *node.until : pass.seen.signals != nullptr;
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

bool forget_avoided(Pass& pass) {
  std::vector<ExcludedNode>& nodes = pass.next.excluded_nodes;
  const auto oldest = std::ranges::find_if(nodes, is_only_avoided);
  if (oldest == nodes.end()) return false;
  nodes.erase(oldest);  // a machine that went does not come back, most often
  return true;
}

void avoid_node(Pass& pass, const Failure& left) {
  constexpr std::size_t kPodsMax = 32;  // of the schema
  std::vector<ExcludedNode>& nodes = pass.next.excluded_nodes;
  auto node = std::ranges::find(nodes, left.node, &ExcludedNode::name);
  if (left.node.empty()) return;
  if (node != nodes.end() && node->cause != cause::kInterrupted) {
    if (!is_only_avoided(*node)) return;
    nodes.erase(node);
    node = nodes.end();
  }
  if (node == nodes.end()) {
    if (nodes.size() >= kExcludedNodesMax && !forget_avoided(pass)) return;
    nodes.push_back({.name = left.node, .cause = cause::kInterrupted, .time = pass.now});
    node = std::prev(nodes.end());
  }
  node->message = clip_front(left.message, kNodeMessageBytesMax);
  node->until.reset();
  if (signal_of(pass, left.node) == nullptr) node->until = pass.now + kAvoidedFor;
  if (std::ranges::find(node->pods, left.pod) != node->pods.end()) return;
  if (node->pods.size() >= kPodsMax) node->pods.erase(node->pods.begin());
  node->pods.push_back(left.pod);
  std::rotate(node, node + 1, nodes.end());  // where all are avoided, the last one is the most
}

seconds backoff_of_node(const Pass& pass, const Failure& failure) {
  return std::max(backoff_after_leaving(pass, failure), backoff_in_quarantine(pass, failure));
}

seconds backoff_after_leaving(const Pass& pass, const Failure& failure) {
  const ExcludedNode* node = left_node(pass, failure.pod, failure.node);
  const auto identity = parse_pod_name(pass.job.meta.name, failure.pod);
  if (node == nullptr || !identity) return seconds{0};
  const auto times = std::ranges::count_if(node->pods, [&](const std::string& name) {
    const auto other = parse_pod_name(pass.job.meta.name, name);
    return other && other->attempt == identity->attempt && other->slot == identity->slot;
  });
  if (times < 2) return seconds{0};
  return doubled(pass.policy.refused_backoff, pass.policy.backoff_max, times);
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
  // A clock that was set back holds nobody up.
  if (pass.now_exact < due && due <= pass.now_exact + kTogetherMax) {
    pass.wake(due);
    return false;
  }
  pass.is_status_due = true;  // where nobody is to go, before anybody goes
  for (const PodView* pod : pods) {
    const NodeSignal& signal = *signal_of(pass, pod->node);
    avoid_node(pass, {.pod = pod->meta.name, .node = pod->node, .message = signal.what});
    const auto left = time_left(pass, signal);
    const bool is_short = left && *left < seconds{pod->grace_seconds};
    pass.acts.push_back(
        DeletePod{pod->meta.name, pod->meta.uid, is_short ? left : std::optional<seconds>{}});
  }
  pass.emit(true, cause::kInterrupted, leaving_text(pass, pods), pods.front()->meta.name);
  return true;
}

}  // namespace pawl::core
