// Every object that common/api/children.h makes, given to a real API server with strict validation,
// in a namespace that enforces the restricted Pod Security Standard.
#include <catch2/catch_test_macros.hpp>

#include "common/api/children.h"
#include "common/api/codec.h"
#include "common/os/process.h"
#include "crd_server.h"

namespace pawl::conformance {
namespace {

using nlohmann::json;

constexpr char kNamespace[] = "pawl-children";
constexpr char kStrict[] = "?dryRun=All&fieldValidation=Strict";

// In a namespace of its own; as the API server gives a job to the operator.
api::TrainingJob observed(const char* spec) {
  const json object = {
      {"apiVersion", "pawl.dev/v1alpha1"},
      {"kind", "TrainingJob"},
      {"metadata", {{"name", "child"}, {"namespace", kNamespace}, {"uid", "job-uid"}}},
      {"spec", parse_json(spec)}};
  REQUIRE(api::join_errors(api::validate_training_job(object)) == "");
  const Result<api::TrainingJob> job = api::decode_training_job(object);
  REQUIRE(job.has_value());
  return *job;
}

constexpr char kNative[] = R"({"runtime": {"kind": "Native", "config": {"steps": 10}}})";
constexpr char kNativeWithClaim[] =
    R"({"runtime": {"kind": "Native"}, "checkpoint": {"uri": "file:///data/c"},
  "template": {"spec": {"containers": [{"name": "worker", "volumeMounts": [{"name": "data", "mountPath": "/data"}]}],
    "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "pawl-data"}}]}}})";
constexpr char kForeign[] = R"json({"runtime": {"kind": "Torch"}, "processesPerWorker": 2,
  "template": {"metadata": {"labels": {"team": "x"}}, "spec": {
    "securityContext": {"runAsNonRoot": true, "runAsUser": 1000, "seccompProfile": {"type": "RuntimeDefault"}},
    "initContainers": [{"name": "prepare", "image": "i", "securityContext":
      {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}}}],
    "containers": [
      {"name": "side", "image": "i", "securityContext":
        {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}}},
      {"name": "worker", "image": "i", "command": ["sh"], "args": ["-c", "true"],
       "env": [{"name": "A", "value": "$(PAWL_SLOT)"}],
       "securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}}}]}}})json";

class Fixture {
 public:
  explicit Fixture(const std::string& kubeconfig) : server_(kubeconfig) {
    const json labels = {{"pod-security.kubernetes.io/enforce", "restricted"}};
    make("/api/v1/namespaces", {{"apiVersion", "v1"},
                                {"kind", "Namespace"},
                                {"metadata", {{"name", kNamespace}, {"labels", labels}}}});
    // Admission wants the account to stand, and the garbage collector would take one whose job does
    // not.
    json account = api::service_account_of(observed(kNative));
    account["metadata"].erase("ownerReferences");
    make(path("/api/v1", "serviceaccounts"), account);
  }

  void accepts(const std::string& group_path, const char* plural, const json& object) {
    const CrdServer::Answer answer =
        server_.send(kube::Method::kPost, path(group_path, plural) + kStrict, object);
    INFO(plural << ": " << answer.body.dump());
    CHECK((answer.status == 201 || answer.status == 409));
    if (answer.status == 409) CHECK(answer.body["reason"] == "AlreadyExists");
  }
  int status_of_pod(const json& pod) {
    return server_.send(kube::Method::kPost, path("/api/v1", "pods") + kStrict, pod).status;
  }

 private:
  static std::string path(const std::string& group_path, const char* plural) {
    return group_path + "/namespaces/" + kNamespace + "/" + plural;
  }
  void make(const std::string& target, const json& object) {
    const int status = server_.send(kube::Method::kPost, target, object).status;
    REQUIRE((status == 201 || status == 409));
  }

  CrdServer server_;
};

const api::ChildOptions kOptions{.launcher_image = "registry.example/launcher:1",
                                 .native_worker_image = "registry.example/worker:1"};

TEST_CASE("children: a real API server accepts what a job owns", "[conformance]") {
  const std::optional<std::string> kubeconfig = os::env("PAWL_TEST_KUBECONFIG");
  if (!kubeconfig) SKIP("PAWL_TEST_KUBECONFIG is not set");
  Fixture fixture(*kubeconfig);
  const api::TrainingJob job = observed(kNative);
  const api::WorkerGroupSpec spec{.attempt = 1,
                                  .min_members = 1,
                                  .target_members = 1,
                                  .pods = {{.slot = 0, .name = "child-1-0-0"}}};
  const std::string rbac = "/apis/rbac.authorization.k8s.io/v1";
  fixture.accepts("/api/v1", "serviceaccounts", api::service_account_of(job));
  fixture.accepts(rbac, "roles", api::role_of(job));
  fixture.accepts(rbac, "rolebindings", api::role_binding_of(job));
  fixture.accepts("/api/v1", "services", api::service_of(job));
  fixture.accepts("/apis/policy/v1", "poddisruptionbudgets", api::disruption_budget_of(job, 1));
  fixture.accepts("/apis/pawl.dev/v1alpha1", "workergroups", api::worker_group_of(job, spec));
}

TEST_CASE("children: worker pods pass strict validation and the restricted profile",
          "[conformance]") {
  const std::optional<std::string> kubeconfig = os::env("PAWL_TEST_KUBECONFIG");
  if (!kubeconfig) SKIP("PAWL_TEST_KUBECONFIG is not set");
  Fixture fixture(*kubeconfig);
  for (const char* spec : {kNative, kNativeWithClaim, kForeign}) {
    const Result<json> pod = api::worker_pod_of(observed(spec), 1, 0, 0, kOptions);
    REQUIRE(pod.has_value());
    fixture.accepts("/api/v1", "pods", *pod);
  }
  // The namespace does enforce: the same pod with a privilege of the user's is refused.
  json pod = *api::worker_pod_of(observed(kNative), 1, 0, 0, kOptions);
  pod["spec"]["containers"][0]["securityContext"]["allowPrivilegeEscalation"] = true;
  CHECK(fixture.status_of_pod(pod) == 403);
}

}  // namespace
}  // namespace pawl::conformance
