// How the rules of validate.cpp and validate_update.cpp look at an object that the schema has
// accepted, and note what is wrong with it. For these two files. Pure.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "common/api/validate.h"
#include "common/base/json.h"

namespace pawl::api::validation {

using nlohmann::json;
using Errors = std::vector<FieldError>;

// The value at a path of member names, or null. A reference into the object.
inline const json& at(const json& object, std::initializer_list<const char*> path) {
  static const json none;
  const json* value = &object;
  for (const char* name : path) {
    if (!value->is_object()) return none;
    const auto member = value->find(name);
    if (member == value->end()) return none;
    value = &*member;
  }
  return *value;
}

inline std::string text_at_path(const json& object, std::initializer_list<const char*> path,
                                const char* fallback = "") {
  const json& value = at(object, path);
  return value.is_string() ? value.get<std::string>() : fallback;
}

inline std::int64_t integer_at(const json& object, std::initializer_list<const char*> path) {
  const json& value = at(object, path);
  return value.is_number_integer() ? value.get<std::int64_t>() : 0;
}

inline bool is_native(const json& job) {
  return text_at_path(job, {"spec", "runtime", "kind"}, "Custom") == "Native";
}

inline bool is_in_place(const json& job) {
  return at(job, {"spec", "runtime", "inPlace"}) == json(true);
}

inline void refuse_if(bool is_wrong, const char* field, const char* message, Errors& errors) {
  if (is_wrong) errors.push_back({field, message});
}

// A defaulted field reads as its default, so that leaving it out is no change.
inline json or_default(const json& value, const json& fallback) {
  return value.is_null() ? fallback : value;
}

}  // namespace pawl::api::validation
