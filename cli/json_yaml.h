// JSON as YAML that both YAML 1.1 and 1.2 read back as the same value: what people and `kubectl
// apply` get. Keys in the order of the object; texts of several lines as blocks; whatever could be
// taken for something else is quoted. Pure.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace pawl::cli {

std::string write_yaml(const nlohmann::json& value);

}  // namespace pawl::cli
