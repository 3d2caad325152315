// One object's JSON as an API server writes it. Pure.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>

namespace pawl::kube {

// An object, or an event of a watch, as parse_json has it, but that metadata.managedFields may be
// empty, and was not looked into then: nobody here reads it, and it is up to a half of a pod.
nlohmann::json parse_object(std::string_view text);

}  // namespace pawl::kube
