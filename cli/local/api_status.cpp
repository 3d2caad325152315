#include "cli/local/api_status.h"

#include <algorithm>
#include <utility>

#include "common/base/json.h"

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

// "field: message", several in brackets, each once.
std::string sentence_of(const std::vector<api::FieldError>& causes) {
  std::vector<std::string> sentences;
  for (const api::FieldError& cause : causes) {
    std::string sentence = cause.field + ": " + cause.message;
    if (std::find(sentences.begin(), sentences.end(), sentence) == sentences.end())
      sentences.push_back(std::move(sentence));
  }
  std::string text;
  for (const std::string& sentence : sentences) text += (text.empty() ? "" : ", ") + sentence;
  return sentences.size() > 1 ? "[" + text + "]" : text;
}

// The reason is told apart by the words that each kind of cause begins with.
const char* reason_of(const api::FieldError& cause) {
  constexpr std::pair<std::string_view, const char*> kReasons[] = {
      {"Required value", "FieldValueRequired"},
      {"must be set", "FieldValueRequired"},
      {"Forbidden", "FieldValueForbidden"},
      {"Unsupported value", "FieldValueNotSupported"},
      {"Too large resource version", "ResourceVersionTooLarge"},
  };
  for (const auto& [begin, reason] : kReasons) {
    if (cause.message.starts_with(begin)) return reason;
  }
  return "FieldValueInvalid";
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

StatusError precondition_failed(const Kind& kind, const std::string& name, const std::string& why) {
  StatusError error = about(kind, name, 409, "Conflict");
  error.kind = std::string{kind.name};
  error.message =
      "Operation cannot be fulfilled on " + qualified_name(kind) + " \"" + name + "\": " + why;
  return error;
}

StatusError binding_conflict(const std::string& pod, const std::string& why) {
  StatusError error;
  error.code = 409;
  error.reason = "Conflict";
  error.name = pod;
  error.kind = "pods/binding";
  error.message = "Operation cannot be fulfilled on pods/binding \"" + pod + "\": " + why;
  return error;
}

StatusError invalid(const Kind& kind, const std::string& name,
                    std::vector<api::FieldError> causes) {
  StatusError error = about(kind, name, 422, "Invalid");
  error.kind = std::string{kind.name};
  error.message = qualified_name(kind) + " \"" + name + "\" is invalid: " + sentence_of(causes);
  error.causes = std::move(causes);
  return error;
}

StatusError invalid_options(const std::string& kind, api::FieldError cause) {
  StatusError error;
  error.code = 422;
  error.reason = "Invalid";
  error.group = "meta.k8s.io";
  error.kind = kind;
  error.causes.push_back(std::move(cause));
  error.message = kind + ".meta.k8s.io \"\" is invalid: " + sentence_of(error.causes);
  return error;
}

StatusError invalid_patch(const std::string& why) {
  StatusError error;
  error.code = 422;
  error.reason = "Invalid";
  error.causes.push_back({"patch", "Invalid value: " + why});
  error.message = " \"\" is invalid: " + sentence_of(error.causes);
  return error;
}

StatusError bad_request(const std::string& message) {
  StatusError error;
  error.code = 400;
  error.reason = "BadRequest";
  error.message = message;
  return error;
}

StatusError internal(const std::string& message) {
  StatusError error;
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

StatusError too_large_revision(const std::string& asked, const std::string& current) {
  StatusError error;
  error.code = 504;
  error.reason = "Timeout";
  error.message = "Timeout: Too large resource version: " + asked + ", current: " + current;
  error.causes.push_back({"", "Too large resource version"});
  error.retry_after_seconds = 1;
  return error;
}

StatusError method_not_allowed(const Kind& kind, const std::string& verb) {
  StatusError error;
  if (kind.is_custom) error = about(kind, "", 405, "MethodNotAllowed");
  error.code = 405;
  error.reason = "MethodNotAllowed";
  error.message =
      kind.is_custom
          ? verb + " is not supported on resources of kind \"" + qualified_plural(kind) + "\""
          : "the server does not allow this method on the requested resource";
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
    nlohmann::json entry = {{"reason", reason_of(cause)}, {"message", cause.message}};
    if (!cause.field.empty()) entry["field"] = cause.field;
    details["causes"].push_back(std::move(entry));
  }
  if (error.retry_after_seconds > 0) details["retryAfterSeconds"] = error.retry_after_seconds;
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
