// A gang that has its nodes and does not begin: an image that cannot be pulled, a volume that is
// not attached. Its nodes are others' until it is tried again (scheduling.startTimeoutSeconds).
#include <algorithm>
#include <chrono>
#include <vector>

#include "operator/core/conditions.h"
#include "operator/core/node_steps.h"
#include "operator/core/shortage.h"
#include "operator/core/steps.h"

namespace pawl::core {
namespace {

using namespace api;

// More of them have something in common that is no fault of a machine.
constexpr std::size_t kLateNodesMax = 4;

// When the first of its pods was bound: before that it holds nothing. That is written in the pod,
// so that no crash gives it more time.
std::optional<TimePoint> bound_at(const Pass& pass) {
  std::optional<TimePoint> first;
  for (const Worker& worker : pass.pods.current) {
    const auto& time = worker.pod->bound_time;
    if (time && (!first || *time < *first)) first = time;
  }
  return first;
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

// One that may begin with those that are there waits for the others first.
std::chrono::seconds limit_of(const Pass& pass) {
  std::chrono::seconds limit{*pass.job.spec.scheduling->start_timeout_seconds};
  if (least_members(pass) < pass.job.spec.replicas)
    limit += std::chrono::seconds{pass.job.spec.elastic->shortage_seconds};
  return limit;
}

// Of the machines at fault, where it is they: then it need not wait to be tried elsewhere.
Failure blame(Pass& pass, const std::string& obstacle) {
  Failure failure{.cause = cause::kStartTimeout,
                  .message = obstacle,
                  .attempt = pass.job.status.attempt,
                  .time = pass.now};
  for (const Worker* worker : late_workers(pass)) {
    const PodView& pod = *worker->pod;
    const std::string& said = pod.waiting_message.empty() ? obstacle : pod.waiting_message;
    quarantine_node(pass, Failure{.pod = pod.meta.name,
                                  .node = pod.node,
                                  .cause = cause::kStartTimeout,
                                  .message = "a worker did not start there: " + said});
    if (!failure.pod.empty()) continue;
    failure.pod = pod.meta.name;
    failure.pod_uid = pod.meta.uid;
    failure.node = pod.node;
  }
  return failure;
}

}  // namespace

bool gave_up_start(const TrainingJobStatus& status) {
  const auto& failure = status.last_failure;
  return failure && failure->cause == cause::kStartTimeout &&
         failure->attempt + 1 == status.attempt;
}

bool gives_up_start(Pass& pass) {
  const auto& scheduling = pass.job.spec.scheduling;
  if (!scheduling || !scheduling->start_timeout_seconds) return false;
  const bool has_begun = pass.report != nullptr || pass.ready() == pass.gang_size() ||
                         is_true(pass.job.status, condition::kRunning);
  const auto bound = bound_at(pass);
  if (has_begun || !bound) return false;
  const std::chrono::seconds limit = limit_of(pass);
  if (pass.now_exact < *bound + limit) {
    pass.wake(*bound + limit);
    return false;
  }
  const std::string obstacle = obstacle_of(pass);
  pass.next.last_failure = blame(pass, obstacle);
  // The gang may have formed just now.
  if (pass.group != nullptr) pass.confirms = {ConfirmRecord{pass.group->meta.resource_version}};
  const bool goes_elsewhere = !pass.next.last_failure->node.empty();
  restart(pass, {cause::kStartTimeout,
                 obstacle + "; the gang had " + std::to_string(limit.count()) +
                     " s to start (scheduling.startTimeoutSeconds), and " +
                     (goes_elsewhere ? "is tried on other nodes"
                                     : "others may have its nodes until it is tried again") +
                     "; this restart is free"});
  pass.next.placement = {};  // it keeps no quota
  return true;
}

}  // namespace pawl::core
