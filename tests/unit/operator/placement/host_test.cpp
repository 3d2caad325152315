// Which machines a pod may run on, as kube-scheduler has it.
#include <catch2/catch_test_macros.hpp>

#include "common/base/json.h"
#include "operator/placement/host.h"

using namespace pawl::placement;
using nlohmann::json;

namespace {

json node() {
  return {
      {"metadata", {{"name", "n1"}, {"labels", {{"zone", "a"}, {"gpus", "8"}, {"rack", "r7"}}}}},
      {"spec", json::object()},
      {"status",
       {{"allocatable", {{"cpu", "8"}}},
        {"conditions", {{{"type", "Ready"}, {"status", "True"}}}}}}};
}

bool allows(const json& pod_spec, const json& object) {
  return Demands::of(pod_spec).allow(host_of(object));
}

json affinity(const std::vector<json>& terms) {
  return {
      {"affinity",
       {{"nodeAffinity",
         {{"requiredDuringSchedulingIgnoredDuringExecution", {{"nodeSelectorTerms", terms}}}}}}}};
}

json expression(const char* key, const char* op, const json& values) {
  return {{"matchExpressions", {{{"key", key}, {"operator", op}, {"values", values}}}}};
}

}  // namespace

TEST_CASE("host: a node selector and the terms of an affinity", "[placement]") {
  struct Row {
    json spec;
    bool is_allowed;
  };
  const json empty = json::array();
  const json here = {
      {"matchFields", {{{"key", "metadata.name"}, {"operator", "In"}, {"values", {"n1"}}}}}};
  const Row rows[] = {
      {json::object(), true},
      {{{"nodeSelector", {{"zone", "a"}}}}, true},
      {{{"nodeSelector", {{"zone", "b"}}}}, false},
      {{{"nodeSelector", {{"region", "a"}}}}, false},
      {affinity({expression("zone", "In", {"a", "b"})}), true},
      {affinity({expression("zone", "NotIn", {"a"})}), false},
      {affinity({expression("region", "NotIn", {"a"})}), true},
      {affinity({expression("region", "Exists", empty)}), false},
      {affinity({expression("region", "DoesNotExist", empty)}), true},
      {affinity({expression("gpus", "Gt", {"7"})}), true},
      {affinity({expression("gpus", "Lt", {"8"})}), false},
      {affinity({expression("rack", "Gt", {"7"})}), false},
      {affinity({expression("zone", "Like", {"a"})}), false},
      {affinity({expression("zone", "In", {"b"}), expression("gpus", "In", {"8"})}), true},
      {affinity({json::object()}), false},
      {affinity({}), false},
      {affinity({here}), true},
  };
  for (const Row& row : rows) {
    INFO(row.spec.dump());
    CHECK(allows(row.spec, node()) == row.is_allowed);
  }
}

TEST_CASE("host: taints keep those away that do not tolerate them", "[placement]") {
  json tainted = node();
  tainted["spec"]["taints"] = {{{"key", "gpu"}, {"value", "h100"}, {"effect", "NoSchedule"}},
                               {{"key", "soft"}, {"effect", "PreferNoSchedule"}}};
  const auto tolerating = [](const json& toleration) -> json {
    return {{"tolerations", json::array({toleration})}};
  };
  CHECK_FALSE(allows(json::object(), tainted));
  CHECK(allows(tolerating({{"operator", "Exists"}}), tainted));
  CHECK(allows(tolerating({{"key", "gpu"}, {"operator", "Exists"}}), tainted));
  CHECK(allows(tolerating({{"key", "gpu"}, {"value", "h100"}}), tainted));
  CHECK_FALSE(allows(tolerating({{"key", "gpu"}, {"value", "a100"}}), tainted));
  CHECK_FALSE(allows(tolerating({{"key", "gpu"}, {"operator", "Exists"}, {"effect", "NoExecute"}}),
                     tainted));
}

TEST_CASE("host: nothing new goes to a machine that is cordoned or not ready", "[placement]") {
  json cordoned = node();
  cordoned["spec"]["unschedulable"] = true;
  CHECK_FALSE(allows(json::object(), cordoned));
  CHECK(allows(
      {{"tolerations", {{{"key", "node.kubernetes.io/unschedulable"}, {"operator", "Exists"}}}}},
      cordoned));
  json silent = node();
  silent["status"]["conditions"][0]["status"] = "Unknown";
  CHECK_FALSE(allows({{"tolerations", {{{"operator", "Exists"}}}}}, silent));
}

TEST_CASE("host: what passes by itself keeps nothing away for ever", "[placement][I48]") {
  const auto one_day = [](const char* key, const json& pod_spec = json::object()) {
    json sick = node();
    sick["status"]["conditions"][0]["status"] = "False";
    sick["spec"]["unschedulable"] = true;
    sick["spec"]["taints"] = {{{"key", key}, {"effect", "NoSchedule"}}};
    return Demands::of(pod_spec).allow_one_day(host_of(sick));
  };
  CHECK(one_day("node.kubernetes.io/unreachable"));
  CHECK(one_day("node.cloudprovider.kubernetes.io/uninitialized"));
  CHECK(one_day("node.cilium.io/agent-not-ready"));
  CHECK_FALSE(one_day("example.com/team"));
  CHECK(one_day("example.com/team", {{"tolerations", {{{"operator", "Exists"}}}}}));
  CHECK_FALSE(one_day("node.kubernetes.io/not-ready", {{"nodeSelector", {{"zone", "b"}}}}));
}

TEST_CASE("host: a heartbeat changes nothing", "[placement]") {
  json later = node();
  later["status"]["conditions"][0]["lastHeartbeatTime"] = "2026-11-25T12:00:00Z";
  later["metadata"]["resourceVersion"] = "9";
  CHECK(host_of(later) == host_of(node()));
}
