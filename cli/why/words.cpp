// Words that the answers share, and the advice after a failure.

#include "cli/why/reasons.h"
#include "common/base/json.h"
#include "operator/core/failures.h"

namespace pawl::cli::reasons {
namespace {

using nlohmann::json;

json at(const std::string& text, const char* path) {
  const json object = parse_json(text);
  const json::json_pointer pointer{path};
  return object.is_object() && object.contains(pointer) ? object[pointer] : json();
}

// The memory limit of the worker container, "" if it has none.
std::string memory_limit(const api::TrainingJob& job) {
  const json containers = at(job.spec.template_json, "/spec/containers");
  if (!containers.is_array() || containers.empty()) return "";
  const json* worker = &containers[0];
  for (const json& container : containers) {
    if (container.is_object() && container.value("name", json()) == "worker") worker = &container;
  }
  const json::json_pointer path{"/resources/limits/memory"};
  if (!worker->is_object() || !worker->contains(path)) return "";
  const json& limit = (*worker)[path];
  return limit.is_string() ? limit.get<std::string>() : limit.dump();
}

std::string after_out_of_memory(const api::TrainingJob& job) {
  const json micro = at(job.spec.runtime_config_json, "/batch/micro");
  const std::string limit = memory_limit(job);
  std::string text = "give it more memory (the container's resources.limits.memory";
  text += limit.empty() ? ") or " : ", now " + limit + ") or ";
  if (job.spec.runtime_kind == api::RuntimeKind::kNative && micro.is_number_integer()) {
    return text + "lower spec.runtime.config.batch.micro, now " + micro.dump() +
           ": the global batch stays the same";
  }
  return text + "lower the program's batch size per process";
}

}  // namespace

std::string advice(const JobSnapshot& snapshot, const api::Failure& failure) {
  namespace cause = core::cause;
  const std::string& why = failure.cause;
  if (why == cause::kOutOfMemory) return after_out_of_memory(snapshot.job);
  if (why == cause::kPreempted) return "nothing, or give its pods a higher priorityClassName";
  if (why == cause::kNodeLost) return "nothing: a new worker takes the place of the lost one";
  if (why == cause::kInterrupted)
    return "nothing: its machine was taken away, and a worker elsewhere takes its place";
  if (why == cause::kUnreached)
    return "see what is between the nodes of the two; the job avoids this one for a while, and a "
           "worker elsewhere takes the place";
  if (why == cause::kGpuFault)
    return "drain the node and reset or replace its GPU; the job avoids it for a while, and a "
           "worker elsewhere takes the place";
  if (why == cause::kDeleted) return "nothing, or find out who deletes its pods";
  if (why == cause::kEvicted || why == cause::kNodeRefused) {
    return failure.node.empty()
               ? "nothing, or see why its node sends pods away"
               : "see why the node sends pods away: `kubectl describe node " + failure.node + "`";
  }
  std::string log = "logs " + snapshot.job.meta.name;
  if (failure.rank >= 0) log += " --rank " + std::to_string(failure.rank);
  log += " --attempt " + std::to_string(failure.attempt);
  if (failure.signal.value_or(0) == 9) {
    return "if nobody killed it, the node ran out of memory: set the container's "
           "resources.limits.memory; its last words: " +
           pawl(snapshot, log);
  }
  return "read its last words and correct the program: " + pawl(snapshot, log);
}

std::string kubectl(const JobSnapshot& snapshot, const std::string& words) {
  return "`kubectl -n " + snapshot.job.meta.ns + " " + words + "`";
}

std::string pawl(const JobSnapshot& snapshot, const std::string& words) {
  return "`pawl " + words + " -n " + snapshot.job.meta.ns + "`";
}

std::string edit_template(const JobSnapshot& snapshot) {
  return "set spec.suspend to true, then correct spec.template, then set it to false again (" +
         kubectl(snapshot, "edit tj " + snapshot.job.meta.name) + ")";
}

const api::Condition* true_condition(const JobSnapshot& snapshot, const char* type) {
  for (const api::Condition& condition : snapshot.job.status.conditions) {
    if (condition.type == type && condition.status == "True") return &condition;
  }
  return nullptr;
}

bool contains(const std::string& text, const char* part) {
  return text.find(part) != std::string::npos;
}

bool is_terminal(const SeenWorker& worker) {
  return worker.pod.phase == api::PodPhase::kSucceeded ||
         worker.pod.phase == api::PodPhase::kFailed;
}

std::vector<const SeenWorker*> current_workers(const JobSnapshot& snapshot) {
  std::vector<const SeenWorker*> workers;
  for (const SeenWorker& worker : snapshot.workers) {
    if (worker.attempt > 0 && worker.attempt == snapshot.job.status.attempt) {
      workers.push_back(&worker);
    }
  }
  return workers;
}

}  // namespace pawl::cli::reasons
