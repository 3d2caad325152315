#include "cli/convert/draft.h"

#include <algorithm>
#include <string_view>

#include "common/api/contract.h"
#include "common/api/schema.h"
#include "common/api/validate.h"

namespace pawl::cli::convert {
namespace {

constexpr char kNothingLikeIt[] = "a TrainingJob has nothing like it";
constexpr char kUnknownField[] = "unknown field";

// Removes the member at a path of the validator ("spec.template.spec.containers[0].foo"). False if
// it is not there.
bool remove_at(json& object, const std::string& path) {
  std::string pointer = "/" + path;
  std::ranges::replace(pointer, '.', '/');
  std::string clean;
  for (const char c : pointer) {
    if (c == '[') clean += '/';
    if (c != '[' && c != ']') clean += c;
  }
  const auto slash = clean.rfind('/');
  const json::json_pointer parent{clean.substr(0, slash)};
  const std::string name = clean.substr(slash + 1);
  if (!object.contains(parent) || !object[parent].is_object() || !object[parent].contains(name))
    return false;
  object[parent].erase(name);
  return true;
}

}  // namespace

bool Source::has(const char* name) const {
  return object_.contains(name) && !object_[name].is_null();
}

json Source::take(const char* name) {
  if (!object_.contains(name)) return nullptr;
  json value = std::move(object_[name]);
  object_.erase(name);
  return value;
}

std::optional<std::string> Source::take_text(const char* name) {
  const json value = take(name);
  if (value.is_string()) return value.get<std::string>();
  if (!value.is_null()) draft_->fail(path_of(name), "must be text");
  return std::nullopt;
}

std::optional<std::int64_t> Source::take_number(const char* name) {
  const json value = take(name);
  if (value.is_number_integer()) return value.get<std::int64_t>();
  if (!value.is_null()) draft_->fail(path_of(name), "must be a whole number");
  return std::nullopt;
}

std::optional<bool> Source::take_flag(const char* name) {
  const json value = take(name);
  if (value.is_boolean()) return value.get<bool>();
  if (!value.is_null()) draft_->fail(path_of(name), "must be true or false");
  return std::nullopt;
}

json Source::take_list(const char* name) {
  json value = take(name);
  if (value.is_array()) return value;
  if (!value.is_null()) draft_->fail(path_of(name), "must be a list");
  return json::array();
}

Source Source::take_object(const char* name) {
  json value = take(name);
  if (!value.is_null() && !value.is_object()) draft_->fail(path_of(name), "must be an object");
  if (!value.is_object()) value = json::object();
  return {*draft_, std::move(value), path_of(name)};
}

void Source::leave_out(const char* name, const std::string& why, const std::string& instead) {
  if (has(name)) draft_->leave_out(path_of(name), why, instead);
  object_.erase(name);
}

void Source::drop(const char* name, const std::string& why, const std::string& instead) {
  if (has(name)) draft_->change(path_of(name), why, instead);
  object_.erase(name);
}

void Source::finish() {
  for (const auto& [name, value] : object_.items()) {
    if (value.is_null()) continue;
    draft_->leave_out(path_of(name), kNothingLikeIt, "see whether the job needs it");
  }
  object_ = json::object();
}

Draft::Draft() : spec(json::object()), schema_(api::Schema("TrainingJob").expanded()) {}

void Draft::leave_out(const std::string& field, const std::string& why,
                      const std::string& instead) {
  left_out_.push_back({field, why, instead});
}

void Draft::change(const std::string& field, const std::string& why, const std::string& instead) {
  changed_.push_back({field, why, instead});
}

void Draft::fail(const std::string& field, const std::string& what) {
  errors_.push_back(field + ": " + what);
}

bool Draft::knows(const char* pointer) const {
  std::string path = "/properties/spec";
  for (std::string rest = pointer; !rest.empty();) {
    const auto slash = rest.find('/', 1);
    path += "/properties" + rest.substr(0, slash);
    rest = slash == std::string::npos ? "" : rest.substr(slash);
  }
  return schema_.contains(json::json_pointer{path});
}

void Draft::carry(const char* pointer, json value, const std::string& field,
                  const std::string& instead) {
  if (knows(pointer)) {
    spec[json::json_pointer{pointer}] = std::move(value);
  } else {
    leave_out(field, "this version's TrainingJob has no such field", instead);
  }
}

std::string Draft::field_in_manifest(const std::string& field) const {
  constexpr std::string_view kTemplate = "spec.template";
  const bool is_pods = !template_path.empty() && field.starts_with(kTemplate);
  return is_pods ? template_path + field.substr(kTemplate.size()) : field;
}

void Draft::remove_unknown(json& job) {
  for (const api::FieldError& error : api::validate_training_job(job)) {
    const bool is_pods =
        error.message.starts_with(kUnknownField) && error.field.starts_with("spec.template.");
    if (is_pods && remove_at(job, error.field)) {
      leave_out(field_in_manifest(error.field),
                "the pod template of Kubernetes 1.34 has no such field", "correct its spelling");
    }
  }
}

Result<Conversion> Draft::finish() {
  json job = {{"apiVersion", api::kApiVersion},
              {"kind", "TrainingJob"},
              {"metadata", metadata},
              {"spec", spec}};
  if (errors_.empty()) {
    remove_unknown(job);
    for (const api::FieldError& error : api::validate_training_job(job))
      fail(field_in_manifest(error.field), error.message);
  }
  if (!errors_.empty()) {
    std::string text = source + " cannot become a TrainingJob";
    for (const std::string& error : errors_) text += "\n  " + error;
    return pawl::fail(Code::kInvalid, text);
  }
  return Conversion{source, std::move(job), std::move(left_out_), std::move(changed_)};
}

}  // namespace pawl::cli::convert
