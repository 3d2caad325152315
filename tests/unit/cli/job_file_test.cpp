#include "cli/run/job_file.h"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <filesystem>

#include "cli/run/options.h"
#include "common/base/json.h"
#include "common/os/process.h"
#include "trainer-runtime/include/pawl/config.h"

using namespace pawl;
using namespace pawl::cli;
using nlohmann::json;

TEST_CASE("job_file: --set reaches and creates fields", "[cli]") {
  json job = parse_json(R"({"spec": {"replicas": 2}})");
  CHECK(apply_setting(job, "spec.replicas=4").has_value());
  CHECK(apply_setting(job, "spec.runtime.config.steps=20").has_value());
  CHECK(apply_setting(job, "spec.checkpoint={uri: \"file:///x=y\"}").has_value());
  CHECK(job == parse_json(R"({"spec": {"replicas": 4, "runtime": {"config": {"steps": 20}},
                                        "checkpoint": {"uri": "file:///x=y"}}})"));
  CHECK_FALSE(apply_setting(job, "spec.replicas").has_value());
  CHECK_FALSE(apply_setting(job, "metadata.name=x").has_value());
  CHECK_FALSE(apply_setting(job, "spec.replicas.x=1").has_value());
}

TEST_CASE("job_file: a checkpoint goes where it can be written, and the user is told", "[cli]") {
  const std::string folder = std::filesystem::temp_directory_path();
  struct Case {
    std::string checkpoint, kind, uri;
  };
  const std::string local = "file:///run/checkpoints";
  const std::string here = "file://" + folder + "/a/b";
  const std::vector<Case> cases = {
      {R"({"uri": "file:///no-such-root-folder/x"})", "Custom", local},
      {R"({"uri": "checkpoints"})", "Custom", local},
      {R"({"uri": ")" + here + R"("})", "Custom", here},
      {R"({"uri": "s3://bucket/x"})", "Custom", "s3://bucket/x"},
      {"null", "Native", local},
      {"null", "Custom", ""},
  };
  for (const Case& one : cases) {
    INFO(one.checkpoint << " " << one.kind);
    json job = {{"spec", {{"runtime", {{"kind", one.kind}}}}}};
    if (one.checkpoint != "null") job["spec"]["checkpoint"] = parse_json(one.checkpoint);
    std::vector<std::string> notices;
    REQUIRE(fit_to_machine(job, "/run", {}, notices).has_value());
    const json spec = job["spec"];
    CHECK((spec.contains("checkpoint") ? spec["checkpoint"]["uri"].get<std::string>() : "") ==
          one.uri);
    CHECK(notices.size() == (one.uri == local ? 1 : 0));
  }
}

TEST_CASE("job_file: texts must be there", "[cli]") {
  json job = parse_json(
      R"({"spec": {"runtime": {"kind": "Custom", "config": {"data": {"paths": ["/no/such/text"]}}}}})");
  std::vector<std::string> notices;
  CHECK_FALSE(fit_to_machine(job, "/run", {}, notices).has_value());
  const std::string folder = std::filesystem::temp_directory_path();
  REQUIRE(fit_to_machine(job, "/run", {folder}, notices).has_value());
  CHECK(job["spec"]["runtime"]["config"]["data"]["paths"] == json::array({folder}));
  json empty = json::object();
  CHECK_FALSE(fit_to_machine(empty, "/run", {folder}, notices).has_value());
}

namespace {

json valid_job() {
  return parse_json(R"({
    "apiVersion": "pawl.dev/v1alpha1", "kind": "TrainingJob", "metadata": {"name": "a"},
    "spec": {"template": {"spec": {"containers": [
        {"name": "worker", "image": "x", "command": ["x"], "resources": {"limits": {"cpu": 1}}}]}}}})");
}

// What `pawl validate` says with one value replaced.
std::vector<std::string> problems_with(json job, const std::string& pointer, const json& value) {
  job[json::json_pointer{pointer}] = value;
  return problems_of(job);
}

}  // namespace

TEST_CASE("job_file: a problem is one sentence that says what to change", "[cli]") {
  const std::string memory = "/spec/template/spec/containers/0/resources/limits/memory";
  const std::string limit =
      "spec.template.spec.containers[0].resources.limits.memory: must be a "
      "quantity like 500m, 4 or 16Gi; you wrote ";
  const std::string uri =
      "spec.checkpoint.uri: must be file:///ABSOLUTE/PATH, a folder on a volume "
      "that all workers share; you wrote ";
  struct Case {
    std::string pointer;
    json value;
    std::string problem;
  };
  const std::vector<Case> cases = {
      {memory, "4GB", limit + "\"4GB\": write 4G (units of 1000) or 4Gi (of 1024)"},
      {memory, "4g", limit + "\"4g\": write 4G (units of 1000) or 4Gi (of 1024)"},
      {memory, "1.5kb", limit + "\"1.5kb\": write 1.5k (units of 1000) or 1.5Ki (of 1024)"},
      {memory, "4GiB", limit + "\"4GiB\": write 4Gi"},
      {memory, "4 Gi", limit + "\"4 Gi\": write 4Gi"},
      {memory, "500 m", limit + "\"500 m\": write 500m"},
      {memory, "GB", limit + "\"GB\""},
      {memory, "much", limit + "\"much\""},
      {"/spec/checkpoint/uri", "s3://", uri + "\"s3://\": s3:// is not supported by this version"},
      {"/spec/checkpoint/uri", "/data/c", uri + "\"/data/c\": write file:///data/c"},
      {"/spec/checkpoint/uri", "data", uri + "\"data\""},
      {"/spec/managedBy", "me", "spec.managedBy: must be domain/name; you wrote \"me\""},
      {"/spec/replcias", 2, "spec.replcias: unknown field; did you mean replicas?"},
      {"/spec/learning_rate", 2,
       "spec.learning_rate: unknown field: remove it or correct its spelling"},
      {"/spec/failurePolicy/max_restarts", 2,
       "spec.failurePolicy.max_restarts: unknown field; did you mean maxRestarts?"},
      {"/spec/template/spec/containers/0/comand", json::array({"x"}),
       "spec.template.spec.containers[0].comand: unknown field; did you mean command?"},
      {"/spek", json::object(), "spek: unknown field; did you mean spec?"},
      {"/metadata/lables", json::object(), "metadata.lables: unknown field; did you mean labels?"},
  };
  REQUIRE(problems_of(valid_job()).empty());
  for (const Case& one : cases) {
    const auto problems = problems_with(valid_job(), one.pointer, one.value);
    INFO(one.problem);
    REQUIRE(problems.size() == 1);
    CHECK(problems.front() == one.problem);
  }
}

TEST_CASE("job_file: the configuration of a Native job is read as the trainer reads it", "[cli]") {
  json job = valid_job();
  job["spec"] =
      parse_json(R"({"runtime": {"kind": "Native", "config": {"data": {"paths": ["/t"]}}}})");
  REQUIRE(problems_of(job).empty());
  const auto problem = [&](const std::string& pointer, const json& value) {
    const auto problems = problems_with(job, pointer, value);
    return problems.empty() ? std::string{} : problems.front();
  };
  CHECK(problem("/spec/runtime/config/model/layer", 2) ==
        "spec.runtime.config: model.layer is not a field; did you mean \"layers\"?");
  CHECK(problem("/spec/runtime/config/steps", "10") ==
        "spec.runtime.config: steps must be a whole number from 1 to 1000000000000");
  CHECK(problem("/spec/runtime/config/batch", {{"global", 10}, {"micro", 4}}) ==
        "spec.runtime.config: batch.micro must divide batch.global; 10 is not a multiple of 4");
  CHECK(problem("/spec/runtime", {{"kind", "Native"}}) ==
        "spec.runtime.config: data.paths is empty: name the files or folders of the text");
  const json worker = parse_json(R"({"spec": {"containers": [{"name": "worker"}]}})");
  CHECK(problem("/spec/template", worker).empty());
  // A program of one's own reads what it likes.
  const json own = parse_json(
      R"({"spec": {"containers": [{"name": "side"}, {"name": "worker", "command": ["x"]}]}})");
  job["spec"]["runtime"]["config"] = {{"mine", 1}};
  CHECK_FALSE(problem("/spec/template", worker).empty());
  CHECK(problem("/spec/template", own).empty());
}

// docs/trainer.md is where a user finds the keys.
TEST_CASE("job_file: the page about the trainer has every key with its default", "[cli]") {
  const std::string page = read_text(PAWL_SOURCE_DIR "/docs/trainer.md").value();
  const json flat = parse_json(format_config(TrainerConfig{})).flatten();
  CHECK(flat.size() == 39);
  for (const auto& [pointer, value] : flat.items()) {
    std::string key = pointer.substr(1);
    std::ranges::replace(key, '/', '.');
    INFO(key);
    const auto row = page.find("| `" + key + "` | ");
    REQUIRE(row != std::string::npos);
    const bool is_bare = value.is_string() && value != "";
    const std::string text = is_bare ? value.get<std::string>() : value.dump();
    const std::string shown = key == "data.paths" ? "required" : "`" + text + "`";
    CHECK(page.substr(row, page.find('\n', row) - row).find(" | " + shown + " | ") !=
          std::string::npos);
  }
  for (const char* kind : {"sgd", "lars", "lamb"}) {
    TrainerConfig config;
    config.optimizer.kind = kind;
    config.optimizer.scaling = "sqrt";
    config.schedule.kind = "wsd";
    config.schedule.warmup_tokens = 1;
    config.model.kind = "mlp";
    config.data.kind = "csv";
    config.parallel.compression = "top_k";
    json other = parse_json(format_config(config));
    config.data.kind = "tokens";
    other["data"].update(parse_json(format_config(config))["data"]);
    for (const char* part : {"model", "data", "parallel", "optimizer", "schedule"}) {
      for (const auto& [key, value] : other[part].items()) {
        INFO(key);
        CHECK(page.find(std::string("| `") + part + "." + key + "` | ") != std::string::npos);
      }
    }
  }
}

TEST_CASE("options: arguments of `pawl run`", "[cli]") {
  const auto options =
      parse_run_options({"a.yaml", "--run-dir=d", "--set", "spec.x=1", "--set=spec.y=2", "--text",
                         "t", "--chaos", "kill-rank=1@40", "--quiet"});
  REQUIRE(options.has_value());
  CHECK(options->job_file == "a.yaml");
  CHECK(options->run_folder == "d");
  CHECK(options->settings == std::vector<std::string>{"spec.x=1", "spec.y=2"});
  CHECK(options->texts == std::vector<std::string>{"t"});
  CHECK(options->chaos == Chaos{1, 40});
  CHECK(options->is_quiet);
  using Arguments = std::vector<std::string>;
  for (const Arguments& wrong :
       {Arguments{}, Arguments{"a", "b"}, Arguments{"a", "--nonsense", "1"},
        Arguments{"a", "--set"}, Arguments{"a", "--chaos", "kill-rank=1"},
        Arguments{"a", "--chaos", "kill-rank=x@1"}, Arguments{"a", "--chaos", "kill-rank=-1@1"}}) {
    CHECK_FALSE(parse_run_options(wrong).has_value());
  }
}

TEST_CASE("job_file: a file may hold a TrainingQueue, too", "[cli]") {
  json queue = parse_json(R"({
    "apiVersion": "pawl.dev/v1alpha1", "kind": "TrainingQueue", "metadata": {"name": "a"},
    "spec": {"quotas": [{"resource": "cpu", "nominal": 4}]}})");
  using Problems = std::vector<std::string>;
  CHECK(problems_of(queue).empty());
  queue["spec"]["quotas"][0]["nominal"] = -4;
  CHECK(problems_of(queue) == Problems{"spec.quotas[0].nominal: must be 0 or more"});
  queue["spec"]["wieght"] = 2;
  CHECK(problems_of(queue) == Problems{"spec.wieght: unknown field; did you mean weight?"});
}
