#include <catch2/catch_test_macros.hpp>

#include "common/api/codec.h"
#include "samples.h"

namespace pawl::api {
namespace {

using nlohmann::json;

json pod_with(const json& status) {
  return {{"metadata", {{"name", "gpt-1-0-0"}, {"uid", "u"}}},
          {"spec",
           {{"nodeName", "node-a"},
            {"containers", json::array({{{"name", "sidecar"}}, {{"name", "worker"}}})}}},
          {"status", status}};
}

PodView view_of(const json& object) {
  const Result<PodView> pod = decode_pod(object);
  REQUIRE(pod.has_value());
  return *pod;
}

TEST_CASE("decode_pod: the worker container is the one named worker, else the first", "[api]") {
  json object = pod_with(json::object());
  CHECK(view_of(object).worker_container == "worker");
  object["spec"]["containers"] = json::array({{{"name", "main"}}, {{"name", "sidecar"}}});
  CHECK(view_of(object).worker_container == "main");
}

TEST_CASE("decode_pod: a running member", "[api]") {
  const PodView pod = view_of(
      pod_with({{"phase", "Running"},
                {"podIP", "10.0.0.7"},
                {"conditions", json::array({{{"type", "Ready"}, {"status", "True"}},
                                            {{"type", "PodScheduled"}, {"status", "True"}}})}}));
  CHECK(pod.phase == PodPhase::kRunning);
  CHECK(pod.node == "node-a");
  CHECK(pod.ip == "10.0.0.7");
  CHECK(pod.is_ready);
  CHECK_FALSE(pod.exit_code.has_value());
  CHECK(pod.unschedulable_message.empty());
}

TEST_CASE("decode_pod: the exit of the worker counts, that of a sidecar does not", "[api]") {
  const json terminated = {
      {"exitCode", 137}, {"reason", "OOMKilled"}, {"message", "last words"}, {"signal", 9}};
  json status = {
      {"phase", "Failed"},
      {"containerStatuses",
       json::array({{{"name", "sidecar"}, {"state", {{"terminated", {{"exitCode", 3}}}}}}})}};
  CHECK_FALSE(view_of(pod_with(status)).exit_code.has_value());
  status["containerStatuses"].push_back(
      {{"name", "worker"}, {"state", {{"terminated", terminated}}}});
  const PodView pod = view_of(pod_with(status));
  CHECK(pod.phase == PodPhase::kFailed);
  CHECK(pod.exit_code == 137);
  CHECK(pod.signal == 9);
  CHECK(pod.terminated_reason == "OOMKilled");
  CHECK(pod.termination_message == "last words");
}

TEST_CASE("decode_pod: exit code 0 is an exit code", "[api]") {
  const PodView pod = view_of(pod_with(
      {{"phase", "Succeeded"},
       {"containerStatuses",
        json::array({{{"name", "worker"}, {"state", {{"terminated", {{"exitCode", 0}}}}}}})}}));
  CHECK(pod.exit_code == 0);
}

TEST_CASE("decode_pod: why a pod waits, of any container, but not the normal waits", "[api]") {
  json status = {{"phase", "Pending"},
                 {"containerStatuses",
                  json::array({{{"name", "worker"},
                                {"state", {{"waiting", {{"reason", "PodInitializing"}}}}}}})}};
  CHECK(view_of(pod_with(status)).waiting_reason.empty());
  status["initContainerStatuses"] = json::array(
      {{{"name", "pawl-inject"},
        {"state", {{"waiting", {{"reason", "ImagePullBackOff"}, {"message", "no such image"}}}}}}});
  const PodView pod = view_of(pod_with(status));
  CHECK(pod.waiting_reason == "ImagePullBackOff");
  CHECK(pod.waiting_message == "no such image");
}

TEST_CASE("decode_pod: a failed init container is named in the message", "[api]") {
  const PodView pod = view_of(pod_with(
      {{"phase", "Failed"},
       {"initContainerStatuses",
        json::array({{{"name", "prepare"}, {"state", {{"terminated", {{"exitCode", 2}}}}}}})}}));
  CHECK(pod.message == "init container prepare exited with code 2");
  CHECK_FALSE(pod.exit_code.has_value());
}

TEST_CASE("decode_pod: eviction, disruption and a pod that fits nowhere", "[api]") {
  const PodView pod = view_of(pod_with(
      {{"phase", "Failed"},
       {"reason", "Evicted"},
       {"message", "The node was low on resource: memory."},
       {"conditions",
        json::array(
            {{{"type", "DisruptionTarget"}, {"status", "True"}},
             {{"type", "PodScheduled"}, {"status", "False"}, {"message", "0/2 nodes"}}})}}));
  CHECK(pod.reason == "Evicted");
  CHECK(pod.message == "The node was low on resource: memory.");
  CHECK(pod.has_disruption_target);
  CHECK(pod.unschedulable_message == "0/2 nodes");
}

TEST_CASE("decode_pod: Kueue's word on a pod that it stops, and its gate", "[api]") {
  const auto told = [](const char* reason, const char* status) {
    return view_of(pod_with({{"conditions", json::array({{{"type", "TerminationTarget"},
                                                          {"status", status},
                                                          {"reason", reason},
                                                          {"message", "for a workload"}}})}}));
  };
  const PodView pod = told("WorkloadEvictedDueToPreempted", "True");
  CHECK(pod.has_disruption_target);
  CHECK(pod.disruption_reason == "WorkloadEvictedDueToPreempted");
  CHECK(pod.message == "for a workload");
  CHECK_FALSE(told("WorkloadEvictedDueToPreempted", "False").has_disruption_target);

  const PodView gated =
      view_of(pod_with({{"conditions", json::array({{{"type", "PodScheduled"},
                                                     {"status", "False"},
                                                     {"reason", "SchedulingGated"},
                                                     {"message", "gates"}}})}}));
  CHECK(gated.is_gated);
  CHECK(gated.unschedulable_message == "gates");
}

TEST_CASE("decode_pod: a phase that nobody knows is Unknown, none at all is Pending", "[api]") {
  CHECK(view_of(pod_with({{"phase", "Sleeping"}})).phase == PodPhase::kUnknown);
  CHECK(view_of(pod_with(json::object())).phase == PodPhase::kPending);
}

TEST_CASE("decode_pod: a wrong type names the field", "[api]") {
  json object = pod_with({{"containerStatuses", json::array({{{"name", 1}}})}});
  const Result<PodView> pod = decode_pod(object);
  REQUIRE_FALSE(pod.has_value());
  CHECK(pod.error().message.starts_with("status.containerStatuses[0].name: "));
}

}  // namespace
}  // namespace pawl::api
