// A gang that has its nodes and does not begin: an image that cannot be pulled, a volume that is
// not attached. Its nodes are others' until it is tried again (scheduling.startTimeoutSeconds).
#include <algorithm>
#include <chrono>
#include <vector>

#include "common/base/mutant.h"
#include "operator/core/conditions.h"
#include "operator/core/node_steps.h"
#include "operator/core/shortage.h"
#include "operator/core/steps.h"

namespace pawl::core {
namespace {

using namespace api;

// More of them have something in common that is no fault of a machine.
constexpr std::size_t kLateNodesMax = 4;
constexpr char kOwnLimit[] = " (scheduling.startTimeoutSeconds)";

bool begins_anywhere(const Pass& pass) {
  const PlacementStatus& placement = pass.job.status.placement;
  return placement.attempt == pass.job.status.attempt && is_anywhere(placement);
}

using Times = std::vector<TimePoint>;

// When its pods were bound: before that they hold nothing. That is written in the pod, so that no
// crash gives it more time.
Times bound_times(const Pass& pass) {
  Times times;
  for (const Worker& worker : pass.pods.current) {
    if (const auto& time = worker.pod->bound_time) times.push_back(*time);
  }
  return times;
}

Times creation_times(const Pass& pass) {
  Times times;
  for (const Worker& worker : pass.pods.current) {
    if (const auto& time = worker.pod->meta.creation_time) times.push_back(*time);
  }
  return times;
}

// By when it is to have formed, or to have all its nodes, and what it has had for that.
struct Deadline {
  TimePoint at;
  std::chrono::seconds limit{0};
  bool is_for_nodes = false;
};

// One that may begin with those that are there waits for the others first.
Deadline deadline(const Pass& pass, TimePoint since, std::chrono::seconds limit) {
  if (least_members(pass) < pass.job.spec.replicas)
    limit += std::chrono::seconds{pass.job.spec.elastic->shortage_seconds};
  return {since + limit, limit};
}

// For nodes that are to come nobody waits for ever: what has them already holds them meanwhile, and
// all hold their quota. Its own time begins when it has all.
std::optional<Deadline> deadline_of(const Pass& pass) {
  const auto& scheduling = pass.job.spec.scheduling;
  const auto own = scheduling ? scheduling->start_timeout_seconds : std::nullopt;
  const auto has_none = [](const Worker& worker) { return worker.pod->node.empty(); };
  if (begins_anywhere(pass) && std::ranges::any_of(pass.pods.current, has_none)) {
    const Times times = creation_times(pass);
    if (times.empty() || is_mutant(Mutant::kI52ForEver)) return std::nullopt;
    const auto limit = std::max(std::chrono::seconds{own.value_or(0)}, pass.policy.anywhere_max);
    Deadline found = deadline(pass, std::ranges::min(times), limit);
    found.is_for_nodes = true;
    return found;
  }
  const Times times = bound_times(pass);
  if (!own || times.empty()) return std::nullopt;
  const TimePoint since = begins_anywhere(pass) ? std::ranges::max(times) : std::ranges::min(times);
  return deadline(pass, since, std::chrono::seconds{*own});
}

// Whose machines are at fault: most of the others have started.
std::vector<const Worker*> late_workers(const Pass& pass) {
  std::vector<const Worker*> late;
  for (const Worker& worker : pass.pods.current) {
    const PodView& pod = *worker.pod;
    if (pod.phase == PodPhase::kPending && !pod.node.empty()) late.push_back(&worker);
  }
  const auto started = std::ranges::count(pass.pods.current, PodPhase::kRunning,
                                          [](const Worker& worker) { return worker.pod->phase; });
  if (late.size() > kLateNodesMax || std::cmp_greater_equal(late.size(), started)) late.clear();
  return late;
}

std::string obstacle_of(const Pass& pass) {
  const Waiting waiting = waiting_for(pass);
  const auto& refusal = pass.seen.refusal;
  if (waiting.is_blocked || !refusal) return waiting.message;
  return waiting.message + "; " + refusal->action + " was refused: " + refusal->message;
}

// The machines at fault, where it is they: then it need not wait to be tried elsewhere.
void blame(Pass& pass, Failure& failure) {
  for (const Worker* worker : late_workers(pass)) {
    const PodView& pod = *worker->pod;
    const std::string& said = pod.waiting_message.empty() ? failure.message : pod.waiting_message;
    quarantine_node(pass, Failure{.pod = pod.meta.name,
                                  .node = pod.node,
                                  .cause = cause::kStartTimeout,
                                  .message = "a worker did not start there: " + said});
    if (!failure.pod.empty()) continue;
    failure.pod = pod.meta.name;
    failure.pod_uid = pod.meta.uid;
    failure.node = pod.node;
  }
}

// What it is told that it has had, and what becomes of it.
std::string verdict_of(const Deadline& deadline, bool goes_elsewhere) {
  const std::string limit = std::to_string(deadline.limit.count()) + " s";
  const std::string next = goes_elsewhere ? "is tried on other nodes"
                                          : "others may have its nodes until it is tried again";
  const std::string had = deadline.is_for_nodes ? "the gang waited for its nodes for " + limit
                                                : "the gang had " + limit + " to start" + kOwnLimit;
  return had + ", and " + next + "; this restart is free";
}

}  // namespace

bool lacked_nodes(const TrainingJobStatus& status) {
  const auto& failure = status.last_failure;
  return failure && failure->cause == cause::kNodesTimeout &&
         failure->attempt + 1 == status.attempt;
}

bool gave_up_start(const TrainingJobStatus& status) {
  const auto& failure = status.last_failure;
  const bool is_late =
      failure && failure->cause == cause::kStartTimeout && failure->attempt + 1 == status.attempt;
  return is_late || lacked_nodes(status);
}

bool gives_up_start(Pass& pass) {
  const bool has_begun = pass.report != nullptr || pass.ready() == pass.gang_size() ||
                         is_true(pass.job.status, condition::kRunning);
  const auto deadline = deadline_of(pass);
  if (has_begun || !deadline) return false;
  if (pass.now_exact < deadline->at) {
    pass.wake(deadline->at);
    return false;
  }
  const std::string obstacle = obstacle_of(pass);
  Failure failure{.cause = deadline->is_for_nodes ? cause::kNodesTimeout : cause::kStartTimeout,
                  .message = obstacle,
                  .attempt = pass.job.status.attempt,
                  .time = pass.now};
  if (!deadline->is_for_nodes) blame(pass, failure);
  // The gang may have formed just now.
  if (pass.group != nullptr) pass.confirms = {ConfirmRecord{pass.group->meta.resource_version}};
  pass.next.last_failure = failure;
  restart(pass, {failure.cause, obstacle + "; " + verdict_of(*deadline, !failure.node.empty())});
  pass.next.placement = {};  // it keeps no quota
  return true;
}

}  // namespace pawl::core
