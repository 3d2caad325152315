#include <catch2/catch_test_macros.hpp>

#include "common/api/codec.h"
#include "common/api/validate.h"
#include "samples.h"

namespace pawl::api {
namespace {

using nlohmann::json;

struct Row {
  const char* pointer;
  json value;
  const char* field;  // where the error must stand
};

// The base with one member replaced must be refused with exactly one error, at the field.
void check_refused(const json& base, const std::vector<Row>& rows) {
  for (const Row& row : rows) {
    json object = base;
    object[json::json_pointer(row.pointer)] = row.value;
    const std::vector<FieldError> errors = validate_training_job(object);
    INFO(row.pointer << " = " << row.value.dump() << ": " << join_errors(errors));
    REQUIRE(errors.size() == 1);
    CHECK(errors[0].field == row.field);
    CHECK_FALSE(errors[0].message.empty());
  }
}

json checkpoint(const json& extra) {
  json object = {{"uri", "file:///c"}};
  object.update(extra);
  return object;
}

TEST_CASE("validate: the least that a user can write is accepted", "[api]") {
  CHECK(join_errors(validate_training_job(samples::native_job())) == "");
  CHECK(join_errors(validate_training_job(samples::torch_job())) == "");
}

TEST_CASE("validate: types and ranges of our own fields",
          "[api][A37][A38][B10][B11][B12][B13][B14][C1][F3]") {
  check_refused(
      samples::torch_job(),
      {{"/spec/replicas", 0, "spec.replicas"},
       {"/spec/replicas", 2049, "spec.replicas"},
       {"/spec/replicas", "2", "spec.replicas"},
       {"/spec/replicas", 1.5, "spec.replicas"},
       {"/spec/suspend", "yes", "spec.suspend"},
       {"/spec/processesPerWorker", 0, "spec.processesPerWorker"},
       {"/spec/processesPerWorker", 65, "spec.processesPerWorker"},
       {"/spec/processesPerWorker", "8", "spec.processesPerWorker"},
       {"/spec/processesPerWorker", true, "spec.processesPerWorker"},
       {"/spec/failurePolicy", {{"maxRestarts", -1}}, "spec.failurePolicy.maxRestarts"},
       {"/spec/failurePolicy", {{"maxRestarts", 1001}}, "spec.failurePolicy.maxRestarts"},
       {"/spec/checkpoint", json::object(), "spec.checkpoint.uri"},
       {"/spec/checkpoint", checkpoint({{"uri", "/data"}}), "spec.checkpoint.uri"},
       {"/spec/checkpoint", checkpoint({{"uri", "file://host/x"}}), "spec.checkpoint.uri"},
       {"/spec/checkpoint", checkpoint({{"keep", 0}}), "spec.checkpoint.keep"},
       {"/spec/checkpoint", checkpoint({{"everySeconds", 0}}), "spec.checkpoint.everySeconds"},
       {"/spec/checkpoint", checkpoint({{"everySeconds", "1m"}}), "spec.checkpoint.everySeconds"},
       {"/spec/runtime", {{"kind", "torch"}}, "spec.runtime.kind"},
       {"/spec/runtime", {{"parameterServers", -1}}, "spec.runtime.parameterServers"},
       {"/spec/runtime", {{"parameterServers", 2048}}, "spec.runtime.parameterServers"},
       {"/spec/ttlSecondsAfterFinished", -1, "spec.ttlSecondsAfterFinished"}});
}

TEST_CASE("validate: parameter servers are TensorFlow's, and not all of the workers", "[api]") {
  const auto said = [](const char* kind, int replicas, int servers) {
    json job = samples::torch_job();
    job["spec"]["runtime"] = {{"kind", kind}, {"parameterServers", servers}};
    job["spec"]["replicas"] = replicas;
    return join_errors(validate_training_job(job));
  };
  CHECK(said("TensorFlow", 4, 3) == "");
  CHECK(said("Torch", 4, 0) == "");
  for (const std::string& text : {said("TensorFlow", 4, 4), said("Torch", 4, 1)}) {
    INFO(text);
    CHECK(text.starts_with(
        "spec.runtime.parameterServers: spec.runtime.parameterServers needs spec.runtime.kind "
        "TensorFlow, and must be below spec.replicas"));
  }
}

TEST_CASE("validate: unknown fields are found at every depth", "[api]") {
  check_refused(
      samples::torch_job(),
      {{"/spek", json::object(), "spek"},
       {"/metadata/nmae", "x", "metadata.nmae"},
       {"/spec/replica", 2, "spec.replica"},
       {"/spec/failurePolicy", {{"maxRestart", 2}}, "spec.failurePolicy.maxRestart"},
       {"/spec/template/spec/container", 1, "spec.template.spec.container"},
       {"/spec/template/spec/containers/0/comand", 1, "spec.template.spec.containers[0].comand"},
       {"/spec/template/spec/containers/0/resources",
        {{"limit", json::object()}},
        "spec.template.spec.containers[0].resources.limit"},
       {"/spec/template/metadata", {{"name", "x"}}, "spec.template.metadata.name"}});
}

TEST_CASE("validate: the pod template is typed", "[api]") {
  check_refused(
      samples::torch_job(),
      {{"/spec/template/spec/containers/0/command", "python3 train.py",
        "spec.template.spec.containers[0].command"},
       {"/spec/template/spec/containers/0/env",
        {{"A", "b"}},
        "spec.template.spec.containers[0].env"},
       {"/spec/template/spec/containers/0/resources",
        {{"limits", {{"cpu", "two"}}}},
        "spec.template.spec.containers[0].resources.limits.cpu"},
       {"/spec/template/spec/nodeSelector", {{"zone", 1}}, "spec.template.spec.nodeSelector.zone"},
       {"/spec/template/spec/volumes",
        {{{"emptyDir", json::object()}}},
        "spec.template.spec.volumes[0].name"},
       {"/spec/template/spec/containers", json::array(), "spec.template.spec.containers"},
       {"/spec/template/spec", json::object(), "spec.template.spec.containers"}});
}

TEST_CASE("validate: a list that is a map has each key once", "[api]") {
  const json twice =
      json::array({{{"name", "A"}, {"value", "1"}}, {{"name", "A"}, {"value", "2"}}});
  const json ports =
      json::array({{{"containerPort", 80}}, {{"containerPort", 80}, {"protocol", "TCP"}}});
  check_refused(samples::torch_job(), {{"/spec/template/spec/containers/0/env", twice,
                                        "spec.template.spec.containers[0].env[1]"},
                                       {"/spec/template/spec/containers/0/ports", ports,
                                        "spec.template.spec.containers[0].ports[1]"}});
}

TEST_CASE("validate: rules between fields", "[api][B8]") {
  const json named = {{"name", "A"}};
  check_refused(
      samples::torch_job(),
      {{"/metadata/name", std::string(47, 'a'), "metadata.name"},
       {"/metadata/name", "1a", "metadata.name"},
       {"/metadata/name", "a.b", "metadata.name"},
       {"/metadata/name", "a-", "metadata.name"},
       {"/metadata/name", "", "metadata.name"},
       {"/spec/template/spec/containers/0/command", json::array(), "spec.template.spec.containers"},
       {"/spec/template/spec/containers/0/image", "", "spec.template.spec.containers"},
       {"/spec/template/spec/containers/0/env",
        {{{"name", "PAWL_SLOT"}, {"value", "1"}}},
        "spec.template.spec.containers[0].env[0].name"},
       {"/spec/template/spec/containers/0/name", "pawl-x", "spec.template.spec.containers[0].name"},
       {"/spec/template/spec/volumes",
        {{{"name", "pawl-token"}}},
        "spec.template.spec.volumes[0].name"},
       {"/spec/template/spec/restartPolicy", "Always", "spec.template.spec.restartPolicy"},
       {"/spec/runtime/config", {{"a", 1}}, "spec.runtime"},
       {"/apiVersion", "pawl.dev/v1", "apiVersion"},
       {"/kind", "Job", "kind"}});
}

TEST_CASE("validate: a template is required unless the runtime is Native", "[api]") {
  json job = samples::torch_job();
  job["spec"].erase("template");
  const std::vector<FieldError> errors = validate_training_job(job);
  REQUIRE(errors.size() == 1);
  CHECK(errors[0].field == "spec.template");
}

TEST_CASE("validate: the command is that of the container named worker, wherever it stands",
          "[api]") {
  json job = samples::torch_job();
  json& containers = job["spec"]["template"]["spec"]["containers"];
  containers.insert(containers.begin(), json{{"name", "sidecar"}, {"image", "s"}});
  CHECK(join_errors(validate_training_job(job)) == "");
  containers[1]["name"] = "main";  // now the first container is the worker, and has no command
  CHECK(validate_training_job(job).size() == 1);
}

TEST_CASE("validate: a generated name must have room for its suffix", "[api][A25]") {
  json job = samples::torch_job();
  job["metadata"] = {{"generateName", std::string(41, 'a')}};
  CHECK(join_errors(validate_training_job(job)) == "");
  job["metadata"] = {{"generateName", std::string(42, 'a')}};
  CHECK(validate_training_job(job).size() == 1);
}

TEST_CASE("validate: labels and annotations are texts", "[api]") {
  json job = samples::torch_job();
  job["metadata"]["labels"] = {{"team", 1}};
  CHECK(join_errors(validate_training_job(job)) ==
        "metadata.labels.team: must be a string; you wrote an integer: put it in quotes");
  job["metadata"].erase("labels");
  job["metadata"]["annotations"] = json::array({1});
  CHECK(validate_training_job(job).size() == 1);
}

TEST_CASE("validate: what is no object is refused, not a crash", "[api]") {
  for (const json& object : {json(), json(1), json::array(), json::object(), json{{"spec", 1}},
                             json{{"metadata", 1}, {"spec", json::object()}}}) {
    CHECK_FALSE(validate_training_job(object).empty());
    CHECK_FALSE(validate_worker_group(object).empty());
  }
}

TEST_CASE("validate: errors read as sentences with the field in front", "[api]") {
  json job = samples::torch_job();
  job["spec"]["replicas"] = 0;
  CHECK(join_errors(validate_training_job(job)) ==
        "spec.replicas: must be between 1 and 2048; you wrote 0");
  CHECK(join_errors({{"a", "b"}, {"", "c"}}) == "a: b; c");
}

json rules(const json& rule) { return {{"rules", json::array({rule})}}; }

TEST_CASE("validate: a failure rule has a name of its own, an action, and says what it is for",
          "[api][A39][F5]") {
  const json codes = {{"values", {1, 255}}};
  const json right = {{"name", "r"}, {"action", "Fail"}, {"onExitCodes", codes}};
  json job = samples::torch_job();
  job["spec"]["failurePolicy"] = rules(right);
  CHECK(join_errors(validate_training_job(job)) == "");
  const json no_matcher = {{"name", "r"}, {"action", "Fail"}};
  const json zero = {{"name", "r"}, {"action", "Fail"}, {"onExitCodes", {{"values", {0}}}}};
  const json none = {
      {"name", "r"}, {"action", "Fail"}, {"onExitCodes", {{"values", json::array()}}}};
  const json shrink = {{"name", "r"}, {"action", "Shrink"}, {"onCauses", {"OOM"}}};
  const json cause = {{"name", "r"}, {"action", "Fail"}, {"onCauses", {"Luck"}}};
  const std::string first = "spec.failurePolicy.rules[0]";
  const std::string no_cause = first + ".onCauses[0]", no_action = first + ".action";
  const std::string code = first + ".onExitCodes.values[0]",
                    no_code = first + ".onExitCodes.values";
  check_refused(
      samples::torch_job(),
      {{"/spec/failurePolicy", rules(no_matcher), first.c_str()},
       {"/spec/failurePolicy", rules(zero), code.c_str()},
       {"/spec/failurePolicy", rules(none), no_code.c_str()},
       {"/spec/failurePolicy", rules(shrink), no_action.c_str()},
       {"/spec/failurePolicy", rules(cause), no_cause.c_str()},
       {"/spec/failurePolicy", {{"strategy", "None"}}, "spec.failurePolicy.strategy"},
       {"/spec/failurePolicy", {{"rules", {right, right}}}, "spec.failurePolicy.rules[1]"}});
}

TEST_CASE("validate: how small and how large an elastic gang may be", "[api]") {
  json job = samples::native_job();
  job["spec"]["replicas"] = 4;
  job["spec"]["elastic"] = {{"minReplicas", 2}, {"maxReplicas", 6}, {"stabilizationSeconds", 0}};
  CHECK(validate_training_job(job).empty());
  check_refused(job,
                {{"/spec/elastic/minReplicas", 5, "spec.elastic.minReplicas"},
                 {"/spec/elastic/minReplicas", 0, "spec.elastic.minReplicas"},
                 {"/spec/elastic/maxReplicas", 3, "spec.elastic.maxReplicas"},
                 {"/spec/elastic/stabilizationSeconds", -1, "spec.elastic.stabilizationSeconds"},
                 {"/spec/replicas", 1, "spec.elastic.minReplicas"},
                 {"/spec/replicas", 7, "spec.elastic.maxReplicas"},
                 {"/spec/failurePolicy", {{"strategy", "RecreateAll"}}, "spec.elastic"}});
  check_refused(samples::torch_job(), {{"/spec/elastic", json::object(), "spec.elastic"}});
}

TEST_CASE("validate: which workers may be on spot", "[api][I41]") {
  json job = samples::native_job();
  job["spec"]["replicas"] = 4;
  job["spec"]["capacity"] = {{"spot", "Prefer"}, {"onDemandMin", 4}};
  CHECK(validate_training_job(job).empty());
  check_refused(job, {{"/spec/capacity/onDemandMin", 5, "spec.capacity.onDemandMin"},
                      {"/spec/capacity/onDemandMin", -1, "spec.capacity.onDemandMin"},
                      {"/spec/replicas", 3, "spec.capacity.onDemandMin"},
                      {"/spec/capacity/spot", "Never", "spec.capacity.onDemandMin"},
                      {"/spec/capacity/spot", "Always", "spec.capacity.spot"},
                      {"/spec/capacity", json::object(), "spec.capacity.spot"}});
}

TEST_CASE("validate: which programs can stay when their gang changes", "[api]") {
  json job = samples::torch_job();
  job["spec"]["runtime"]["inPlace"] = true;
  CHECK(validate_training_job(job).empty());
  CHECK(decode_training_job(job)->spec.is_in_place);
  CHECK(encode_training_job(*decode_training_job(job))["spec"]["runtime"]["inPlace"] == true);
  job["spec"]["elastic"] = json::object();
  CHECK(validate_training_job(job).empty());
  check_refused(job, {{"/spec/runtime/kind", "MPI", "spec.runtime.inPlace"},
                      {"/spec/runtime/kind", "Native", "spec.runtime.inPlace"},
                      {"/spec/runtime",
                       {{"kind", "TensorFlow"}, {"inPlace", true}, {"parameterServers", 1}},
                       "spec.runtime.inPlace"},
                      {"/spec/runtime/inPlace", false, "spec.elastic"},
                      {"/spec/runtime/inPlace", "yes", "spec.runtime.inPlace"}});
}

TEST_CASE("validate: deadlines, policies and managedBy", "[api][B14][B10][B11][B12][B13]") {
  check_refused(samples::torch_job(),
                {{"/spec/deadlines", {{"activeSeconds", 0}}, "spec.deadlines.activeSeconds"},
                 {"/spec/deadlines", {{"progressSeconds", 29}}, "spec.deadlines.progressSeconds"},
                 {"/spec/successPolicy", "Any", "spec.successPolicy"},
                 {"/spec/cleanPodPolicy", "Some", "spec.cleanPodPolicy"},
                 {"/spec/hostnames", "yes", "spec.hostnames"},
                 {"/spec/managedBy", "kueue", "spec.managedBy"},
                 {"/spec/managedBy", "", "spec.managedBy"}});
}

}  // namespace
}  // namespace pawl::api
