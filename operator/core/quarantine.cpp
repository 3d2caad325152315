// Machines whose hardware has failed, or which others do not reach. They are avoided for a while
// that doubles with each worker that fails there, and used again then: what was broken may have
// been mended, and a node that is never used again costs more than one that fails once more. The
// memory of it ends with the list's.
#include <algorithm>
#include <chrono>
#include <iterator>

#include "common/api/codec.h"
#include "common/api/contract.h"
#include "common/api/json_fields.h"
#include "common/base/mutant.h"
#include "operator/core/node_steps.h"
#include "operator/core/steps.h"

namespace pawl::core {
namespace {

using namespace api;
using std::chrono::seconds;

constexpr seconds kQuarantine{60}, kQuarantineMax{3'600};
constexpr std::size_t kFailedPodsMax = 32;  // of the schema

// Null: it is not, or for another reason.
const ExcludedNode* quarantined(const Pass& pass, const std::string& node) {
  const auto& nodes = pass.job.status.excluded_nodes;
  const auto found = std::ranges::find(nodes, node, &ExcludedNode::name);
  return found != nodes.end() && cause::is_for_a_while(found->cause) ? &*found : nullptr;
}

}  // namespace

void quarantine_node(Pass& pass, const Failure& failed) {
  if (failed.node.empty() || is_mutant(Mutant::kI40NodeForgotten)) return;
  std::vector<ExcludedNode>& nodes = pass.next.excluded_nodes;
  auto node = std::ranges::find(nodes, failed.node, &ExcludedNode::name);
  ExcludedNode entry{.name = failed.node, .cause = failed.cause, .time = pass.now};
  // Of a machine that is gone nothing is to be remembered when it is back.
  if (node != nodes.end() && node->cause == cause::kNodeLost) {
    nodes.erase(node);
    node = nodes.end();
  }
  if (node != nodes.end()) {
    // It goes anyway, or is excluded for good.
    if (!cause::is_for_a_while(node->cause) || !node->until) return;
    if (failed.cause == cause::kNodeLost) return;
    if (std::ranges::find(node->pods, failed.pod) != node->pods.end()) return;  // told already
    // One that was well for as long as any quarantine lasts begins anew.
    if (pass.now < *node->until + kQuarantineMax) entry.pods = std::move(node->pods);
    nodes.erase(node);
  }
  if (nodes.size() >= kExcludedNodesMax && !forget_avoided(pass)) return;
  if (entry.pods.size() >= kFailedPodsMax) entry.pods.erase(entry.pods.begin());
  entry.pods.push_back(failed.pod);
  entry.until = pass.now + doubled(kQuarantine, kQuarantineMax, std::ssize(entry.pods));
  entry.message = clip_front(failed.message, kNodeMessageBytesMax);
  pass.emit(true, "NodeQuarantined",
            "node " + entry.name + " is avoided until " + format_time(*entry.until) + ": " +
                entry.message,
            failed.pod);
  nodes.push_back(std::move(entry));
}

void quarantine_late(Pass& pass) {
  for (const Worker& worker : pass.pods.previous) {
    const PodView& pod = *worker.pod;
    const auto word = decode_termination(pod.termination_message);
    if (outcome_of(pod) != Outcome::kFailed || !word || word->cause != cause::kGpuFault) continue;
    Failure failed{.pod = pod.meta.name, .node = pod.node, .cause = cause::kGpuFault};
    failed.message = word->message;
    quarantine_node(pass, failed);
  }
}

bool is_in_quarantine(const Pass& pass, const Failure& failure) {
  return cause::is_for_a_while(failure.cause) && quarantined(pass, failure.node) != nullptr;
}

seconds backoff_in_quarantine(const Pass& pass, const Failure& failure) {
  const ExcludedNode* node = quarantined(pass, failure.node);
  if (!cause::is_for_a_while(failure.cause) || node == nullptr || node->pods.size() < 2)
    return seconds{0};
  return doubled(pass.policy.refused_backoff, pass.policy.backoff_max, std::ssize(node->pods) - 1);
}

}  // namespace pawl::core
