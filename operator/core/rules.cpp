#include <algorithm>
#include <array>
#include <csignal>

#include "common/api/contract.h"
#include "common/api/pod_scheduling.h"
#include "common/base/mutant.h"
#include "operator/core/node_steps.h"
#include "operator/core/steps.h"

namespace pawl::core {
namespace {

using namespace api;

// Of the process that failed first. A disruption ended the process from outside: its exit code says
// nothing of the program.
std::optional<int> exit_code_of(const Loss& loss) {
  if (loss.kind == LossKind::kDisruption) return std::nullopt;
  if (loss.failure.exit_code) return loss.failure.exit_code;
  const int signal = loss.failure.signal.value_or(0);
  return signal > 0 ? std::optional{128 + signal} : std::nullopt;
}

bool matches(const FailureRule& rule, const Loss& loss) {
  if (!rule.exit_codes.empty()) {
    const auto code = exit_code_of(loss);
    if (!code) return false;
    const bool is_in = std::ranges::find(rule.exit_codes, *code) != rule.exit_codes.end();
    if (is_in == rule.is_not_in) return false;
  }
  if (rule.causes.empty()) return true;
  return std::ranges::find(rule.causes, loss.failure.cause) != rule.causes.end();
}

}  // namespace

Verdict judge(const Pass& pass, const Loss& loss) {
  for (const FailureRule& rule : pass.job.spec.failure_rules) {
    if (matches(rule, loss)) return {rule.action, rule.name};
  }
  if (is_mutant(Mutant::kI40FaultCounts) && loss.failure.cause == cause::kGpuFault)
    return {RuleAction::kRestart, ""};
  switch (loss.kind) {
    case LossKind::kFatal:
      return {RuleAction::kFail, ""};
    case LossKind::kRetry:
    case LossKind::kDisruption:
      return {RuleAction::kRestartFree, ""};
    case LossKind::kFault:
      return {RuleAction::kRestart, ""};
  }
  return {};
}

bool is_in_place(const Pass& pass) {
  const TrainingJobSpec& spec = pass.job.spec;
  if (spec.strategy != Strategy::kInPlace || spec.max_restarts <= 0) return false;
  constexpr int kSignalsMax = 31;
  const auto allows = [&pass](int signal, const char* name) {
    const Loss killed{.kind = LossKind::kFault,
                      .failure = {.exit_code = 128 + signal, .signal = signal, .cause = name}};
    const RuleAction action = judge(pass, killed).action;
    return action != RuleAction::kFail && action != RuleAction::kReplaceNode;
  };
  for (int signal = 1; signal <= kSignalsMax; ++signal) {
    if (!allows(signal, cause::kSignal)) return false;
  }
  return allows(SIGKILL, cause::kHang);  // its launcher kills one that hangs
}

bool goes_on_from_memory(const Pass& pass) {
  return pass.job.spec.runtime_kind == RuntimeKind::kNative || pass.job.spec.is_in_place;
}

bool has_successors(const Pass& pass) {
  // Kueue admits the pods of an attempt together, once.
  const bool is_queued = pass.job.meta.labels.contains(std::string(kKueuePrefix) + "queue-name");
  if (!is_in_place(pass) || is_queued) return false;
  return std::ranges::all_of(
      std::array{cause::kDeleted, cause::kEvicted, cause::kPreempted, cause::kNodeLost,
                 cause::kNodeRefused, cause::kInterrupted, cause::kUnreached},
      [&](const char* name) {
        const Loss loss{.kind = LossKind::kDisruption, .failure = {.cause = name}};
        return judge(pass, loss).rule.empty();
      });
}

bool exclude_node(Pass& pass, const Failure& failure) {
  std::vector<ExcludedNode>& nodes = pass.next.excluded_nodes;
  const auto known = std::ranges::find(nodes, failure.node, &ExcludedNode::name);
  if (failure.node.empty()) return false;
  if (known != nodes.end()) {  // what is only avoided, for a while, is excluded from now on
    if (!is_only_avoided(*known)) return false;
    nodes.erase(known);
  }
  if (nodes.size() >= kExcludedNodesMax && !forget_avoided(pass)) return false;
  nodes.push_back({.name = failure.node, .cause = failure.cause, .time = pass.now});
  return true;
}

}  // namespace pawl::core
