// What the API server makes of an object before it stores it, kind by kind: pruning, defaults, and
// the verdict of the schema and its rules. Pure; any thread.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "cli/local/api_status.h"
#include "cli/local/kinds.h"

namespace pawl::local {

// The schema's part for our kinds, with fieldValidation=Strict where is_strict: the fields that it
// does not know, as one sentence ("" for none); then they are dropped, and the defaults put in.
std::string conform(const Kind& kind, bool is_strict, nlohmann::json& object);
// The same for a status alone, which may be null.
void conform_status(const Kind& kind, nlohmann::json& status);
// What Kubernetes' own kinds get when they are created, as far as somebody here reads it.
void fill_in_builtin(const Kind& kind, nlohmann::json& object);

// What is wrong with a new object, beyond its metadata.
std::vector<api::FieldError> validate_new(const Kind& kind, const nlohmann::json& object);
// What is wrong with a change; is_status: of the status alone.
std::vector<api::FieldError> validate_change(const Kind& kind, bool is_status,
                                             const nlohmann::json& before,
                                             const nlohmann::json& after);

}  // namespace pawl::local
