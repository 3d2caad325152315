#include "cli/convert/convert.h"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <filesystem>
#include <set>

#include "cli/json_yaml.h"
#include "cli/run/job_file.h"
#include "cli/yaml_json.h"
#include "common/api/codec.h"
#include "common/api/validate.h"

using namespace pawl;
using namespace pawl::cli;
using nlohmann::json;

namespace {

json parse(const std::string& yaml) { return parse_yaml_documents(yaml).value().front(); }

std::string text_of(const char* kind, const std::vector<Note>& notes) {
  std::string text;
  for (const Note& note : notes) {
    text += std::string(kind) + " " + note.field + "\n    " + note.why + "\n    -> " +
            note.instead + "\n";
  }
  return text;
}

// Whether a field is among the notes.
bool names(const std::vector<Note>& notes, const std::string& field) {
  return std::ranges::any_of(notes, [&](const Note& note) { return note.field == field; });
}

json pytorch_job() {
  return parse(R"(
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: a}
spec:
  pytorchReplicaSpecs:
    Worker:
      replicas: 2
      template: {spec: {containers: [{name: pytorch, image: x, command: [python3, a.py]}]}}
)");
}

}  // namespace

// Each manifest stands beside the job that becomes of it and the notes; both were read and agreed
// to by a person.
TEST_CASE("convert: manifests become the jobs that stand beside them", "[cli]") {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(PAWL_CONVERT_CASES)) {
    const std::string path = entry.path();
    if (!path.ends_with(".yaml") || path.ends_with(".job.yaml")) continue;
    ++count;
    const std::string stem = path.substr(0, path.size() - 5);
    INFO(stem);
    const auto conversion = convert_manifest(parse(read_text(path).value()));
    REQUIRE(conversion);
    CHECK(write_yaml(conversion->job) == read_text(stem + ".job.yaml").value());
    CHECK(text_of("left out:", conversion->left_out) + text_of("changed:", conversion->changed) ==
          read_text(stem + ".notes").value());
    CHECK(api::validate_training_job(conversion->job).empty());
    CHECK(api::decode_training_job(conversion->job).has_value());
  }
  CHECK(count == 6);
}

TEST_CASE("convert: no field is dropped in silence", "[cli]") {
  json manifest = pytorch_job();
  manifest["spec"]["someday"] = 1;
  manifest["spec"]["runPolicy"] = {{"someday", 1}, {"schedulingPolicy", {{"someday", 1}}}};
  manifest["spec"]["elasticPolicy"] = {{"someday", 1}};
  manifest["spec"]["pytorchReplicaSpecs"]["Worker"]["someday"] = 1;
  manifest["spec"]["pytorchReplicaSpecs"]["Chief"] = {{"replicas", 1}};
  manifest["metadata"]["someday"] = 1;
  manifest["someday"] = 1;
  const auto conversion = convert_manifest(manifest);
  REQUIRE(conversion);
  for (const char* field :
       {"someday", "metadata.someday", "spec.someday", "spec.runPolicy.someday",
        "spec.runPolicy.schedulingPolicy.someday", "spec.elasticPolicy.someday",
        "spec.pytorchReplicaSpecs.Worker.someday", "spec.pytorchReplicaSpecs.Chief"}) {
    INFO(field);
    CHECK(names(conversion->left_out, field));
  }
}

TEST_CASE("convert: what a newer TrainingJob has is carried, what this one lacks is named",
          "[cli]") {
  json manifest = pytorch_job();
  manifest["spec"]["runPolicy"] = {{"activeDeadlineSeconds", 60},
                                   {"cleanPodPolicy", "All"},
                                   {"managedBy", "kueue.x-k8s.io/multikueue"},
                                   {"schedulingPolicy", {{"scheduleTimeoutSeconds", 30}}}};
  const auto conversion = convert_manifest(manifest);
  REQUIRE(conversion);
  const std::vector<std::pair<std::string, json::json_pointer>> fields = {
      {"spec.runPolicy.activeDeadlineSeconds", json::json_pointer{"/spec/deadlines/activeSeconds"}},
      {"spec.runPolicy.cleanPodPolicy", json::json_pointer{"/spec/cleanPodPolicy"}},
      {"spec.runPolicy.managedBy", json::json_pointer{"/spec/managedBy"}},
      {"spec.runPolicy.schedulingPolicy.scheduleTimeoutSeconds",
       json::json_pointer{"/spec/deadlines/startSeconds"}}};
  for (const auto& [field, place] : fields) {
    INFO(field);
    CHECK(conversion->job.contains(place) != names(conversion->left_out, field));
  }
  manifest["spec"]["runPolicy"] = {{"managedBy", "kubeflow.org/training-operator"}};
  CHECK(convert_manifest(manifest)->left_out.empty());
}

TEST_CASE("convert: the processes that a script's torchrun starts are carried, or named", "[cli]") {
  const json::json_pointer command{
      "/spec/pytorchReplicaSpecs/Worker/template/spec/containers/0/command"};
  const json::json_pointer processes{"/spec/processesPerWorker"};
  const std::string field = "spec.pytorchReplicaSpecs.Worker.template.spec.containers[0].command";
  struct Case {
    std::string script;
    json operators, carried;  // nprocPerNode; null carried: the default, auto
    std::string why;          // of what was left out beside the script itself
  };
  const std::vector<Case> cases = {
      {"torchrun --nproc_per_node=4 train.py", nullptr, 4, ""},
      {"torchrun --nproc-per-node 4 train.py", "2", 4, ""},
      {"set -e\ntorchrun --nproc_per_node=gpu train.py\n", nullptr, "auto", ""},
      {"torchrun --nnodes=2 train.py", "2", 2, ""},
      {"torchrun --nnodes=2 train.py", nullptr, nullptr, ""},
      {"torchrun --nproc_per_node=${PET_NPROC_PER_NODE} train.py", "2", 2, ""},
      {"torchrun --nproc_per_node=$GPUS train.py", "2", 1,
       "the value of --nproc-per-node=$GPUS in the script is known only when it runs"},
      {"torchrun --nproc_per_node=2 a.py && torchrun --nproc_per_node=4 b.py", nullptr, 1,
       "how many processes the script's torchrun starts cannot be told for certain"},
      {"torchrun --nproc_per_node=2 a.py && torchrun --nproc_per_node=2 b.py", nullptr, 2, ""},
      {"torchrun --someday --nproc_per_node=2 a.py", nullptr, 1,
       "how many processes the script's torchrun starts cannot be told for certain"},
      {"RUN='torchrun --nproc_per_node=2'; $RUN a.py", nullptr, 1,
       "how many processes the script's torchrun starts cannot be told for certain"},
      {"torchrun --nproc_per_node=1000 train.py", nullptr, nullptr,
       "\"1000\" is not a number from 1 to 64, auto or gpu"},
  };
  for (const Case& each : cases) {
    INFO(each.script);
    json manifest = pytorch_job();
    manifest[command] = {"bash", "-c", each.script};
    if (!each.operators.is_null()) manifest["spec"]["nprocPerNode"] = each.operators;
    const auto conversion = convert_manifest(manifest);
    REQUIRE(conversion);
    CHECK(conversion->job.value(processes, json()) == each.carried);
    std::string why;
    bool names_script = false;
    for (const Note& note : conversion->left_out) {
      const bool is_script = note.why.starts_with("a script in it starts torchrun");
      names_script |= is_script;
      if (note.field == field && !is_script) why = note.why;
    }
    CHECK(names_script);
    CHECK(why == each.why);
  }
}

TEST_CASE("convert: exit codes become rules where a TrainingJob has rules", "[cli]") {
  json manifest = pytorch_job();
  manifest["spec"]["pytorchReplicaSpecs"]["Worker"]["restartPolicy"] = "ExitCode";
  const auto pytorch = convert_manifest(manifest);
  REQUIRE(pytorch);
  const json::json_pointer rules{"/spec/failurePolicy/rules"};
  const bool has_rules = pytorch->job.contains(rules);
  CHECK(names(pytorch->left_out, "spec.pytorchReplicaSpecs.Worker.restartPolicy") != has_rules);
  if (has_rules) CHECK(pytorch->job[rules][0]["onExitCodes"]["values"].size() == 127);

  const json job_set = parse(R"(
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {name: a}
spec:
  failurePolicy:
    maxRestarts: 1
    rules: [{name: stop, action: FailJobSet, onJobFailureReasons: [PodFailurePolicy]}]
  replicatedJobs:
  - name: w
    template:
      spec:
        podFailurePolicy:
          rules:
          - {action: FailJob, onExitCodes: {operator: In, values: [42, 43]}}
          - {action: Ignore, onExitCodes: {operator: NotIn, values: [0, 7]}}
          - {action: FailJob, onExitCodes: {containerName: other, operator: In, values: [1]}}
        template: {spec: {containers: [{name: main, image: x, command: [x]}]}}
)");
  const auto converted = convert_manifest(job_set);
  REQUIRE(converted);
  const std::string field = "spec.replicatedJobs[0].template.spec.podFailurePolicy.rules";
  CHECK(names(converted->left_out, field + "[2]"));
  CHECK(names(converted->changed, "spec.failurePolicy.rules[0]"));
  CHECK(converted->job.contains(rules) == has_rules);
  CHECK(names(converted->left_out, field + "[0]") != has_rules);
  if (!has_rules) return;
  CHECK(converted->job[rules] == parse_json(R"([
      {"name": "pod-failure-policy-0", "action": "Fail",
       "onExitCodes": {"operator": "In", "values": [42, 43]}},
      {"name": "pod-failure-policy-1", "action": "RestartFree",
       "onExitCodes": {"operator": "NotIn", "values": [7]}}])"));
}

TEST_CASE("convert: what cannot become a job is refused with every reason", "[cli]") {
  const auto message = [](const json& manifest) {
    const auto conversion = convert_manifest(manifest);
    return conversion ? std::string{} : conversion.error().message;
  };
  const auto has = [&](const json& manifest, const std::string& part) {
    INFO(message(manifest));
    return message(manifest).find(part) != std::string::npos;
  };
  const json::json_pointer container{"/spec/pytorchReplicaSpecs/Worker/template/spec/containers/0"};
  json manifest = pytorch_job();
  manifest[container].erase("command");
  manifest["spec"]["runPolicy"] = {{"backoffLimit", "three"}};
  CHECK(has(manifest, "PyTorchJob a cannot become a TrainingJob"));
  CHECK(has(manifest,
            "spec.pytorchReplicaSpecs.Worker.template.spec.containers[0].command: is not set"));
  CHECK(has(manifest, "spec.runPolicy.backoffLimit: must be a whole number"));

  manifest = pytorch_job();
  manifest["metadata"]["name"] = std::string(60, 'a');
  CHECK(has(manifest, "rename the job"));
  manifest = pytorch_job();
  manifest["spec"]["pytorchReplicaSpecs"]["Worker"]["replicas"] = 5000;
  CHECK(has(manifest, "makes 5000 workers"));
  manifest = pytorch_job();
  manifest["spec"]["pytorchReplicaSpecs"] = json::object();
  CHECK(has(manifest, "must have a Master or a Worker"));
  manifest = pytorch_job();
  manifest[container]["env"] = {{{"name", "PAWL_X"}, {"value", "1"}}};
  CHECK(has(manifest, "PAWL_"));
  manifest = pytorch_job();
  manifest["spec"]["pytorchReplicaSpecs"]["Worker"]["template"] = "no";
  CHECK(has(manifest, "must have a container"));

  CHECK(has({{"apiVersion", "kubeflow.org/v1"}, {"kind", "MPIJob"}},
            "cannot convert MPIJob of kubeflow.org/v1"));
  CHECK(has({{"apiVersion", "trainer.kubeflow.org/v1alpha1"},
             {"kind", "TrainJob"},
             {"metadata", {{"name", "a"}}},
             {"spec", {{"runtimeRef", {{"name", "torch-distributed"}}}}}},
            "spec.trainer.command: is not set, so it comes from the runtime"));
  CHECK(has({{"apiVersion", "jobset.x-k8s.io/v1alpha2"},
             {"kind", "JobSet"},
             {"metadata", {{"name", "a"}}}},
            "spec.replicatedJobs: must have a job"));
  CHECK_FALSE(is_convertible({{"apiVersion", "example.com/v1"}, {"kind", "JobSet"}}));
}

// Broken in any place, a manifest is refused or converted; it never ends the program.
TEST_CASE("convert: a value of the wrong kind anywhere is an answer, not a crash", "[cli]") {
  const std::vector<json> wrong = {json(), json(7), json("x"), json::array({1}), json({{"x", 1}})};
  for (const auto& entry : std::filesystem::directory_iterator(PAWL_CONVERT_CASES)) {
    const std::string path = entry.path();
    if (!path.ends_with(".yaml") || path.ends_with(".job.yaml")) continue;
    const json manifest = parse(read_text(path).value());
    std::set<std::string> places;
    const json leaves = manifest.flatten();
    for (const auto& [pointer, value] : leaves.items()) {
      for (json::json_pointer place{pointer}; !place.empty(); place.pop_back())
        places.insert(place.to_string());
    }
    std::size_t turn = 0;
    for (const std::string& place : places) {
      if (++turn % 4 != 0) continue;  // a fourth of them, each value in turn: it is not a fast test
      json broken = manifest;
      broken[json::json_pointer{place}] = wrong[turn / 4 % wrong.size()];
      if (!is_convertible(broken)) continue;
      const auto conversion = convert_manifest(broken);
      INFO(place);
      if (conversion) CHECK_FALSE(conversion->job["spec"]["template"].is_null());
    }
  }
}
