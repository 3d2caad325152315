// What a schema says about one number or string. Used by schema.cpp alone. Pure.
#pragma once

#include <string>

#include "common/base/json.h"

namespace pawl::api {

// Both answer with what is wrong, or "" if nothing is.
std::string wrong_number(const nlohmann::json& node, const nlohmann::json& value);
std::string wrong_string(const nlohmann::json& node, const std::string& value);

}  // namespace pawl::api
