#include <algorithm>
#include <catch2/catch_test_macros.hpp>

#include "common/api/children.h"
#include "samples.h"

namespace pawl::api {
namespace {

using nlohmann::json;

const ChildOptions kInjecting{.launcher_image = "launcher:1", .native_worker_image = "worker:1"};

json pod_of(const json& job, const ChildOptions& options) {
  const Result<json> pod = worker_pod_of(samples::observed(job), 2, 1, 3, options);
  REQUIRE(pod.has_value());
  return *pod;
}

json named(const json& list, const std::string& name) {
  for (const json& item : list) {
    if (item["name"] == name) return item;
  }
  return nullptr;
}

json env_of(const json& pod, const char* name) {
  return named(pod["spec"]["containers"][0]["env"], name);
}

json& worker_in(json& job) { return job["spec"]["template"]["spec"]["containers"][0]; }

TEST_CASE("worker_pod: the launcher is injected in front of the user's command", "[api]") {
  const json pod = pod_of(samples::torch_job(), kInjecting);
  const json& worker = pod["spec"]["containers"][0];
  CHECK(
      worker["command"] ==
      parse_json(
          R"(["/pawl/lib/ld-linux-x86-64.so.2", "--library-path", "/pawl/lib", "/pawl/bin/pawl-launch",
                        "--", "python3", "train.py", "--steps", "10"])"));
  CHECK_FALSE(worker.contains("args"));
  CHECK(named(worker["volumeMounts"], "pawl-launcher")["readOnly"] == true);
  const json& init = pod["spec"]["initContainers"][0];
  CHECK(init["name"] == "pawl-inject");
  CHECK(init["image"] == "launcher:1");
  CHECK(init["command"] ==
        parse_json(R"(["/inject/lib/ld-linux-x86-64.so.2", "--library-path", "/inject/lib",
                        "/inject/bin/pawl-launch", "--install", "/pawl"])"));
  CHECK(named(init["volumeMounts"], "pawl-launcher")["mountPath"] == "/pawl");
}

TEST_CASE("worker_pod: the injector runs before the user's init containers", "[api]") {
  json job = samples::torch_job();
  job["spec"]["template"]["spec"]["initContainers"] =
      json::array({{{"name", "mine"}, {"image", "i"}}});
  const json pod = pod_of(job, kInjecting);
  CHECK(pod["spec"]["initContainers"][0]["name"] == "pawl-inject");
  CHECK(pod["spec"]["initContainers"][1]["name"] == "mine");
}

TEST_CASE("worker_pod: a ten-line Native job gets image, command and a restricted pod", "[api]") {
  const json pod = pod_of(samples::native_job(), kInjecting);
  const json& worker = pod["spec"]["containers"][0];
  CHECK(worker["image"] == "worker:1");
  CHECK(worker["command"] == parse_json(R"(["pawl-launch", "--", "pawl-train"])"));
  CHECK_FALSE(pod["spec"].contains("initContainers"));
  CHECK(pod["spec"]["securityContext"] ==
        parse_json(R"({"runAsNonRoot": true, "runAsUser": 1000, "fsGroup": 2000,
                        "seccompProfile": {"type": "RuntimeDefault"}})"));
  CHECK(worker["securityContext"]["allowPrivilegeEscalation"] == false);
  CHECK(worker["securityContext"]["capabilities"] == parse_json(R"({"drop": ["ALL"]})"));
}

TEST_CASE("worker_pod: a Native job's own template keeps what it says and gets the rest", "[api]") {
  json job = samples::native_job();
  job["spec"]["template"] =
      parse_json(R"({"spec": {"securityContext": {"runAsUser": 7, "fsGroup": null},
    "containers": [{"name": "worker", "volumeMounts": [{"name": "data", "mountPath": "/data"}]}],
    "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "pawl-data"}}]}})");
  const json pod = pod_of(job, kInjecting);
  CHECK(pod["spec"]["securityContext"]["runAsUser"] == 7);
  CHECK(pod["spec"]["securityContext"]["fsGroup"] == 2000);
  CHECK(pod["spec"]["containers"][0]["image"] == "worker:1");
  CHECK(named(pod["spec"]["containers"][0]["volumeMounts"], "data")["mountPath"] == "/data");
  CHECK(named(pod["spec"]["volumes"], "data")["persistentVolumeClaim"]["claimName"] == "pawl-data");
}

TEST_CASE("worker_pod: a Native job with the user's own image is injected", "[api]") {
  json job = samples::native_job();
  job["spec"]["template"] = parse_json(
      R"({"spec": {"containers": [{"name": "worker", "image": "mine", "args": ["-v"]}]}})");
  const json command = pod_of(job, kInjecting)["spec"]["containers"][0]["command"];
  CHECK(command[0] == "/pawl/lib/ld-linux-x86-64.so.2");
  CHECK(command[5] == "pawl-train");
  CHECK(command[6] == "-v");
}

TEST_CASE("worker_pod: identity, owner-independent fields and the annotations against autoscalers",
          "[api]") {
  json job = samples::torch_job();
  job["spec"]["template"]["metadata"] = {
      {"labels", {{"team", "x"}, {"pawl.dev/slot", "99"}}},
      {"annotations", {{"karpenter.sh/do-not-disrupt", "false"}}}};
  const json pod = pod_of(job, kInjecting);
  const json& meta = pod["metadata"];
  CHECK(meta["name"] == "mesh-2-1-3");
  CHECK(meta["namespace"] == "team");
  CHECK(meta["labels"]["team"] == "x");
  CHECK(meta["labels"]["pawl.dev/attempt"] == "2");
  CHECK(meta["labels"]["pawl.dev/slot"] == "1");
  CHECK(meta["labels"]["pawl.dev/incarnation"] == "3");
  CHECK(meta["annotations"]["cluster-autoscaler.kubernetes.io/safe-to-evict"] == "false");
  CHECK(meta["annotations"]["karpenter.sh/do-not-disrupt"] == "false");  // the user's word
  CHECK(pod["spec"]["restartPolicy"] == "Never");
  CHECK(pod["spec"]["serviceAccountName"] == "mesh-pawl-worker");
  CHECK(pod["spec"]["automountServiceAccountToken"] == false);
  CHECK(pod["spec"]["terminationGracePeriodSeconds"] == 30);
}

TEST_CASE("worker_pod: the template's account, grace and probes are kept", "[api][B23]") {
  json job = samples::torch_job();
  json& spec = job["spec"]["template"]["spec"];
  spec["serviceAccountName"] = "mine";
  spec["terminationGracePeriodSeconds"] = 600;
  worker_in(job)["readinessProbe"] = {{"exec", {{"command", {"true"}}}}};
  const json pod = pod_of(job, kInjecting);
  CHECK(pod["spec"]["serviceAccountName"] == "mine");
  CHECK(pod["spec"]["terminationGracePeriodSeconds"] == 600);
  const json& worker = pod["spec"]["containers"][0];
  CHECK_FALSE(worker["readinessProbe"].contains("httpGet"));
  CHECK(worker["livenessProbe"]["httpGet"] == parse_json(R"({"path": "/healthz", "port": 8471})"));
}

TEST_CASE("worker_pod: the contract's environment comes before the user's", "[api]") {
  json job = samples::torch_job();
  job["spec"]["checkpoint"] = {{"uri", "file:///data/$(c)"}, {"everySeconds", 30}, {"keep", 2}};
  worker_in(job)["env"] = json::array({{{"name", "MINE"}, {"value", "$(PAWL_SLOT)"}}});
  worker_in(job)["terminationMessagePath"] = "/tmp/last";
  const json pod = pod_of(job, kInjecting);
  const auto value = [&](const char* name) { return env_of(pod, name)["value"]; };
  const auto field = [&](const char* name) {
    return env_of(pod, name)["valueFrom"]["fieldRef"]["fieldPath"];
  };
  const json expected = {
      {"contract", 2},
      {"job", "mesh"},
      {"jobUid", "job-uid"},
      {"namespace", "team"},
      {"pod", "mesh-2-1-3"},
      {"attempt", 2},
      {"slot", 1},
      {"processes", 1},
      {"runtime", "Torch"},
      // The kubelet makes one dollar of two, and resolves nothing behind it.
      {"checkpoint", {{"uri", "file:///data/$$(c)"}, {"seconds", 30}, {"keep", 2}}}};
  CHECK(parse_json(value("PAWL_WORKER").get<std::string>()) == expected);
  CHECK(value("PAWL_SLOT") == "1");
  CHECK(env_of(pod, "PAWL_JOB_NAME").is_null());
  CHECK(value("PAWL_TERMINATION_LOG") == "/tmp/last");
  CHECK(field("PAWL_POD_UID") == "metadata.uid");
  CHECK(field("PAWL_POD_IP") == "status.podIP");
  CHECK(field("PAWL_NODE_NAME") == "spec.nodeName");
  CHECK(pod["spec"]["containers"][0]["env"].back()["name"] == "MINE");
}

TEST_CASE("worker_pod: slot, attempt and job are variables where the template uses them", "[api]") {
  json job = samples::torch_job();
  CHECK(env_of(pod_of(job, kInjecting), "PAWL_SLOT").is_null());
  worker_in(job)["args"] = {"--host", "$(PAWL_JOB_NAME)-$(PAWL_SLOT)",
                            "$(PAWL_ATTEMPT)$(PAWL_JOB_UID)"};
  const json pod = pod_of(job, kInjecting);
  CHECK(env_of(pod, "PAWL_SLOT")["value"] == "1");
  CHECK(env_of(pod, "PAWL_JOB_NAME")["value"] == "mesh");
  CHECK(env_of(pod, "PAWL_ATTEMPT")["value"] == "2");
  CHECK(env_of(pod, "PAWL_JOB_UID")["value"] == "job-uid");
}

TEST_CASE("worker_pod: the trainer's configuration travels as JSON", "[api]") {
  json job = samples::native_job();
  job["spec"]["runtime"]["config"] = {{"steps", 10}, {"model", {{"layers", 2}}}};
  const json text = env_of(pod_of(job, kInjecting), "PAWL_TRAINER_CONFIG")["value"];
  CHECK(parse_json(text.get<std::string>()) == job["spec"]["runtime"]["config"]);
}

TEST_CASE("worker_pod: one volume holds a token for the API server and one for the leader",
          "[api]") {
  const json pod = pod_of(samples::torch_job(), kInjecting);
  const json volume = named(pod["spec"]["volumes"], "pawl-token")["projected"];
  const json& sources = volume["sources"];
  CHECK(sources[0]["serviceAccountToken"]["path"] == "token");
  CHECK_FALSE(sources[0]["serviceAccountToken"].contains("audience"));
  CHECK(sources[1]["serviceAccountToken"]["path"] == "peer-token");
  CHECK(sources[1]["serviceAccountToken"]["audience"] == "pawl-launcher");
  CHECK(sources[2]["configMap"]["name"] == "kube-root-ca.crt");
  CHECK(named(pod["spec"]["containers"][0]["volumeMounts"], "pawl-token")["mountPath"] ==
        "/var/run/pawl/token");
}

TEST_CASE("worker_pod: our images are pulled as the installation says, the user's as the user does",
          "[api]") {
  ChildOptions options = kInjecting;
  options.pull_policy = "Never";
  const json torch = pod_of(samples::torch_job(), options)["spec"];
  CHECK(torch["initContainers"][0]["imagePullPolicy"] == "Never");
  CHECK_FALSE(torch["containers"][0].contains("imagePullPolicy"));
  const json native = pod_of(samples::native_job(), options)["spec"]["containers"][0];
  CHECK(native["imagePullPolicy"] == "Never");
  CHECK_FALSE(pod_of(samples::native_job(), kInjecting)["spec"]["containers"][0].contains(
      "imagePullPolicy"));
}

TEST_CASE("worker_pod: only the worker container is changed", "[api]") {
  json job = samples::torch_job();
  const json sidecar = {{"name", "sidecar"}, {"image", "s"}, {"command", {"s"}}};
  json& containers = job["spec"]["template"]["spec"]["containers"];
  containers.insert(containers.begin(), sidecar);
  const json pod = pod_of(job, kInjecting);
  CHECK(pod["spec"]["containers"][0] == sidecar);
  CHECK(pod["spec"]["containers"][1]["command"][4] == "--");
}

TEST_CASE("worker_pod: a local pod starts the launcher by path and mounts nothing of ours",
          "[api]") {
  const ChildOptions local{.launcher_image = "launcher:1",
                           .is_local = true,
                           .launcher_path = "/b/pawl-launch",
                           .trainer_path = "/b/pawl-train"};
  const json native = pod_of(samples::native_job(), local)["spec"]["containers"][0];
  CHECK(native["command"] == parse_json(R"(["/b/pawl-launch", "--", "/b/pawl-train"])"));
  const json torch = pod_of(samples::torch_job(), local);
  CHECK(torch["spec"]["containers"][0]["command"][2] == "python3");
  for (const char* volume : {"pawl-token", "pawl-launcher"}) {
    CHECK(named(torch["spec"].value("volumes", json::array()), volume).is_null());
  }
  CHECK_FALSE(torch["spec"].contains("initContainers"));
  CHECK(env_of(torch, "PAWL_TOKEN_FILE").is_null());
}

TEST_CASE("worker_pod: the same job, attempt and slot give the same bytes", "[api]") {
  CHECK(pod_of(samples::torch_job(), kInjecting).dump() ==
        pod_of(samples::torch_job(), kInjecting).dump());
}

TEST_CASE("worker_pod: what cannot become a pod is Invalid with the field", "[api]") {
  json no_template = samples::torch_job();
  no_template["spec"].erase("template");
  json no_container = samples::torch_job();
  no_container["spec"]["template"]["spec"]["containers"] = json::array();
  json no_command = samples::torch_job();
  worker_in(no_command).erase("command");
  for (const json& job : {no_template, no_container, no_command}) {
    const Result<json> pod = worker_pod_of(samples::observed(job), 1, 0, 0, kInjecting);
    REQUIRE_FALSE(pod.has_value());
    CHECK(pod.error().code == Code::kInvalid);
    CHECK(pod.error().message.starts_with("spec.template"));
  }
}

}  // namespace
}  // namespace pawl::api
