#include "common/api/schema.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <string_view>

#include "common/api/json_fields.h"
#include "common/api/schema_scalar.h"
#include "common/base/nearest.h"

namespace pawl::api {

using nlohmann::json;

namespace {

std::string child_path(const std::string& path, const std::string& name) {
  return path.empty() ? name : path + "." + name;
}

std::string item_path(const std::string& path, std::size_t index) {
  return path + "[" + std::to_string(index) + "]";
}

bool is_int_or_string(const json& node) { return node.value("x-kubernetes-int-or-string", false); }

const char* type_name(const json& value) {
  if (value.is_null()) return "null";
  if (value.is_object()) return "an object";
  if (value.is_array()) return "a list";
  if (value.is_string()) return "a string";
  if (value.is_boolean()) return "true or false";
  return value.is_number_integer() ? "an integer" : "a number";
}

const char* wanted_name(const json& node) {
  if (is_int_or_string(node)) return "an integer or a string";
  const std::string type = node.value("type", "");
  if (type == "object") return "an object";
  if (type == "array") return "a list";
  if (type == "string") return "a string";
  if (type == "boolean") return "true or false";
  return type == "integer" ? "an integer" : "a number";
}

// 3.0 is an integer to the API server.
bool is_integral(const json& value) {
  if (value.is_number_integer()) return true;
  return value.is_number_float() && std::trunc(value.get<double>()) == value.get<double>();
}

bool has_type(const json& node, const json& value) {
  if (is_int_or_string(node)) return value.is_string() || is_integral(value);
  const std::string type = node.value("type", "");
  if (type == "object") return value.is_object();
  if (type == "array") return value.is_array();
  if (type == "string") return value.is_string();
  if (type == "boolean") return value.is_boolean();
  if (type == "integer") return is_integral(value);
  return type != "number" || value.is_number();
}

void unknown_field(const std::string& path, const std::string& name,
                   const std::vector<std::string>& known, std::vector<FieldError>& errors) {
  const std::string meant = likely_meant(name, known);
  errors.push_back({child_path(path, name), meant.empty()
                                                ? "unknown field: remove it or correct its spelling"
                                                : "unknown field; did you mean " + meant + "?"});
}

std::vector<std::string> property_names(const json& node) {
  std::vector<std::string> names;
  const json properties = node.value("properties", json::object());
  for (const auto& [name, property] : properties.items()) names.push_back(name);
  return names;
}

// The fields of metadata.k8s.io's ObjectMeta, which no CRD describes.
constexpr std::array<std::string_view, 15> kMetadataNames{"annotations",
                                                          "creationTimestamp",
                                                          "deletionGracePeriodSeconds",
                                                          "deletionTimestamp",
                                                          "finalizers",
                                                          "generateName",
                                                          "generation",
                                                          "labels",
                                                          "managedFields",
                                                          "name",
                                                          "namespace",
                                                          "ownerReferences",
                                                          "resourceVersion",
                                                          "selfLink",
                                                          "uid"};

// Labels and annotations: texts by name.
void check_texts(const std::string& path, const json& value, std::vector<FieldError>& errors) {
  if (value.is_null()) return;
  if (!value.is_object()) {
    errors.push_back({path, std::string("must be an object; you wrote ") + type_name(value)});
    return;
  }
  for (const auto& [name, text] : value.items()) {
    if (text.is_string()) continue;
    errors.push_back({child_path(path, name), std::string("must be a string; you wrote ") +
                                                  type_name(text) + ": put it in quotes"});
  }
}

}  // namespace

bool Schema::is_metadata_field(std::string_view name) {
  return std::ranges::find(kMetadataNames, name) != kMetadataNames.end();
}

Schema::Schema(const char* kind) : table_(parse_json(kSchemaTable)), kind_(kind) {}

const json& Schema::resolve(const json& node) const {
  const auto reference = node.find("$ref");
  return reference == node.end() ? node : table_["definitions"][reference->get<std::size_t>()];
}

json Schema::expand(const json& node) const {
  json result = resolve(node);
  if (result.contains("properties")) {
    for (auto& [name, child] : result["properties"].items()) child = expand(child);
  }
  for (const char* key : {"items", "additionalProperties"}) {
    if (result.contains(key)) result[key] = expand(result[key]);
  }
  return result;
}

json Schema::expanded() const { return expand(table_[kind_]); }

std::vector<FieldError> Schema::check(const json& object) const {
  if (!object.is_object()) return {{"", "must be an object"}};
  Errors errors = unknown_fields(object);
  if (const auto metadata = object.find("metadata"); metadata != object.end()) {
    for (const char* name : {"labels", "annotations"}) {
      if (!metadata->is_object() || !metadata->contains(name)) continue;
      check_texts(std::string("metadata.") + name, (*metadata)[name], errors);
    }
  }
  check_value(table_[kind_], object, "", errors);
  return errors;
}

std::vector<FieldError> Schema::check_status(const json& object) const {
  Errors errors;
  const auto status = object.find("status");
  if (status == object.end() || status->is_null()) return errors;
  const json& node = table_[kind_]["properties"]["status"];
  check_unknown(node, *status, "status", errors);
  check_value(node, *status, "status", errors);
  return errors;
}

std::vector<FieldError> Schema::unknown_fields(const json& object) const {
  Errors errors;
  check_unknown(table_[kind_], object, "", errors);
  if (object.contains("metadata") && object["metadata"].is_object()) {
    const std::vector<std::string> known(kMetadataNames.begin(), kMetadataNames.end());
    for (const auto& [name, value] : object["metadata"].items()) {
      if (!is_metadata_field(name)) unknown_field("metadata", name, known, errors);
    }
  }
  return errors;
}

void Schema::check_unknown(const json& reference, const json& value, const std::string& path,
                           Errors& errors) const {
  const json& node = resolve(reference);
  if (value.is_array() && node.contains("items")) {
    for (std::size_t i = 0; i < value.size(); ++i) {
      check_unknown(node["items"], value[i], item_path(path, i), errors);
    }
  }
  if (!value.is_object() || !has_type(node, value) || path == "metadata") return;
  const bool keeps_unknown = node.value("x-kubernetes-preserve-unknown-fields", false);
  for (const auto& [name, child] : value.items()) {
    if (node.contains("additionalProperties")) {
      check_unknown(node["additionalProperties"], child, child_path(path, name), errors);
    } else if (node.contains("properties") && node["properties"].contains(name)) {
      check_unknown(node["properties"][name], child, child_path(path, name), errors);
    } else if (!keeps_unknown) {
      unknown_field(path, name, property_names(node), errors);
    }
  }
}

void Schema::check_value(const json& reference, const json& value, const std::string& path,
                         Errors& errors) const {
  const json& node = resolve(reference);
  if (value.is_null() && node.value("nullable", false)) return;
  if (!has_type(node, value)) {
    errors.push_back(
        {path, std::string("must be ") + wanted_name(node) + "; you wrote " + type_name(value)});
    return;
  }
  if (value.is_object()) check_object(node, value, path, errors);
  if (value.is_array()) check_list(node, value, path, errors);
  std::string wrong;
  if (value.is_number()) wrong = wrong_number(node, value);
  if (value.is_string()) wrong = wrong_string(node, value.get_ref<const std::string&>());
  if (!wrong.empty()) errors.push_back({path, wrong});
}

void Schema::check_object(const json& node, const json& written, const std::string& path,
                          Errors& errors) const {
  if (path == "metadata") return;
  const bool has_null = std::ranges::any_of(written, [](const json& v) { return v.is_null(); });
  const json cleaned = has_null ? without_nulls(node, written) : json();
  const json& value = has_null ? cleaned : written;
  if (node.contains("maxProperties") && value.size() > node["maxProperties"].get<std::size_t>()) {
    errors.push_back({path, "must have at most " + dump(node["maxProperties"]) +
                                " keys; yours has " + std::to_string(value.size())});
  }
  const json required = node.value("required", json::array());
  for (const json& name : required) {
    const std::string key = name.get<std::string>();
    if (!value.contains(key)) errors.push_back({child_path(path, key), "must be set"});
  }
  for (const auto& [name, child] : value.items()) {
    if (node.contains("additionalProperties")) {
      check_value(node["additionalProperties"], child, child_path(path, name), errors);
    } else if (node.contains("properties") && node["properties"].contains(name)) {
      check_value(node["properties"][name], child, child_path(path, name), errors);
    }
  }
}

// The API server drops a null before it looks further, unless the field is nullable.
json Schema::without_nulls(const json& node, json value) const {
  const json properties = node.value("properties", json::object());
  const json others = node.value("additionalProperties", json());
  for (auto item = value.begin(); item != value.end();) {
    const auto found = properties.find(item.key());
    const json& child = found == properties.end() ? others : *found;
    const bool is_dropped =
        item->is_null() && child.is_object() && !resolve(child).value("nullable", false);
    item = is_dropped ? value.erase(item) : std::next(item);
  }
  return value;
}

void Schema::check_list(const json& node, const json& value, const std::string& path,
                        Errors& errors) const {
  if (node.contains("maxItems") && value.size() > node["maxItems"].get<std::size_t>()) {
    errors.push_back({path, "must have at most " + dump(node["maxItems"]) + " items; yours has " +
                                std::to_string(value.size())});
  }
  if (node.contains("minItems") && value.size() < node["minItems"].get<std::size_t>()) {
    errors.push_back({path, "must have at least " + dump(node["minItems"]) + " item"});
  }
  const json keys = node.value("x-kubernetes-list-map-keys", json::array());
  std::set<std::string> seen;
  for (std::size_t i = 0; i < value.size(); ++i) {
    check_value(node["items"], value[i], item_path(path, i), errors);
    if (keys.empty() || !value[i].is_object()) continue;
    json key = json::array();
    const json& properties = resolve(node["items"])["properties"];
    for (const json& name : keys) {
      const std::string text = name.get<std::string>();
      const json fallback = resolve(properties[text]).value("default", json());
      const json own = value[i].value(text, json());
      key.push_back(own.is_null() ? fallback : own);  // null is dropped, and the default comes in
    }
    if (!seen.insert(dump(key)).second) {
      std::string names;
      for (const json& name : keys)
        names += (names.empty() ? "" : " and ") + name.get<std::string>();
      errors.push_back({item_path(path, i), "is there twice: give each item its own " + names});
    }
  }
}

}  // namespace pawl::api
