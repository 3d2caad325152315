// What a worker's pod gets besides the user's template: avoided nodes, Kueue's marks, a smaller
// micro-batch, and names that always fit.
#include <catch2/catch_test_macros.hpp>

#include "common/api/children.h"
#include "common/api/contract.h"
#include "common/api/native_batch.h"
#include "samples.h"
#include "trainer-runtime/include/pawl/config.h"

namespace pawl::api {
namespace {

using nlohmann::json;

json pod_of(const TrainingJob& job) {
  const Result<json> pod = worker_pod_of(job, 2, 1, 0, {});
  REQUIRE(pod.has_value());
  return *pod;
}

json required_terms(const json& pod) {
  return pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
            ["nodeSelectorTerms"];
}

json avoided(const std::string& node) {
  return {{"key", "metadata.name"}, {"operator", "NotIn"}, {"values", {node}}};
}

TEST_CASE("pod_scheduling: excluded nodes are kept out of each of the user's terms", "[api][I24]") {
  TrainingJob job = samples::observed(samples::torch_job());
  CHECK_FALSE(pod_of(job)["spec"].contains("affinity"));
  job.status.excluded_nodes = {{"node-a", "Error", std::nullopt}, {"node-b", "OOM", std::nullopt}};
  const json both = {avoided("node-a"), avoided("node-b")};
  CHECK(required_terms(pod_of(job)) == json::array({{{"matchFields", both}}}));

  const json zone = {{"key", "zone"}, {"operator", "In"}, {"values", {"x"}}};
  json object = samples::torch_job();
  object["spec"]["template"]["spec"]["affinity"]["nodeAffinity"]
        ["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"] =
            json::array({{{"matchExpressions", {zone}}}, json::object()});
  TrainingJob with_terms = samples::observed(object);
  with_terms.status.excluded_nodes = job.status.excluded_nodes;
  const json terms = required_terms(pod_of(with_terms));
  CHECK(terms[0] == json{{"matchExpressions", {zone}}, {"matchFields", both}});
  CHECK(terms[1] == json::object());  // matches no node, and must not begin to
}

TEST_CASE("pod_scheduling: the first pod of a slot goes to the node that was decided on", "[api]") {
  const json zone = {{"key", "zone"}, {"operator", "In"}, {"values", {"x"}}};
  json object = samples::torch_job();
  object["spec"]["template"]["spec"]["affinity"]["nodeAffinity"]
        ["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"] =
            json::array({{{"matchExpressions", {zone}}}});
  TrainingJob job = samples::observed(object);
  job.status.placement = {2, "", {{"node-a", 1}, {"node-b", 2}}};
  const auto terms_of = [&](std::int64_t attempt, int slot, int n) {
    return required_terms(*worker_pod_of(job, attempt, slot, n, {}));
  };
  const auto on = [&](const char* node) {
    const json is_node = {{"key", "metadata.name"}, {"operator", "In"}, {"values", {node}}};
    return json::array({{{"matchExpressions", {zone}}, {"matchFields", {is_node}}}});
  };
  CHECK(terms_of(2, 0, 0) == on("node-a"));
  CHECK(terms_of(2, 1, 0) == on("node-b"));
  CHECK(terms_of(2, 2, 0) == on("node-b"));
  const json anywhere = json::array({{{"matchExpressions", {zone}}}});
  CHECK(terms_of(2, 3, 0) == anywhere);  // it has grown since
  CHECK(terms_of(2, 1, 1) == anywhere);  // another pod was lost there
  CHECK(terms_of(3, 0, 0) == anywhere);
}

TEST_CASE("pod_scheduling: a node that may stay after all is avoided while there are others",
          "[api][I36]") {
  TrainingJob job = samples::observed(samples::torch_job());
  job.status.excluded_nodes = {{"node-a", "Error", std::nullopt},
                               {"node-b", "Interrupted", std::nullopt}};
  const json pod = pod_of(job);
  CHECK(required_terms(pod) == json::array({{{"matchFields", {avoided("node-a")}}}}));
  const json& preferred =
      pod["spec"]["affinity"]["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"];
  CHECK(preferred ==
        json::array({{{"weight", 100}, {"preference", {{"matchFields", {avoided("node-b")}}}}}}));
}

TEST_CASE(
    "pod_scheduling: a node in quarantine is avoided while there are others, until it is over",
    "[api][I40]") {
  TrainingJob job = samples::observed(samples::torch_job());
  const TimePoint end{std::chrono::seconds{1'800'000'060}};
  job.status.excluded_nodes = {{.name = "node-a", .cause = "GpuFault", .until = end},
                               {.name = "node-b", .cause = "GpuFault"}};
  const auto affinity_at = [&](std::optional<TimePoint> now) {
    const auto pod = worker_pod_of(job, 2, 1, 0, {.now = now});
    REQUIRE(pod.has_value());
    return (*pod)["spec"]["affinity"]["nodeAffinity"];
  };
  const char* const preferred = "preferredDuringSchedulingIgnoredDuringExecution";
  const json before = affinity_at(end - std::chrono::seconds{1});
  CHECK(before[preferred][0]["preference"] == json{{"matchFields", {avoided("node-a")}}});
  CHECK(affinity_at(std::nullopt) == before);
  const json after = affinity_at(end);
  CHECK_FALSE(after.contains(preferred));
  // Excluded by a rule, for good.
  CHECK(after["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"] ==
        json::array({{{"matchFields", {avoided("node-b")}}}}));
}

TEST_CASE("pod_scheduling: where every node is avoided, the one that failed last is avoided most",
          "[api][I40]") {
  TrainingJob job = samples::observed(samples::torch_job());
  const TimePoint end{std::chrono::seconds{1'800'000'060}};
  job.status.excluded_nodes = {
      {.name = "node-a", .cause = "GpuFault", .until = end + std::chrono::minutes{16}},
      {.name = "node-b", .cause = "GpuFault", .until = end}};
  const auto preferred_at = [&](TimePoint now) {
    const auto pod = worker_pod_of(job, 2, 1, 0, {.now = now});
    REQUIRE(pod.has_value());
    return (*pod)["spec"]["affinity"]["nodeAffinity"]
                 ["preferredDuringSchedulingIgnoredDuringExecution"];
  };
  const json both = {avoided("node-a"), avoided("node-b")};
  CHECK(preferred_at(end - std::chrono::seconds{1}) ==
        json::array({{{"weight", 100}, {"preference", {{"matchFields", both}}}},
                     {{"weight", 50}, {"preference", {{"matchFields", {avoided("node-b")}}}}}}));
  CHECK(preferred_at(end).size() == 1);

  // Of three, whichever is taken has a better one before it.
  job.status.excluded_nodes.push_back({.name = "node-c", .cause = "GpuFault", .until = end});
  const json last_two = {avoided("node-b"), avoided("node-c")};
  const json preferred = preferred_at(end - std::chrono::seconds{1});
  REQUIRE(preferred.size() == 3);
  CHECK(preferred[1] == json{{"weight", 25}, {"preference", {{"matchFields", {last_two[1]}}}}});
  CHECK(preferred[2] == json{{"weight", 25}, {"preference", {{"matchFields", last_two}}}});

  // Of four, the first is not taken together with the second.
  job.status.excluded_nodes.push_back({.name = "node-d", .cause = "GpuFault", .until = end});
  const json of_four = preferred_at(end - std::chrono::seconds{1});
  const json last_three = {avoided("node-b"), avoided("node-c"), avoided("node-d")};
  CHECK(of_four.back()["preference"] == json{{"matchFields", last_three}});
  CHECK(of_four.size() == 4);
}

TEST_CASE("pod_scheduling: Kueue sees the pods of an attempt as one group",
          "[api][A23][A44][E10]") {
  TrainingJob job = samples::observed(samples::torch_job());
  job.meta.labels = {{"kueue.x-k8s.io/priority-class", "high"}, {"team", "a"}};
  json pod = pod_of(job);
  CHECK(pod["metadata"]["labels"]["kueue.x-k8s.io/priority-class"] == "high");
  CHECK_FALSE(pod["metadata"]["labels"].contains("kueue.x-k8s.io/pod-group-name"));
  CHECK_FALSE(pod["metadata"]["labels"].contains("team"));
  job.meta.labels["kueue.x-k8s.io/queue-name"] = "research";
  pod = pod_of(job);
  CHECK(pod["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "research");
  const std::string group = pod["metadata"]["labels"]["kueue.x-k8s.io/pod-group-name"];
  CHECK(group.starts_with("mesh-"));
  CHECK(group.ends_with("-2"));
  CHECK(pod["metadata"]["annotations"]["kueue.x-k8s.io/pod-group-total-count"] == "2");
  // Nobody replaces a pod of an ended attempt: without this word Kueue waits for that for ever,
  // keeps its finalizer on the ended pods, and admits the group again without a pod in it.
  CHECK(pod["metadata"]["annotations"]["kueue.x-k8s.io/retriable-in-group"] == "false");

  // A job of the same name is not taken for its predecessor, whose workload has ended.
  job.meta.uid = "0f9e8d7c-0000-4000-8000-000000000000";
  const json later = pod_of(job);
  CHECK(later["metadata"]["labels"]["kueue.x-k8s.io/pod-group-name"] == "mesh-0f9e8d7-2");
}

TEST_CASE("pod_scheduling: scheduling gates and node selectors of the template reach the pod",
          "[api][A23][D5]") {
  json object = samples::torch_job();
  object["spec"]["template"]["spec"]["schedulingGates"] =
      json::array({{{"name", "example.com/g"}}});
  object["spec"]["template"]["spec"]["nodeSelector"] = {{"pool", "gpu"}};
  const json pod = pod_of(samples::observed(object));
  CHECK(pod["spec"]["schedulingGates"] == json::array({{{"name", "example.com/g"}}}));
  CHECK(pod["spec"]["nodeSelector"] == json{{"pool", "gpu"}});
}

TEST_CASE("names: of the longest job name every derived name and label fits in 63 characters",
          "[api][B24][A25][B9][E5]") {
  json object = samples::torch_job();
  const std::string name(kJobNameMax, 'a');
  object["metadata"]["name"] = name;
  TrainingJob job = samples::observed(object);
  job.meta.labels["kueue.x-k8s.io/queue-name"] = "q";
  CHECK(pod_name(job, 99'999'999, kReplicasMax - 1, 9).size() <= 63);
  CHECK(child_name(job).size() <= 63);
  const json pod = pod_of(job);
  for (const auto& [key, value] : pod["metadata"]["labels"].items()) {
    INFO(key);
    CHECK(value.get<std::string>().size() <= 63);
  }
}

TEST_CASE("native_batch: the defaults are the trainer's own", "[api]") {
  const NativeBatch batch = native_batch(samples::observed(samples::native_job()));
  CHECK(batch.global == pawl::BatchConfig{}.global);
  CHECK(batch.micro == pawl::BatchConfig{}.micro);
}

TEST_CASE("native_batch: the next micro-batch is lower and divides the global batch",
          "[api][I26]") {
  struct Row {
    NativeBatch batch;
    std::optional<std::int64_t> next;
  };
  const std::vector<Row> rows{{{32, 8}, 4},  {{32, 2}, 1}, {{32, 1}, std::nullopt},
                              {{30, 15}, 6}, {{7, 7}, 1},  {{24, 6}, 3}};
  for (const Row& row : rows) {
    INFO(row.batch.global << "/" << row.batch.micro);
    CHECK(smaller_micro_batch(row.batch) == row.next);
  }
}

TEST_CASE("native_batch: the trainer gets the lower micro-batch and everything else as written",
          "[api][I26]") {
  json object = samples::native_job();
  object["spec"]["runtime"]["config"] = {{"steps", 5}, {"batch", {{"global", 16}, {"micro", 8}}}};
  TrainingJob job = samples::observed(object);
  CHECK(parse_json(trainer_config(job)) == object["spec"]["runtime"]["config"]);
  job.status.micro_batch = 4;
  const json expected = {{"steps", 5}, {"batch", {{"global", 16}, {"micro", 4}}}};
  CHECK(parse_json(trainer_config(job)) == expected);
  const json pod = pod_of(job);
  for (const json& variable : pod["spec"]["containers"][0]["env"]) {
    if (variable["name"] != kEnvTrainerConfig) continue;
    CHECK(parse_json(variable["value"].get<std::string>()) == expected);
  }
  // The user has lowered it further meanwhile.
  job.spec.runtime_config_json = R"({"batch":{"global":16,"micro":2}})";
  CHECK(native_batch(job).micro == 2);
}

}  // namespace
}  // namespace pawl::api
