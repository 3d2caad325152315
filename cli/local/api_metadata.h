// What the API server does with metadata whatever the kind: shapes, tidying, and the rules for
// names, labels and owners. Pure; any thread.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "cli/local/api_status.h"
#include "cli/local/kinds.h"

namespace pawl::local {

// "" where metadata has the shapes that the rest of the code reads (maps of strings, lists of
// owners and finalizers); else what is wrong.
std::string wrong_shape_of(const nlohmann::json& metadata);
// Drops what the server does not store: empty maps and lists, managedFields, fields it does not
// know.
void tidy_metadata(nlohmann::json& metadata);
// The rules for names, labels, annotations and owners.
void validate_name(const Kind& kind, const std::string& name, std::vector<api::FieldError>& causes);
void validate_metadata(const nlohmann::json& metadata, std::vector<api::FieldError>& causes);
// Refuses a patch that leads to another namespace or name or was made for another version, in the
// order of the real server.
Verdict check_identity(const Kind& kind, const nlohmann::json& old_metadata,
                       const nlohmann::json& metadata);

}  // namespace pawl::local
