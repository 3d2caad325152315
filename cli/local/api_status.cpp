#include "cli/local/api_status.h"

#include <nlohmann/json.hpp>

namespace pawl::local {
namespace {

StatusError about(const Kind& kind, const std::string& name, int code, const std::string& reason) {
  StatusError error;
  error.code = code;
  error.reason = reason;
  error.name = name;
  error.group = std::string{kind.group};
  error.kind = std::string{kind.plural};
  return error;
}

}  // namespace

StatusError not_found(const Kind& kind, const std::string& name) {
  StatusError error = about(kind, name, 404, "NotFound");
  error.message = qualified_plural(kind) + " \"" + name + "\" not found";
  return error;
}

StatusError unknown_path() {
  StatusError error;
  error.code = 404;
  error.reason = "NotFound";
  error.message = "the server could not find the requested resource";
  return error;
}

StatusError already_exists(const Kind& kind, const std::string& name) {
  StatusError error = about(kind, name, 409, "AlreadyExists");
  error.message = qualified_plural(kind) + " \"" + name + "\" already exists";
  return error;
}

StatusError conflict(const Kind& kind, const std::string& name, const std::string& why) {
  StatusError error = about(kind, name, 409, "Conflict");
  error.message =
      "Operation cannot be fulfilled on " + qualified_plural(kind) + " \"" + name + "\": " + why;
  return error;
}

StatusError modified_meanwhile(const Kind& kind, const std::string& name) {
  return conflict(kind, name,
                  "the object has been modified; please apply your changes to the latest version "
                  "and try again");
}

StatusError invalid(const Kind& kind, const std::string& name,
                    std::vector<api::FieldError> causes) {
  StatusError error = about(kind, name, 422, "Invalid");
  error.kind = std::string{kind.name};
  std::string text;
  for (const api::FieldError& cause : causes) {
    text.append(text.empty() ? "" : ", ").append(cause.field).append(": ").append(cause.message);
  }
  if (causes.size() > 1) text = "[" + text + "]";
  error.message = qualified_name(kind) + " \"" + name + "\" is invalid: " + text;
  error.causes = std::move(causes);
  return error;
}

StatusError bad_request(const std::string& message) {
  StatusError error;
  error.code = 400;
  error.reason = "BadRequest";
  error.message = message;
  return error;
}

StatusError expired(const std::string& message) {
  StatusError error;
  error.code = 410;
  error.reason = "Expired";
  error.message = message;
  return error;
}

StatusError method_not_allowed(const Kind& kind, const std::string& verb) {
  StatusError error = about(kind, "", 405, "MethodNotAllowed");
  error.message =
      verb + " is not supported on resources of kind \"" + qualified_plural(kind) + "\"";
  return error;
}

StatusError unsupported_media_type(const std::string& content_type) {
  StatusError error;
  error.code = 415;
  error.reason = "UnsupportedMediaType";
  error.message =
      "the body of the request was in an unknown format - accepted media types include: "
      "application/merge-patch+json; got " +
      content_type;
  return error;
}

StatusError unauthorized() {
  StatusError error;
  error.code = 401;
  error.reason = "Unauthorized";
  error.message = "Unauthorized";
  return error;
}

StatusError forbidden(const Kind& kind, const std::string& name, const std::string& message) {
  StatusError error = about(kind, name, 403, "Forbidden");
  error.message = qualified_plural(kind) + (name.empty() ? "" : " \"" + name + "\"") +
                  " is forbidden: " + message;
  return error;
}

nlohmann::json encode_status(const StatusError& error) {
  nlohmann::json body = {
      {"kind", "Status"},    {"apiVersion", "v1"},       {"metadata", nlohmann::json::object()},
      {"status", "Failure"}, {"message", error.message}, {"code", error.code}};
  if (!error.reason.empty()) body["reason"] = error.reason;
  nlohmann::json details = nlohmann::json::object();
  if (!error.name.empty()) details["name"] = error.name;
  if (!error.group.empty()) details["group"] = error.group;
  if (!error.kind.empty()) details["kind"] = error.kind;
  if (!error.uid.empty()) details["uid"] = error.uid;
  for (const api::FieldError& cause : error.causes) {
    details["causes"].push_back(
        {{"reason", "FieldValueInvalid"}, {"message", cause.message}, {"field", cause.field}});
  }
  if (!details.empty()) body["details"] = std::move(details);
  return body;
}

kube::HttpResponse response_of(const StatusError& error) {
  return response_of(error.code, encode_status(error));
}

kube::HttpResponse response_of(int status, const nlohmann::json& body) {
  kube::HttpResponse response;
  response.status = status;
  // Whatever bytes a client stored come back as valid UTF-8.
  response.body = body.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  return response;
}

}  // namespace pawl::local
