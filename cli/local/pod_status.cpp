#include "cli/local/pod_status.h"

#include "cli/local/api_objects.h"
#include "cli/local/pod_process.h"
#include "common/base/json.h"
#include "common/kube/requests.h"

namespace pawl::local {
namespace {

nlohmann::json condition(const char* type, bool is_true, TimePoint since,
                         const char* reason = nullptr) {
  nlohmann::json value = {{"type", type},
                          {"status", is_true ? "True" : "False"},
                          {"lastTransitionTime", format_time(since)}};
  if (reason != nullptr) value["reason"] = reason;
  return value;
}

nlohmann::json terminated_of(const ProcessFacts& facts) {
  nlohmann::json terminated = {{"exitCode", facts.exit_code},
                               {"reason", facts.exit_code == 0 ? "Completed" : "Error"},
                               {"finishedAt", format_time(*facts.finished)}};
  if (!facts.reason.empty()) terminated["reason"] = facts.reason;
  if (facts.started) terminated["startedAt"] = format_time(*facts.started);
  if (facts.signal) terminated["signal"] = *facts.signal;
  if (!facts.message.empty()) terminated["message"] = facts.message;
  return terminated;
}

}  // namespace

nlohmann::json pod_status_patch(const nlohmann::json& pod, const ProcessFacts& facts) {
  const bool is_finished = facts.finished.has_value();
  const bool is_running = facts.started.has_value() && !is_finished;
  const bool is_ready = is_running && facts.is_ready;
  const char* phase = "Pending";
  if (is_running) phase = "Running";
  if (is_finished) phase = facts.exit_code == 0 ? "Succeeded" : "Failed";

  nlohmann::json container_state = {{"waiting", {{"reason", "ContainerCreating"}}}};
  if (is_running) container_state = {{"running", {{"startedAt", format_time(*facts.started)}}}};
  if (is_finished) container_state = {{"terminated", terminated_of(facts)}};
  const auto& container = worker_container(pod);
  const nlohmann::json container_status = {{"name", text_of(container, "name")},
                                           {"image", text_of(container, "image")},
                                           {"imageID", ""},
                                           {"ready", is_ready},
                                           {"started", is_running},
                                           {"restartCount", 0},
                                           {"state", std::move(container_state)}};
  const char* why_not = is_finished ? (facts.exit_code == 0 ? "PodCompleted" : "PodFailed")
                        : is_ready  ? nullptr
                                    : "ContainersNotReady";
  return {{"status",
           {{"phase", phase},
            {"podIP", kLocalAddress},
            {"podIPs", {{{"ip", kLocalAddress}}}},
            {"hostIP", kLocalAddress},
            {"startTime", format_time(facts.created)},
            {"conditions",
             {condition("PodScheduled", true, facts.created),
              condition("Initialized", true, facts.created),
              condition("ContainersReady", is_ready, facts.ready_since, why_not),
              condition("Ready", is_ready, facts.ready_since, why_not)}},
            {"containerStatuses", {container_status}}}}};
}

kube::HttpRequest binding_of(const nlohmann::json& pod, const std::string& node_name) {
  const std::string name = meta_text(pod, "name");
  kube::HttpRequest request;
  request.method = kube::Method::kPost;
  request.target =
      kube::path_of(kube::resources::kPods, meta_text(pod, "namespace"), name, "binding");
  request.content_type = "application/json";
  request.body = nlohmann::json{{"metadata", {{"name", name}, {"uid", meta_text(pod, "uid")}}},
                                {"target", {{"name", node_name}}}}
                     .dump();
  return request;
}

}  // namespace pawl::local
