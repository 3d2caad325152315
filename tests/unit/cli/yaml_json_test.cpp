#include "cli/yaml_json.h"
#include "common/base/json.h"

#include <catch2/catch_test_macros.hpp>

using namespace pawl;
using namespace pawl::cli;
using nlohmann::json;

TEST_CASE("yaml_json: scalars get the types that kubectl gives them", "[cli]") {
  struct Case {
    std::string yaml;
    json value;
  };
  const std::vector<Case> cases = {
      {"1", 1},
      {"-7", -7},
      {"+7", 7},
      {"007", 7},
      {"0o17", 15},
      {"0x1F", 31},
      {"1.5", 1.5},
      {"1e3", 1000.0},
      {".5", 0.5},
      {"-1.", -1.0},
      {"true", true},
      {"False", false},
      {"null", nullptr},
      {"~", nullptr},
      {"", nullptr},
      {"yes", true},
      {"off", false},
      {"'on'", "on"},
      {"yesterday", "yesterday"},
      {"0644", 420},
      {"-0b11", -3},
      {"08", 8.0},
      {"\"1\"", "1"},
      {"'true'", "true"},
      {"!!str 1", "1"},
      {"1_000", 1000},
      {"12:30", "12:30"},
      {"1.2.3", "1.2.3"},
      {"-", json{nullptr}},
      {"0x", "0x"},
      {"+-1", "+-1"},
      {"e3", "e3"},
      {".", "."},
      {"123456789012345678901234567890", 123456789012345678901234567890.0},
      {"[1, a, {b: 2}]", parse_json(R"([1, "a", {"b": 2}])")},
  };
  for (const Case& one : cases) {
    INFO(one.yaml);
    const auto value = parse_yaml_value(one.yaml);
    REQUIRE(value.has_value());
    CHECK(*value == one.value);
    CHECK(value->type() == one.value.type());
  }
}

TEST_CASE("yaml_json: anchors are followed, empty documents left out", "[cli]") {
  const auto documents = parse_yaml_documents("---\n---\na: &x {b: 1}\nc: *x\n---\n# nothing\n");
  REQUIRE(documents.has_value());
  REQUIRE(documents->size() == 1);
  CHECK(documents->front() == parse_json(R"({"a": {"b": 1}, "c": {"b": 1}})"));
}

TEST_CASE("yaml_json: what JSON cannot say is refused with its place", "[cli]") {
  struct Case {
    std::string yaml, message;
  };
  std::string bomb = "a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n";
  for (int i = 1; i < 8; ++i) {
    const std::string last = "*a" + std::to_string(i - 1);
    bomb += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [";
    for (int j = 0; j < 10; ++j) bomb += (j > 0 ? ", " : "") + last;
    bomb += "]\n";
  }
  const std::vector<Case> cases = {
      {"a: 1\na: 2\n", "line 2, column 1: key \"a\" is given twice"},
      {"? [1]\n: 2\n", "a key must be a string"},
      {"a: .inf\n", "line 1, column 4: .inf cannot be written in JSON"},
      {"a: [1\nb: 2\n", "line"},
      {"a: *nobody\n", "line 1"},
      {"spec:\n\treplicas: 2\n",
       "line 2: is indented by a tab, which YAML does not allow: write spaces"},
      {"spec:\n  replicas: 2\n\tsuspend: true\n", "line 3: is indented by a tab"},
      {"spec:\n  - name: x\n  \timage: y\n", "line 3: is indented by a tab"},
      {"command:\n\t- python3\n", "line 2: is indented by a tab"},
      {"spec:\n\truntime:\n\t\tkind: Native\n", "line 2: is indented by a tab"},
      {bomb, "too large"},
  };
  for (const Case& one : cases) {
    const auto documents = parse_yaml_documents(one.yaml);
    REQUIRE_FALSE(documents.has_value());
    INFO(documents.error().message);
    CHECK(documents.error().code == Code::kInvalid);
    CHECK(documents.error().message.find(one.message) != std::string::npos);
  }
}
