// PodGroups on a cluster that serves them, or does not.
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <map>

#include "common/api/children.h"
#include "tests/unit/operator/cluster.h"

using namespace pawl;
using namespace pawl::test;
using nlohmann::json;
using std::chrono::seconds;

namespace {

// What of scheduling.k8s.io/v1beta1 a test needs: one kind of object, made, read, changed, deleted.
struct PodGroupServer {
  bool is_served = true, is_forbidden = false;
  int discoveries_lost = 0;  // that get no answer first
  std::map<std::string, json> groups = {};
  std::map<std::string, int> requests = {};
  int version = 0;

  std::optional<kube::HttpResponse> handle(const kube::HttpRequest& request) {
    const std::string group = "/apis/scheduling.k8s.io/v1beta1";
    if (!request.target.starts_with(group)) return std::nullopt;
    if (is_forbidden) return refuse(403, "Forbidden");
    if (request.target == group) return discover();
    ++requests[kube::method_name(request.method)];
    if (!is_served) return refuse(404, "NotFound");
    if (request.method == kube::Method::kPost) return create(parse_json(request.body));
    const auto found = groups.find(request.target.substr(request.target.rfind('/') + 1));
    if (found == groups.end()) return refuse(404, "NotFound");
    json& stored = found->second;
    if (request.method == kube::Method::kPatch) {
      stored.merge_patch(parse_json(request.body));
      stored["metadata"]["resourceVersion"] = std::to_string(++version);
    }
    const json answer = stored;
    if (request.method == kube::Method::kDelete)  // it stays until its pods have gone
      stored["metadata"]["deletionTimestamp"] = "2027-01-15T08:00:00Z";
    return kube::HttpResponse{.status = 200, .body = answer.dump()};
  }

 private:
  std::optional<kube::HttpResponse> discover() {
    if (discoveries_lost-- > 0) return refuse(503, "ServiceUnavailable");
    if (!is_served) return refuse(404, "NotFound");
    const json list = {{"kind", "APIResourceList"},
                       {"resources", {{{"name", "workloads"}}, {{"name", "podgroups"}}}}};
    return kube::HttpResponse{.status = 200, .body = list.dump()};
  }
  kube::HttpResponse create(json object) {
    const std::string name = object["metadata"]["name"];
    if (groups.contains(name)) return refuse(409, "AlreadyExists");
    ++version;
    object["metadata"]["uid"] = "group-" + std::to_string(version);
    object["metadata"]["resourceVersion"] = std::to_string(version);
    groups[name] = object;
    return {.status = 201, .body = object.dump()};
  }
  static kube::HttpResponse refuse(int status, const char* reason) {
    return {.status = status, .body = json{{"kind", "Status"}, {"reason", reason}}.dump()};
  }
};

void serve(Cluster& cluster, PodGroupServer& server) {
  cluster.other_server = [&](const auto& request) { return server.handle(request); };
  cluster.options.wants_pod_groups = true;
  cluster.start_operator();
}

// Of the job "gpt".
std::string group_of(Cluster& cluster, int attempt) {
  api::TrainingJob job;
  job.meta.name = "gpt";
  job.meta.uid = cluster.get(kube::resources::kTrainingJobs, "gpt")["metadata"]["uid"];
  return api::pod_group_name(job, attempt);
}

void begin_anew(Cluster& cluster) {
  for (const bool is_suspended : {true, false}) {
    cluster.patch_job("gpt", {{"spec", {{"suspend", is_suspended}}}});
    cluster.settle(seconds{60});
  }
}

}  // namespace

TEST_CASE("pod_group_api: nothing is made before it is known whether the cluster has them",
          "[controller][I47][A44][E10]") {
  PodGroupServer server{.discoveries_lost = 2};
  Cluster cluster;
  serve(cluster, server);
  cluster.create_job("gpt", 2);
  cluster.settle();
  CHECK_FALSE(cluster.loop->is_synced());
  CHECK(cluster.all(kube::resources::kPods).empty());
  cluster.settle(seconds{30});
  CHECK(status_of(cluster, "gpt")["phase"] == "Running");
  const std::string name = group_of(cluster, 1);
  REQUIRE(server.groups.contains(name));
  CHECK(server.groups[name]["spec"]["schedulingPolicy"]["gang"]["minCount"] == 2);
  for (const json& pod : cluster.all(kube::resources::kPods))
    CHECK(pod["spec"]["schedulingGroup"]["podGroupName"] == name);
  CHECK(server.requests == std::map<std::string, int>{{"POST", 1}});
}

TEST_CASE("pod_group_api: where the cluster has none, pods belong to none, and the job says so",
          "[controller][I47]") {
  PodGroupServer server{.is_served = false};
  server.is_forbidden = GENERATE(false, true);
  Cluster cluster;
  serve(cluster, server);
  cluster.create_job("gpt", 2);
  cluster.settle(seconds{30});
  CHECK(status_of(cluster, "gpt")["phase"] == "Running");
  CHECK(status_of(cluster, "gpt")["placedBy"].get<std::string>().ends_with(
      "; the cluster serves no PodGroups (scheduling.k8s.io/v1beta1)"));
  for (const json& pod : cluster.all(kube::resources::kPods))
    CHECK_FALSE(pod["spec"].contains("schedulingGroup"));
  CHECK(server.requests.empty());
  // A control plane that has them by and by is noticed.
  server.is_served = true;
  server.is_forbidden = false;
  cluster.settle(controller::ServedApi::kAskAgainAfter);
  begin_anew(cluster);
  CHECK(server.groups.contains(group_of(cluster, 2)));
}

TEST_CASE("pod_group_api: the group of the attempt before is deleted, and not waited for",
          "[controller][I47]") {
  PodGroupServer server;
  Cluster cluster;
  serve(cluster, server);
  cluster.create_job("gpt", 2);
  cluster.settle(seconds{30});
  server.is_forbidden = GENERATE(false, true);
  if (server.is_forbidden) {
    cluster.options.wants_pod_groups = false;
    cluster.start_operator();
  }
  begin_anew(cluster);
  CHECK(status_of(cluster, "gpt")["phase"] == "Running");
  const json& before = server.groups[group_of(cluster, 1)];
  CHECK(before["metadata"].contains("deletionTimestamp") == !server.is_forbidden);
  CHECK(server.groups.contains(group_of(cluster, 2)) == !server.is_forbidden);
}

TEST_CASE("pod_group_api: one that was made before, of another size or deleted, does",
          "[controller][I47]") {
  PodGroupServer server;
  Cluster cluster;
  cluster.fault = [](const kube::HttpRequest& request) {  // the operator dies before its pods
    const bool is_pod = request.method == kube::Method::kPost && request.target.ends_with("/pods");
    return is_pod ? Fault::kUnavailable : Fault::kNone;
  };
  serve(cluster, server);
  cluster.create_job("gpt", 2);
  cluster.settle();
  const std::string name = group_of(cluster, 1);
  REQUIRE(server.groups.contains(name));
  json& group = server.groups[name];
  SECTION("of another size") { group["spec"]["schedulingPolicy"]["gang"]["minCount"] = 7; }
  SECTION("deleted by somebody") {
    group["metadata"]["deletionTimestamp"] = "2027-01-15T08:00:00Z";
  }
  SECTION("deleted, and gone") { server.groups.erase(name); }
  cluster.fault = nullptr;
  cluster.start_operator();
  cluster.settle(seconds{30});
  CHECK(status_of(cluster, "gpt")["phase"] == "Running");
  CHECK(server.groups[name]["spec"]["schedulingPolicy"]["gang"]["minCount"] == 2);
}
