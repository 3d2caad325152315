#include "cli/local/api_metadata.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "cli/local/api_objects.h"
#include "common/base/json.h"

namespace pawl::local {
namespace {

using nlohmann::json;

constexpr std::size_t kSubdomainMax = 253;
constexpr std::size_t kLabelMax = 63;

bool is_lower_or_digit(char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); }
bool is_alphanumeric(char c) { return is_lower_or_digit(c) || (c >= 'A' && c <= 'Z'); }

// Parts of a-z, 0-9 and '-' with dots between them.
bool is_subdomain(const std::string& name) {
  if (name.empty() || name.size() > kSubdomainMax) return false;
  for (std::size_t i = 0; i < name.size(); ++i) {
    if (is_lower_or_digit(name[i])) continue;
    const bool is_inside = i > 0 && i + 1 < name.size();
    if (!is_inside || (name[i] != '-' && name[i] != '.')) return false;
    const bool is_at_dot = name[i] == '.' || name[i - 1] == '.' || name[i + 1] == '.';
    if (is_at_dot && (!is_lower_or_digit(name[i + 1]) || name[i - 1] == '-')) return false;
  }
  return true;
}

bool is_label_1035(const std::string& name) {
  if (name.empty() || name.size() > kLabelMax) return false;
  if (name.front() < 'a' || name.front() > 'z' || name.back() == '-') return false;
  return std::all_of(name.begin(), name.end(),
                     [](char c) { return is_lower_or_digit(c) || c == '-'; });
}

// The name part of a label's key, and its value where it is not empty.
bool is_label_text(std::string_view text) {
  if (text.empty() || text.size() > kLabelMax) return false;
  if (!is_alphanumeric(text.front()) || !is_alphanumeric(text.back())) return false;
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return is_alphanumeric(c) || c == '-' || c == '_' || c == '.'; });
}

bool is_qualified_name(const std::string& key) {
  const auto slash = key.find('/');
  if (slash == std::string::npos) return is_label_text(key);
  return is_subdomain(key.substr(0, slash)) &&
         is_label_text(std::string_view{key}.substr(slash + 1));
}

bool is_metadata_field(const std::string& name) {
  constexpr std::array<std::string_view, 13> kNames{"annotations",
                                                    "creationTimestamp",
                                                    "deletionGracePeriodSeconds",
                                                    "deletionTimestamp",
                                                    "finalizers",
                                                    "generateName",
                                                    "generation",
                                                    "labels",
                                                    "name",
                                                    "namespace",
                                                    "ownerReferences",
                                                    "resourceVersion",
                                                    "uid"};
  return std::find(kNames.begin(), kNames.end(), name) != kNames.end();
}

void refuse(const std::string& field, const std::string& value, const char* why,
            std::vector<api::FieldError>& causes) {
  causes.push_back({field, "Invalid value: \"" + value + "\": " + why});
}

void validate_owners(const json& owners, std::vector<api::FieldError>& causes) {
  int controllers = 0;
  for (const json& owner : owners) {
    const auto demand = [&](const char* field, const char* why) {
      if (!text_of(owner, field).empty()) return;
      refuse(std::string{"metadata.ownerReferences."} + field, "", why, causes);
    };
    demand("apiVersion", "version must not be empty");
    demand("kind", "must not be empty");
    demand("name", "must not be empty");
    demand("uid", "must not be empty");
    if (owner.value("controller", false)) ++controllers;
  }
  if (controllers > 1) {
    causes.push_back(
        {"metadata.ownerReferences", "Invalid value: " + owners.dump() +
                                         ": Only one reference can have Controller set to true."});
  }
}

}  // namespace

std::string wrong_shape_of(const json& metadata) {
  if (!metadata.is_object()) return "metadata: must be an object";
  const auto is_text = [](const json& value) { return value.is_string(); };
  const auto is_object = [](const json& value) { return value.is_object(); };
  for (const char* field : {"labels", "annotations"}) {
    const auto map = metadata.find(field);
    if (map == metadata.end() || map->is_null()) continue;
    if (!map->is_object() || !std::all_of(map->begin(), map->end(), is_text))
      return std::string{"metadata."} + field + ": must be a map of strings";
  }
  const auto finalizers = metadata.find("finalizers");
  if (finalizers != metadata.end() && !finalizers->is_null() &&
      (!finalizers->is_array() || !std::all_of(finalizers->begin(), finalizers->end(), is_text))) {
    return "metadata.finalizers: must be a list of strings";
  }
  const auto owners = metadata.find("ownerReferences");
  if (owners != metadata.end() && !owners->is_null() &&
      (!owners->is_array() || !std::all_of(owners->begin(), owners->end(), is_object))) {
    return "metadata.ownerReferences: must be a list of objects";
  }
  for (const char* field : {"name", "namespace", "uid", "resourceVersion", "generateName"}) {
    const auto text = metadata.find(field);
    if (text != metadata.end() && !text->is_null() && !text->is_string())
      return std::string{"metadata."} + field + ": must be a string";
  }
  const auto generation = metadata.find("generation");
  if (generation != metadata.end() && !generation->is_null() && !generation->is_number_integer())
    return "metadata.generation: must be an integer";
  return {};
}

void tidy_metadata(json& metadata) {
  for (auto field = metadata.begin(); field != metadata.end();) {
    const bool is_nothing = field->is_null() || (field->is_structured() && field->empty()) ||
                            (field->is_string() && field->get_ref<const std::string&>().empty());
    const bool is_stored = is_metadata_field(field.key()) && !is_nothing;
    field = is_stored ? std::next(field) : metadata.erase(field);
  }
}

void validate_name(const Kind& kind, const std::string& name,
                   std::vector<api::FieldError>& causes) {
  switch (kind.name_rule) {
    case NameRule::kSubdomain:
      if (is_subdomain(name)) return;
      return refuse(
          "metadata.name", name,
          "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' "
          "or '.', and must start and end with an alphanumeric character (e.g. 'example.com', "
          "regex "
          "used for validation is "
          "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
          causes);
    case NameRule::kLabel:
      if (is_label_1035(name)) return;
      return refuse(
          "metadata.name", name,
          "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with "
          "an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or "
          "'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')",
          causes);
    case NameRule::kPathSegment:
      if (name != "." && name != ".." && name.find_first_of("/%") == std::string::npos) return;
      return refuse("metadata.name", name, "may not be '.' or '..' or contain '/' or '%'", causes);
  }
}

void validate_metadata(const json& metadata, std::vector<api::FieldError>& causes) {
  if (const auto generation = metadata.value("generation", std::int64_t{0}); generation < 0) {
    causes.push_back({"metadata.generation", "Invalid value: " + std::to_string(generation) +
                                                 ": must be greater than or equal to 0"});
  }
  if (const auto labels = metadata.find("labels"); labels != metadata.end()) {
    for (const auto& [key, value] : labels->items()) {
      if (!is_qualified_name(key))
        refuse("metadata.labels", key, "name part must be a qualified name", causes);
      const auto& text = value.get_ref<const std::string&>();
      if (!text.empty() && !is_label_text(text))
        refuse("metadata.labels", text, "a valid label must be an empty string or a label", causes);
    }
  }
  if (const auto annotations = metadata.find("annotations"); annotations != metadata.end()) {
    for (const auto& [key, value] : annotations->items()) {
      std::string lower = key;
      for (char& c : lower) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
      if (!is_qualified_name(lower))
        refuse("metadata.annotations", key, "name part must be a qualified name", causes);
    }
  }
  const auto owners = metadata.find("ownerReferences");
  if (owners != metadata.end()) validate_owners(*owners, causes);
}

Verdict check_identity(const Kind& kind, const json& old_meta, const json& meta) {
  const std::string ns = text_of(meta, "namespace");
  if (!ns.empty() && ns != text_of(old_meta, "namespace")) {
    return tl::make_unexpected(bad_request(
        "the namespace of the provided object does not match the namespace sent on the request"));
  }
  const std::string name = text_of(old_meta, "name"), new_name = text_of(meta, "name");
  if (new_name.empty()) {
    return tl::make_unexpected(bad_request("the name of the object (" + name +
                                           " based on URL) was undeterminable: name must be "
                                           "provided"));
  }
  if (new_name != name) {
    return tl::make_unexpected(bad_request("the name of the object (" + new_name +
                                           ") does not match the name on the URL (" + name + ")"));
  }
  const std::string version = text_of(meta, "resourceVersion");
  if (!version.empty() && !parse_revision(version)) {
    return tl::make_unexpected(
        internal("strconv.ParseUint: parsing \"" + version + "\": invalid syntax"));
  }
  if (!version.empty() && version != text_of(old_meta, "resourceVersion"))
    return tl::make_unexpected(modified_meanwhile(kind, name));
  return {};
}

}  // namespace pawl::local
