#include <array>
#include <string_view>
#include <utility>

#include "common/api/codec.h"
#include "common/api/codec_shared.h"

namespace pawl::api {

using nlohmann::json;

namespace {

PodPhase pod_phase(const std::string& name) {
  constexpr std::array<std::pair<std::string_view, PodPhase>, 4> kPhases{{
      {"Pending", PodPhase::kPending},
      {"Running", PodPhase::kRunning},
      {"Succeeded", PodPhase::kSucceeded},
      {"Failed", PodPhase::kFailed},
  }};
  for (const auto& [phase_name, phase] : kPhases) {
    if (name == phase_name) return phase;
  }
  return name.empty() ? PodPhase::kPending : PodPhase::kUnknown;
}

void read_pod_spec(Fields& spec, PodView& pod) {
  spec.read("nodeName", pod.node);
  spec.read("terminationGracePeriodSeconds", pod.grace_seconds);
  spec.each("containers", [&](Fields& container) {
    std::string name;
    container.read("name", name);
    if (pod.worker_container.empty() || name == "worker") pod.worker_container = name;
  });
}

void read_pod_condition(Fields& fields, PodView& pod) {
  std::string type, status, reason, message;
  fields.read("type", type);
  fields.read("status", status);
  fields.read("reason", reason);
  fields.read("message", message);
  if (type == "Ready") pod.is_ready = status == "True";
  if (type == "DisruptionTarget") {
    pod.has_disruption_target = status == "True";
    pod.disruption_reason = reason;
  }
  if (type == "TerminationTarget" && status == "True") {  // set by Kueue, before it deletes the pod
    pod.has_disruption_target = true;
    pod.disruption_reason = reason;
    if (pod.message.empty()) pod.message = message;
  }
  if (type == "PodScheduled" && status == "True") fields.read("lastTransitionTime", pod.bound_time);
  if (type == "PodScheduled" && status == "False") {
    pod.unschedulable_message = message;
    pod.is_gated = reason == "SchedulingGated";
  }
}

// A container that waits in the normal course of things says nothing of interest.
bool is_normal_wait(const std::string& reason) {
  return reason.empty() || reason == "ContainerCreating" || reason == "PodInitializing";
}

void read_waiting(Fields& state, PodView& pod) {
  state.child("waiting", [&](Fields& waiting) {
    std::string reason, message;
    waiting.read("reason", reason);
    waiting.read("message", message);
    if (is_normal_wait(reason) || !pod.waiting_reason.empty()) return;
    pod.waiting_reason = reason;
    pod.waiting_message = message;
  });
}

void read_container_status(Fields& fields, PodView& pod) {
  std::string name;
  fields.read("name", name);
  fields.child("state", [&](Fields& state) {
    read_waiting(state, pod);
    if (name != pod.worker_container) return;
    state.child("terminated", [&](Fields& terminated) {
      pod.exit_code = 0;
      terminated.read("exitCode", pod.exit_code);
      terminated.read("signal", pod.signal);
      terminated.read("reason", pod.terminated_reason);
      terminated.read("message", pod.termination_message);
    });
  });
}

// A failed init container ends the pod before the worker runs: say which one in the pod's message.
void read_init_status(Fields& fields, PodView& pod) {
  std::string name;
  fields.read("name", name);
  fields.child("state", [&](Fields& state) {
    read_waiting(state, pod);
    state.child("terminated", [&](Fields& terminated) {
      int exit_code = 0;
      terminated.read("exitCode", exit_code);
      if (exit_code == 0 || !pod.message.empty()) return;
      pod.message = "init container " + name + " exited with code " + std::to_string(exit_code);
    });
  });
}

void read_pod_status(Fields& status, PodView& pod) {
  std::string phase_name;
  status.read("phase", phase_name);
  pod.phase = pod_phase(phase_name);
  status.read("reason", pod.reason);
  status.read("message", pod.message);
  status.read("podIP", pod.ip);
  status.each("conditions", [&](Fields& item) { read_pod_condition(item, pod); });
  status.each("initContainerStatuses", [&](Fields& item) { read_init_status(item, pod); });
  status.each("containerStatuses", [&](Fields& item) { read_container_status(item, pod); });
}

}  // namespace

Result<PodView> decode_pod(const json& object) {
  std::optional<Error> error;
  Fields fields(object, "", error);
  PodView pod;
  pod.meta = read_meta(fields);
  fields.child("spec", [&](Fields& spec) { read_pod_spec(spec, pod); });
  fields.child("status", [&](Fields& status) { read_pod_status(status, pod); });
  if (error) return tl::make_unexpected(*error);
  return pod;
}

}  // namespace pawl::api
