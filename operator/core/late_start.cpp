// A gang that has its nodes and does not begin: an image that cannot be pulled, a volume that is
// not attached. Its nodes are others' until it is tried again (scheduling.startTimeoutSeconds).
#include <algorithm>
#include <chrono>

#include "operator/core/node_steps.h"
#include "operator/core/steps.h"

namespace pawl::core {
namespace {

using namespace api;

// When it had its first pod. That is written in the pod, so that no crash gives it more time.
std::optional<TimePoint> begun_at(const Pass& pass) {
  std::optional<TimePoint> first;
  for (const Worker& worker : pass.pods.current) {
    const auto& time = worker.pod->meta.creation_time;
    if (time && (!first || *time < *first)) first = time;
  }
  return first;
}

bool has_started(const Worker& worker) { return worker.pod->phase == PodPhase::kRunning; }

// Where others of the gang have started it is the node, or may be.
void avoid_late_nodes(Pass& pass, const std::string& why) {
  const auto& workers = pass.pods.current;
  if (std::ranges::none_of(workers, has_started)) return;
  for (const Worker& worker : workers) {
    const PodView& pod = *worker.pod;
    if (has_started(worker) || pod.node.empty()) continue;
    const std::string& said = pod.waiting_message.empty() ? why : pod.waiting_message;
    quarantine_node(pass, Failure{.pod = pod.meta.name,
                                  .node = pod.node,
                                  .cause = cause::kStartTimeout,
                                  .message = "a worker did not start there: " + said});
  }
}

}  // namespace

bool gave_up_start(const Pass& pass) {
  const auto& failure = pass.job.status.last_failure;
  return failure && failure->cause == cause::kStartTimeout &&
         failure->attempt + 1 == pass.job.status.attempt;
}

bool gives_up_start(Pass& pass) {
  const auto& scheduling = pass.job.spec.scheduling;
  if (!scheduling || !scheduling->start_timeout_seconds) return false;
  if (pass.report != nullptr || pass.pods.ready == pass.size()) return false;
  const std::chrono::seconds limit{*scheduling->start_timeout_seconds};
  const auto begun = begun_at(pass);
  if (!begun) return false;
  if (pass.now_exact < *begun + limit) {
    pass.wake(*begun + limit);
    return false;
  }
  const std::string obstacle = waiting_for(pass).message;
  avoid_late_nodes(pass, obstacle);
  // The gang may have formed just now.
  if (pass.group != nullptr) pass.confirms = {ConfirmRecord{pass.group->meta.resource_version}};
  pass.next.last_failure = Failure{.cause = cause::kStartTimeout,
                                   .message = obstacle,
                                   .attempt = pass.job.status.attempt,
                                   .time = pass.now};
  restart(pass, {cause::kStartTimeout,
                 obstacle + "; the gang had " + std::to_string(limit.count()) +
                     " s to start (scheduling.startTimeoutSeconds), and others may have its nodes "
                     "until it is tried again; this restart is free"});
  pass.next.start_time = pass.now;  // as of one that waits in line
  return true;
}

}  // namespace pawl::core
