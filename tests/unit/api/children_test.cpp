#include <catch2/catch_test_macros.hpp>

#include "common/api/children.h"
#include "common/api/codec.h"
#include "common/api/provisioning.h"
#include "samples.h"

namespace pawl::api {
namespace {

using nlohmann::json;

TEST_CASE("children: names derive from the job and fit into 63 characters", "[api]") {
  TrainingJob job = samples::observed(samples::native_job());
  CHECK(child_name(job) == "gpt-pawl-worker");
  CHECK(pod_name(job, 2, 1, 3) == "gpt-2-1-3");
  CHECK(pod_selector(job) == "pawl.dev/job-uid=job-uid");
  job.meta.name = std::string(46, 'a');
  CHECK(child_name(job).size() <= 63);
  CHECK(pod_name(job, 9'999, 2047, 9'999).size() <= 63);
}

TEST_CASE("children: every child is owned by the job and carries its labels", "[api][A1]") {
  const TrainingJob job = samples::observed(samples::torch_job());
  const Result<json> pod = worker_pod_of(job, 1, 0, 0, {});
  REQUIRE(pod.has_value());
  for (const json& child :
       {service_account_of(job), role_of(job), role_binding_of(job), disruption_budget_of(job, 0),
        service_of(job), worker_group_of(job, {}), *pod}) {
    INFO(child.dump());
    const Result<ObjectMeta> meta = decode_meta(child);
    REQUIRE(meta.has_value());
    CHECK(meta->ns == "team");
    REQUIRE(meta->owners.size() == 1);
    CHECK(meta->owners[0] == OwnerReference{.api_version = "pawl.dev/v1alpha1",
                                            .kind = "TrainingJob",
                                            .name = "mesh",
                                            .uid = "job-uid",
                                            .is_controller = true});
    CHECK(child["metadata"]["ownerReferences"][0]["blockOwnerDeletion"] == true);
    CHECK(meta->labels.at("app.kubernetes.io/managed-by") == "pawl");
    CHECK(meta->labels.at("pawl.dev/job") == "mesh");
    CHECK(meta->labels.at("pawl.dev/job-uid") == "job-uid");
  }
}

TEST_CASE("children: every worker has a name in DNS where the job asks for that", "[api][A41]") {
  json object = samples::torch_job();
  CHECK(
      !worker_pod_of(samples::observed(object), 1, 0, 0, {}).value()["spec"].contains("hostname"));
  object["spec"]["hostnames"] = true;
  const TrainingJob job = samples::observed(object);
  for (const std::int64_t attempt : {1, 2}) {
    const json pod = worker_pod_of(job, attempt, 1, 0, {}).value();
    CHECK(pod["spec"]["hostname"] == "mesh-1");
    CHECK(pod["spec"]["subdomain"] == "mesh");
  }
  const json service = service_of(job);
  CHECK(service["metadata"]["name"] == "mesh");
  CHECK(service["spec"]["clusterIP"] == "None");
  CHECK(service["spec"]["publishNotReadyAddresses"] == true);
  CHECK(service["spec"]["selector"] == json{{"pawl.dev/job-uid", "job-uid"}});
}

TEST_CASE("children: the role names one WorkerGroup and no other verb", "[api]") {
  const json role = role_of(samples::observed(samples::torch_job()));
  CHECK(role["rules"] == parse_json(R"([
    {"apiGroups": ["pawl.dev"], "resources": ["workergroups"], "resourceNames": ["mesh"], "verbs": ["get", "watch"]},
    {"apiGroups": ["pawl.dev"], "resources": ["workergroups/status"], "resourceNames": ["mesh"],
     "verbs": ["get", "patch"]}])"));
}

TEST_CASE("children: the binding is for the job's account, or for the template's own", "[api]") {
  json object = samples::torch_job();
  CHECK(role_binding_of(samples::observed(object))["subjects"][0]["name"] == "mesh-pawl-worker");
  object["spec"]["template"]["spec"]["serviceAccountName"] = "with-cloud-rights";
  const json binding = role_binding_of(samples::observed(object));
  CHECK(binding["subjects"] ==
        parse_json(
            R"([{"kind": "ServiceAccount", "name": "with-cloud-rights", "namespace": "team"}])"));
  CHECK(binding["roleRef"]["name"] == "mesh-pawl-worker");
}

TEST_CASE("children: the disruption budget lets no pod of the job be evicted", "[api]") {
  const json budget = disruption_budget_of(samples::observed(samples::torch_job()), 0);
  CHECK(budget["spec"] == parse_json(R"({"minAvailable": 10000,
    "selector": {"matchLabels": {"pawl.dev/job-uid": "job-uid"}}})"));
}

TEST_CASE("children: of a gang that can do without some a drain may evict those", "[api]") {
  const json budget = disruption_budget_of(samples::observed(samples::torch_job()), 3);
  CHECK(budget["spec"]["minAvailable"] == 3);
}

TEST_CASE("children: the WorkerGroup has the job's name and the given spec", "[api]") {
  const WorkerGroupSpec spec = samples::full_group().spec;
  const json object = worker_group_of(samples::observed(samples::torch_job()), spec);
  const Result<WorkerGroup> group = decode_worker_group(object);
  REQUIRE(group.has_value());
  CHECK(group->meta.name == "mesh");
  CHECK(group->spec == spec);
  CHECK_FALSE(object.contains("status"));
}

TEST_CASE("processes_per_worker: the number, else the GPUs of the worker, else 1", "[api]") {
  json object = samples::torch_job();
  CHECK(processes_per_worker(samples::observed(object)) == 1);
  json& container = object["spec"]["template"]["spec"]["containers"][0];
  container["resources"] = {{"limits", {{"nvidia.com/gpu", "8"}, {"cpu", "4"}}}};
  CHECK(processes_per_worker(samples::observed(object)) == 8);
  container["resources"] = {{"limits", {{"amd.com/gpu", 4}}}};
  CHECK(processes_per_worker(samples::observed(object)) == 4);
  container["resources"] = {{"limits", {{"nvidia.com/mig-1g.5gb", 2}}}};
  CHECK(processes_per_worker(samples::observed(object)) == 2);
  for (const char* kind : {"JAX", "TensorFlow"}) {  // one process works with all of them
    object["spec"]["runtime"]["kind"] = kind;
    CHECK(processes_per_worker(samples::observed(object)) == 1);
  }
  object["spec"]["runtime"]["kind"] = "MPI";  // mpirun starts the others
  CHECK(processes_per_worker(samples::observed(object)) == 1);
  CHECK(mpi_slots(samples::observed(object)) == 2);
  object["spec"]["processesPerWorker"] = 3;
  CHECK(processes_per_worker(samples::observed(object)) == 1);
  CHECK(mpi_slots(samples::observed(object)) == 3);
  object["spec"]["runtime"]["kind"] = "Ray";
  CHECK(processes_per_worker(samples::observed(object)) == 1);
  object["spec"]["runtime"]["kind"] = "JAX";
  CHECK(processes_per_worker(samples::observed(object)) == 3);
  CHECK(processes_per_worker(samples::observed(samples::native_job())) == 1);
}

TEST_CASE("children: a request for nodes, and the pod that it is for", "[api][I49]") {
  TrainingJob job = samples::observed(samples::torch_job());
  job.meta.uid = "0123456789";
  job.meta.generation = 7;
  job.status.placement = {.attempt = 2, .nodes = {{"node-a", 4}}};
  const std::string name = node_request_name(job, 2, 3);
  CHECK(name == "mesh-0123456-2-7-3");
  ChildOptions options{.provisioning_class = "some-class"};
  const auto pod_template = pod_template_of(job, name, 2, options);
  REQUIRE(pod_template);
  CHECK((*pod_template)["metadata"]["name"] == name);
  CHECK((*pod_template)["metadata"]["ownerReferences"][0]["uid"] == job.meta.uid);
  const json& pod = (*pod_template)["template"];
  CHECK(pod["metadata"]["labels"]["pawl.dev/job-uid"] == job.meta.uid);
  CHECK_FALSE(pod["metadata"].contains("ownerReferences"));
  CHECK(pod["spec"]["restartPolicy"] == "Never");
  CHECK_FALSE(pod["spec"].contains("affinity"));  // on whichever node comes
  const json request = provisioning_request_of(job, name, 4, options);
  const json pods = {{{"count", 4}, {"podTemplateRef", {{"name", name}}}}};
  CHECK(request["spec"] == json{{"provisioningClassName", "some-class"}, {"podSets", pods}});
  options.node_request = name;
  const auto worker = worker_pod_of(job, 2, 0, 0, options);
  REQUIRE(worker);
  const json& annotations = (*worker)["metadata"]["annotations"];
  CHECK(annotations["autoscaling.x-k8s.io/consume-provisioning-request"] == name);
  CHECK(annotations["autoscaling.x-k8s.io/provisioning-class-name"] == "some-class");
}

TEST_CASE("children: a pod that may be anywhere is near its own", "[api][I52]") {
  TrainingJob job = samples::observed(samples::torch_job());
  job.status.placement = {.attempt = 2, .nodes = {{kAnyNode, 4}}};
  const ChildOptions options{
      .levels = {{"block", "example.com/block"}, {"rack", "example.com/rack"}}};
  const auto near = [&] {
    const json pod = worker_pod_of(job, 2, 1, 0, options).value();
    CHECK_FALSE(pod["spec"]["affinity"].contains("nodeAffinity"));
    return pod["spec"]["affinity"].value("podAffinity", json::object());
  };
  const auto keys = [](const json& terms) {
    std::vector<std::string> found;
    for (const json& term : terms)
      found.push_back(term.contains("podAffinityTerm") ? term["podAffinityTerm"]["topologyKey"]
                                                       : term["topologyKey"]);
    return found;
  };
  constexpr char kMust[] = "requiredDuringSchedulingIgnoredDuringExecution";
  constexpr char kMay[] = "preferredDuringSchedulingIgnoredDuringExecution";
  CHECK(keys(near()[kMay]) == std::vector<std::string>{"example.com/block", "example.com/rack"});
  CHECK_FALSE(near().contains(kMust));
  job.spec.scheduling = Scheduling{.topology = {{"block", TopologyMode::kRequired}}};
  CHECK(keys(near()[kMust]) == std::vector<std::string>{"example.com/block"});
  CHECK(keys(near()[kMay]) == std::vector<std::string>{"example.com/rack"});
  job.spec.scheduling = Scheduling{.topology = {{"host", TopologyMode::kRequired}}};
  CHECK(keys(near()[kMust]) == std::vector<std::string>{"kubernetes.io/hostname"});
  job.status.placement.nodes.front().name = "node-a";
  const json pinned = worker_pod_of(job, 2, 1, 0, options).value();
  CHECK_FALSE(pinned["spec"]["affinity"].contains("podAffinity"));
}

TEST_CASE("children: what is read of a request for nodes", "[api][I49]") {
  TrainingJob job = samples::observed(samples::torch_job());
  const std::string name = node_request_name(job, 2, 3);
  json object = provisioning_request_of(job, name, 4, {});
  object["metadata"]["creationTimestamp"] = "2027-01-15T08:00:00Z";
  const auto say = [&](const char* type, const char* message, const char* status = "True") {
    object["status"]["conditions"].push_back({{"type", type},
                                              {"status", status},
                                              {"reason", "Said"},
                                              {"message", message},
                                              {"lastTransitionTime", "2027-01-15T09:00:00Z"}});
    return decode_node_request(object).value();
  };
  NodeRequest read = decode_node_request(object).value();
  CHECK(read.job_uid == job.meta.uid);
  CHECK(read.attempt == 2);
  CHECK(read.generation == job.meta.generation);
  CHECK(read.number == 3);
  CHECK(read.stage == ProvisioningStage::kAsked);
  CHECK(read.since == *parse_time("2027-01-15T08:00:00Z"));
  read = say("Provisioned", "not yet", "False");
  CHECK(read.stage == ProvisioningStage::kAsked);
  CHECK(read.message == "not yet");
  CHECK(say("Accepted", "").stage == ProvisioningStage::kAccepted);
  object["status"]["conditions"][0]["status"] = "True";
  CHECK(decode_node_request(object).value().stage == ProvisioningStage::kProvisioned);
  CHECK(decode_node_request(object).value().message.empty());
  read = say("BookingExpired", "after 10 minutes");
  CHECK(read.stage == ProvisioningStage::kOver);
  CHECK(read.message == "the nodes came, and are kept for it no longer: after 10 minutes");
  CHECK(read.since == *parse_time("2027-01-15T09:00:00Z"));
  CHECK(say("Failed", "").message == "Said");
  for (const char* other : {"mesh", "mesh-1-2", "mesh-job-1-2-x", "mesh-job-1-2-99999999"}) {
    object["metadata"]["name"] = other;
    CHECK_FALSE(decode_node_request(object));
  }
}

}  // namespace
}  // namespace pawl::api
