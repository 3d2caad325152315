#include "cli/run/job_file.h"

#include <catch2/catch_test_macros.hpp>
#include <filesystem>

#include "cli/run/options.h"
#include "common/base/json.h"
#include "common/os/process.h"

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
