// The answers of the embedded API that are no objects: metav1.Status bodies with the codes, reasons
// and sentences of the real server, because clients branch on them. Pure functions; any thread.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "cli/local/kinds.h"
#include "common/api/validate.h"
#include "common/kube/transport.h"

namespace pawl::local {

struct StatusError {
  int code = 500;
  std::string reason;  // "" stays out of the body
  std::string message;
  // details, where the server gives them
  std::string name, group, kind, uid;
  std::vector<api::FieldError> causes;
  int retry_after_seconds = 0;
};

template <typename T>
using Answer = tl::expected<T, StatusError>;
using Verdict = Answer<void>;

StatusError not_found(const Kind& kind, const std::string& name);
StatusError unknown_path();
StatusError already_exists(const Kind& kind, const std::string& name);
StatusError conflict(const Kind& kind, const std::string& name, const std::string& why);
StatusError modified_meanwhile(const Kind& kind, const std::string& name);
// A delete's precondition does not hold; the server names the kind then, not the resource.
StatusError precondition_failed(const Kind& kind, const std::string& name, const std::string& why);
// What comes of binding a pod that cannot be bound.
StatusError binding_conflict(const std::string& pod, const std::string& why);
StatusError invalid(const Kind& kind, const std::string& name, std::vector<api::FieldError> causes);
// Of the options of a request: "ListOptions", "DeleteOptions".
StatusError invalid_options(const std::string& kind, api::FieldError cause);
// A patch whose outcome does not have the types of the kind's fields.
StatusError invalid_patch(const std::string& why);
StatusError bad_request(const std::string& message);
StatusError internal(const std::string& message);  // 500 without a reason
StatusError expired(const std::string& message);
StatusError too_large_revision(const std::string& asked, const std::string& current);
StatusError method_not_allowed(const Kind& kind, const std::string& verb);
StatusError unsupported_media_type(const std::string& content_type);
StatusError unauthorized();
StatusError forbidden(const Kind& kind, const std::string& name, const std::string& message);

nlohmann::json encode_status(const StatusError& error);
kube::HttpResponse response_of(const StatusError& error);
kube::HttpResponse response_of(int status, const nlohmann::json& body);

}  // namespace pawl::local
