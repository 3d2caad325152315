// The record's JSON, kept in one .cpp: what a status patch holds, and reading a WorkerGroup.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "common/kube/transport.h"
#include "launcher/membership/action.h"

namespace pawl::launcher {

// Reads the WorkerGroup. This and the patch have the time-outs that the record's use asks for.
kube::HttpRequest record_request(const std::string& ns, const std::string& name);
// Only what changes, and always resourceVersion, attempt, term and generation (membership rule 1).
kube::HttpRequest status_patch(const std::string& ns, const std::string& name,
                               const membership::WriteStatus& write);
Result<api::WorkerGroup> read_group(const kube::HttpRequest& request,
                                    const kube::HttpResponse& response);
Result<api::WorkerGroup> read_group(const nlohmann::json& object);

}  // namespace pawl::launcher
