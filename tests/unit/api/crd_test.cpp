// The files under crds/ against what is derived from them, and the examples against the rules.
#include <yaml-cpp/yaml.h>

#include <catch2/catch_test_macros.hpp>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "common/api/schema.h"
#include "common/api/validate.h"

namespace pawl::api {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

const fs::path kRoot = PAWL_SOURCE_DIR;

std::string text_of(const fs::path& path) {
  std::ifstream file(path);
  REQUIRE(file.good());
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

json scalar_of(const YAML::Node& node) {
  const std::string& text = node.Scalar();
  const bool is_plain = node.Tag() == "?";
  if (is_plain && (text == "true" || text == "false")) return text == "true";
  if (is_plain && (text == "null" || text == "~" || text.empty())) return nullptr;
  if (is_plain) {
    const json number = parse_json(text);
    if (number.is_number()) return number;
  }
  return text;
}

json json_of(const YAML::Node& node) {
  if (node.IsMap()) {
    json object = json::object();
    for (const auto& item : node) object[item.first.Scalar()] = json_of(item.second);
    return object;
  }
  if (node.IsSequence()) {
    json list = json::array();
    for (const auto& item : node) list.push_back(json_of(item));
    return list;
  }
  return node.IsScalar() ? scalar_of(node) : json();
}

json schema_in(const char* file) {
  const json crd = json_of(YAML::Load(text_of(kRoot / "crds" / file)));
  return crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
}

// What the table leaves out: texts, and CEL, whose twins are functions.
json without_texts(const json& node) {
  if (!node.is_object()) return node;
  json result = json::object();
  for (const auto& [key, value] : node.items()) {
    if (key == "properties") {
      result[key] = json::object();
      for (const auto& [name, child] : value.items()) result[key][name] = without_texts(child);
    } else if (key == "items" || key == "additionalProperties") {
      result[key] = without_texts(value);
    } else if (key != "description" && key != "x-kubernetes-validations" &&
               key != "x-kubernetes-map-type" && key != "anyOf") {
      result[key] = value;
    }
  }
  return result;
}

void check_described(const json& node, const std::string& path) {
  const json properties = node.value("properties", json::object());
  for (const auto& [name, child] : properties.items()) {
    const std::string where = path + "." + name;
    if (where == ".metadata") continue;
    INFO(where);
    CHECK(child.contains("description"));
    const bool is_bounded = child.value("type", "") != "string" || child.contains("maxLength") ||
                            child.contains("enum") || child.value("format", "") == "date-time";
    CHECK(is_bounded);
    if (child.value("type", "") == "array") CHECK(child.contains("maxItems"));
    if (child.contains("additionalProperties")) CHECK(child.contains("maxProperties"));
    if (where == ".spec.template") continue;  // Kubernetes' own type
    check_described(child, where);
    if (child.contains("items")) check_described(child["items"], where + "[]");
  }
}

TEST_CASE("crds: the compiled-in schemas are those of crds/ (crds/generate.py derive)",
          "[api][A39]") {
  CHECK(Schema("TrainingJob").expanded() == without_texts(schema_in("trainingjobs.yaml")));
  CHECK(Schema("WorkerGroup").expanded() == without_texts(schema_in("workergroups.yaml")));
  CHECK(Schema("TrainingQueue").expanded() == without_texts(schema_in("trainingqueues.yaml")));
}

TEST_CASE("crds: the chart's copies are those of crds/ (crds/generate.py derive)", "[api]") {
  for (const char* file : {"trainingjobs.yaml", "workergroups.yaml", "trainingqueues.yaml"}) {
    CHECK(text_of(kRoot / "crds" / file) == text_of(kRoot / "charts/pawl/crds" / file));
  }
}

// Each field has its row in the reference.
void check_documented(const json& node, const std::string& path, const std::string& reference) {
  const json properties = node.value("properties", json::object());
  for (const auto& [name, child] : properties.items()) {
    const std::string where = path.empty() ? name : path + "." + name;
    if (where == "apiVersion" || where == "kind" || where == "metadata") continue;
    INFO(where);
    const auto row = reference.find("| `" + where + "` |");
    REQUIRE(row != std::string::npos);
    if (where == "spec.template") continue;
    check_documented(child, where, reference);
    if (child.contains("items")) check_documented(child["items"], where + "[]", reference);
  }
}

TEST_CASE("crds: docs/reference/api.md has every field (crds/generate.py derive)", "[api]") {
  const std::string reference = text_of(kRoot / "docs/reference/api.md");
  check_documented(schema_in("trainingjobs.yaml"), "", reference);
  check_documented(schema_in("workergroups.yaml"), "", reference);
  check_documented(schema_in("trainingqueues.yaml"), "", reference);
}

TEST_CASE("crds: small enough for client-side apply", "[api]") {
  for (const char* file : {"trainingjobs.yaml", "workergroups.yaml", "trainingqueues.yaml"}) {
    CHECK(fs::file_size(kRoot / "crds" / file) < 256UL * 1024);
  }
}

TEST_CASE("crds: every field of ours has a description, every string, list and map a bound",
          "[api]") {
  check_described(schema_in("trainingjobs.yaml"), "");
  check_described(schema_in("workergroups.yaml"), "");
  check_described(schema_in("trainingqueues.yaml"), "");
}

TEST_CASE("crds: no condition is called Ready, which would block Helm", "[api]") {
  const json schema = schema_in("trainingjobs.yaml");
  const std::string text =
      schema["properties"]["status"]["properties"]["conditions"]["description"];
  CHECK(text.find("Ready") == std::string::npos);
}

TEST_CASE("examples: every TrainingJob under examples/ is accepted", "[api]") {
  int jobs = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator(kRoot / "examples")) {
    if (entry.path().extension() != ".yaml") continue;
    for (const YAML::Node& document : YAML::LoadAll(text_of(entry.path()))) {
      const json object = json_of(document);
      if (!object.is_object() || object.value("kind", "") != "TrainingJob") continue;
      INFO(entry.path().filename());
      CHECK(join_errors(validate_training_job(object)) == "");
      ++jobs;
    }
  }
  CHECK(jobs >= 2);
}

}  // namespace
}  // namespace pawl::api
