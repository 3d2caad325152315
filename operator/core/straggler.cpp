// A rank that holds up its gang (its own measure says so, docs/trainer.md): where a rule of
// failurePolicy says ReplaceNode for that, its worker leaves its node while the others hold what it
// needs to go on elsewhere.
#include <algorithm>
#include <chrono>

#include "common/api/contract.h"
#include "common/base/mutant.h"
#include "operator/core/evidence.h"
#include "operator/core/node_steps.h"
#include "operator/core/steps.h"

namespace pawl::core {
namespace {

using namespace api;

// What comes in has to warm up, and may be measured before it has.
constexpr std::chrono::minutes kBetween{5};

const PodView* slow_pod(const Pass& pass) {
  if (pass.report == nullptr || !pass.report->progress) return nullptr;
  const auto& slow = pass.report->progress->straggler;
  if (!slow || pass.report->is_finished) return nullptr;
  for (const Worker& worker : pass.pods.current) {
    const PodView& pod = *worker.pod;
    if (pod.meta.name != slow->pod || !pass.is_member(pod.meta.uid)) continue;
    return is_staying(pod) ? &pod : nullptr;
  }
  return nullptr;
}

bool is_excluded(const Pass& pass, const std::string& node) {
  const auto& nodes = pass.job.status.excluded_nodes;
  return std::ranges::find(nodes, node, &ExcludedNode::name) != nodes.end();
}

// Of the newest worker that was moved; from then on kBetween has to pass.
std::optional<TimePoint> moved_last(const Pass& pass) {
  std::optional<TimePoint> last;
  for (const ExcludedNode& node : pass.job.status.excluded_nodes)
    if (node.cause == cause::kStraggler && node.time) last = std::max(last, node.time);
  return last;
}

}  // namespace

const ExcludedNode* moved_from(const Pass& pass, const std::string& pod) {
  const auto& nodes = pass.job.status.excluded_nodes;
  const auto found = std::ranges::find_if(nodes, [&](const ExcludedNode& node) {
    return node.cause == cause::kStraggler && std::ranges::find(node.pods, pod) != node.pods.end();
  });
  return found == nodes.end() ? nullptr : &*found;
}

bool moves_straggler(Pass& pass) {
  const PodView* pod = slow_pod(pass);
  if (pod == nullptr || pod->node.empty() || is_mutant(Mutant::kI42SlowStays)) return false;
  const std::string& factor = pass.report->progress->straggler->factor;
  const Loss slow{.kind = LossKind::kDisruption,
                  .failure = {.rank = rank_of(pass, pod->meta.uid),
                              .pod = pod->meta.name,
                              .node = pod->node,
                              .pod_uid = pod->meta.uid,
                              .cause = cause::kStraggler,
                              .message = "took " + factor + " times as long as the others"}};
  const Verdict verdict = judge(pass, slow);
  if (verdict.rule.empty() || verdict.action != RuleAction::kReplaceNode) return false;
  if (moved_from(pass, pod->meta.name) == nullptr) {
    // It came when the node was avoided already: there was no other place.
    if (is_excluded(pass, pod->node)) return false;
    if (!is_true(pass.next, condition::kRunning)) return false;
    const auto last = moved_last(pass);
    if (last && pass.now < *last + kBetween) {
      pass.wake(*last + kBetween);
      return false;
    }
    if (!exclude_node(pass, slow.failure)) return false;
    pass.next.excluded_nodes.back().message = slow.failure.message;
    pass.next.excluded_nodes.back().pods = {pod->meta.name};
    pass.is_status_due = true;  // where nobody is to go, before anybody goes
  }
  pass.acts.push_back(DeletePod{pod->meta.name, pod->meta.uid, std::nullopt});
  pass.emit(true, "StragglerLeaves",
            sentence(slow.failure) + ": it leaves its node, which is avoided from now on; rule " +
                verdict.rule,
            pod->meta.name);
  return true;
}

}  // namespace pawl::core
