#include "cli/json_yaml.h"

#include <catch2/catch_test_macros.hpp>

#include "cli/yaml_json.h"
#include "common/base/json.h"
#include "common/base/random.h"

using namespace pawl;
using namespace pawl::cli;
using nlohmann::json;

TEST_CASE("json_yaml: it reads as people write it", "[cli]") {
  const json value = parse_json(R"({
    "apiVersion": "pawl.dev/v1alpha1", "image": "registry.example:5000/a/b:1.2", "none": null, "empty": [], "map": {},
    "list": [{"name": "worker", "args": ["-c", "true", "10m"]}, ["x"]], "on": "yes", "number": 3,
    "script": "set -e\n  echo a: b\n\nexit 0\n", "no end": "a\nb", "key: x": "# no comment"})");
  CHECK(write_yaml(value) == R"(apiVersion: pawl.dev/v1alpha1
empty: []
image: registry.example:5000/a/b:1.2
"key: x": "# no comment"
list:
- args:
  - "-c"
  - "true"
  - "10m"
  name: worker
-
  - x
map: {}
"no end": |-
  a
  b
none: null
number: 3
"on": "yes"
script: |
  set -e
    echo a: b

  exit 0
)");
  CHECK(write_yaml("x") == "x\n");
  CHECK(write_yaml(json::array()) == "[]\n");
}

TEST_CASE("json_yaml: every value comes back as it was", "[cli]") {
  const std::vector<std::string> texts = {
      "",     " ",     "a ",   " a",   "\n",         "\na",  "a\n\n", "a\n b\n", " a\nb", "a\t\nb",
      "null", "~",     "0x10", "1e3",  "012",        "1:20", "- a",   "a: b",    "a:",    "a #b",
      "{x}",  "[x",    "*a",   "&a",   "!a",         "|",    ">",     "%a",      "@a",    "`a",
      "'a'",  "\"a\"", "ä\nb", "a\\b", "2026-01-01", "=",    "<<",    "TRUE",    "Off",   "a\r\nb"};
  Random random{11};
  for (int round = 0; round < 300; ++round) {
    const auto text = [&] { return texts[random.below(texts.size())]; };
    json value = json::object();
    value[text()] = text();
    value["list"] = {text(),
                     {{text(), text()}, {"k", {text(), json::array({text(), json::array()})}}},
                     nullptr,
                     1.5,
                     -3};
    value["map"] = {{text(), {{"x", text()}, {"y", json::object()}, {"z", true}}}};
    const std::string yaml = write_yaml(value);
    INFO(yaml);
    const auto back = parse_yaml_documents(yaml);
    REQUIRE(back);
    REQUIRE(back->size() == 1);
    CHECK(back->front() == value);
  }
}
