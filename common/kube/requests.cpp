#include "common/kube/requests.h"

#include <algorithm>
#include <string_view>

#include "common/base/check.h"
#include "common/base/json.h"
#include "common/base/log.h"
#include "common/kube/object_text.h"

namespace pawl::kube {

using nlohmann::json;

namespace resources {

constexpr char kRbac[] = "rbac.authorization.k8s.io";
constexpr char kPawl[] = "pawl.dev";

const Resource kPods{"", "v1", "pods", "Pod"};
const Resource kEvents{"", "v1", "events", "Event"};
const Resource kServiceAccounts{"", "v1", "serviceaccounts", "ServiceAccount"};
const Resource kServices{"", "v1", "services", "Service"};
const Resource kRoles{kRbac, "v1", "roles", "Role"};
const Resource kRoleBindings{kRbac, "v1", "rolebindings", "RoleBinding"};
const Resource kPodDisruptionBudgets{"policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget"};
const Resource kPodGroups{"scheduling.k8s.io", "v1beta1", "podgroups", "PodGroup"};
const Resource kPodTemplates{"", "v1", "podtemplates", "PodTemplate"};
const Resource kProvisioningRequests{"autoscaling.x-k8s.io", "v1", "provisioningrequests",
                                     "ProvisioningRequest"};
const Resource kLeases{"coordination.k8s.io", "v1", "leases", "Lease"};
const Resource kNodes{"", "v1", "nodes", "Node", false};
const Resource kPriorityClasses{"scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass",
                                false};
const Resource kTrainingJobs{kPawl, "v1alpha1", "trainingjobs", "TrainingJob"};
const Resource kWorkerGroups{kPawl, "v1alpha1", "workergroups", "WorkerGroup"};
const Resource kTrainingQueues{kPawl, "v1alpha1", "trainingqueues", "TrainingQueue", false};

}  // namespace resources

namespace {

constexpr char kJson[] = "application/json";
constexpr char kMergePatch[] = "application/merge-patch+json";
constexpr std::size_t kBodyExcerptBytes = 200;

// Appends "key=value" with the right separator; an empty value is left out.
void add_query(std::string& target, const char* key, const std::string& value) {
  if (value.empty()) return;
  target += target.find('?') == std::string::npos ? '?' : '&';
  target += key;
  target += '=';
  target += encode_query(value);
}

// Sentences of servers and programs go into bodies: bytes that are no UTF-8 must not throw.
std::string text_of(const json& value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

// Status.details.retryAfterSeconds, which the API server sends beside (or instead of) the header.
std::chrono::seconds retry_after_of(const json& status) {
  if (!status.is_object() || !status.contains("details")) return {};
  const json& details = status["details"];
  if (!details.is_object() || !details.contains("retryAfterSeconds")) return {};
  const json& seconds = details["retryAfterSeconds"];
  if (!seconds.is_number_integer()) return {};
  return std::chrono::seconds{std::clamp<std::int64_t>(seconds.get<std::int64_t>(), 0, 3600)};
}

Code code_of(bool is_write, int http_status, const std::string& reason) {
  const Code lost = is_write ? Code::kOutcomeUnknown : Code::kUnavailable;
  switch (http_status) {
    case 401:
      // Our token is being renewed, or authentication is out: surely not applied, and it passes.
      return Code::kUnavailable;
    case 403:
      return Code::kForbidden;
    case 404:
      return Code::kNotFound;
    case 408:
      return lost;
    case 409:
      return reason == "AlreadyExists" ? Code::kAlreadyExists : Code::kConflict;
    case 410:
      return Code::kGone;
    case 429:
      return Code::kThrottled;
    case 500:
    case 502:
    case 503:
    case 504:
      return lost;
    default:
      return http_status >= 500 ? Code::kUnavailable : Code::kInvalid;
  }
}

}  // namespace

std::string encode_query(const std::string& text) {
  constexpr char kHex[] = "0123456789ABCDEF";
  constexpr std::string_view kUnreserved = "-._~";
  std::string out;
  for (const char c : text) {
    const bool is_plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
                          (c >= 'A' && c <= 'Z') || kUnreserved.find(c) != std::string_view::npos;
    if (is_plain) {
      out += c;
    } else {
      const auto byte = static_cast<unsigned char>(c);
      out += '%';
      out += kHex[byte >> 4];
      out += kHex[byte & 15];
    }
  }
  return out;
}

std::string path_of(const Resource& resource, const std::string& ns, const std::string& name,
                    const std::string& subresource) {
  std::string path = resource.group.empty() ? "/api/" : "/apis/" + resource.group + "/";
  path += resource.version;
  if (resource.is_namespaced && !ns.empty()) path += "/namespaces/" + encode_query(ns);
  path += "/" + resource.plural;
  if (!name.empty()) path += "/" + encode_query(name);
  if (!subresource.empty()) path += "/" + subresource;
  return path;
}

HttpRequest discovery_request(const Resource& resource) {
  const std::string root = resource.group.empty() ? "/api/" : "/apis/" + resource.group + "/";
  return {.method = Method::kGet, .target = root + resource.version};
}

HttpRequest get_request(const Resource& resource, const std::string& ns, const std::string& name) {
  PAWL_CHECK(!name.empty(), "a GET without a name would be a list");
  HttpRequest request;
  request.target = path_of(resource, ns, name);
  return request;
}

HttpRequest list_request(const Resource& resource, const std::string& ns,
                         const ListOptions& options) {
  HttpRequest request;
  request.target = path_of(resource, ns);
  add_query(request.target, "labelSelector", options.label_selector);
  add_query(request.target, "fieldSelector", options.field_selector);
  if (options.limit > 0) add_query(request.target, "limit", std::to_string(options.limit));
  add_query(request.target, "continue", options.continue_token);
  return request;
}

HttpRequest watch_request(const Resource& resource, const std::string& ns,
                          const WatchOptions& options) {
  HttpRequest request;
  request.target = path_of(resource, ns) + "?watch=true&allowWatchBookmarks=true";
  add_query(request.target, "timeoutSeconds", std::to_string(options.server_timeout.count()));
  add_query(request.target, "resourceVersion", options.resource_version);
  add_query(request.target, "labelSelector", options.label_selector);
  add_query(request.target, "fieldSelector", options.field_selector);
  request.timeout = std::chrono::seconds{90};
  return request;
}

HttpRequest create_request(const Resource& resource, const std::string& ns, const json& object) {
  HttpRequest request;
  request.method = Method::kPost;
  request.target = path_of(resource, ns);
  request.content_type = kJson;
  request.body = text_of(object);
  return request;
}

HttpRequest merge_patch_request(const Resource& resource, const std::string& ns,
                                const std::string& name, const json& patch,
                                const std::string& subresource) {
  PAWL_CHECK(!name.empty(), "a patch needs a name");
  HttpRequest request;
  request.method = Method::kPatch;
  request.target = path_of(resource, ns, name, subresource);
  request.content_type = kMergePatch;
  request.body = text_of(patch);
  return request;
}

HttpRequest delete_request(const Resource& resource, const std::string& ns, const std::string& name,
                           const DeleteOptions& options) {
  // Without a name it would delete the collection, without a UID somebody else's successor object.
  PAWL_CHECK(!name.empty() && !options.uid.empty(), "a delete needs a name and a UID precondition");
  json body = {{"apiVersion", "v1"},
               {"kind", "DeleteOptions"},
               {"propagationPolicy", options.propagation},
               {"preconditions", {{"uid", options.uid}}}};
  if (options.resource_version) {
    body["preconditions"]["resourceVersion"] = *options.resource_version;
  }
  if (options.grace_seconds) body["gracePeriodSeconds"] = *options.grace_seconds;
  HttpRequest request;
  request.method = Method::kDelete;
  request.target = path_of(resource, ns, name);
  request.content_type = kJson;
  request.body = text_of(body);
  return request;
}

Result<json> read_response(const HttpRequest& request, const HttpResponse& response) {
  const bool is_write = request.method != Method::kGet;
  json body = parse_object(response.body);
  const std::string where = std::string{method_name(request.method)} + " " + request.target;
  if (response.status >= 200 && response.status < 300) {
    if (!body.is_discarded()) return body;
    return fail(is_write ? Code::kOutcomeUnknown : Code::kUnavailable,
                where + " was answered " + std::to_string(response.status) +
                    " with a body that is not JSON");
  }
  Error error;
  error.code = code_of(is_write, response.status, text_at(body, "reason"));
  error.message = text_at(body, "message");
  if (error.message.empty()) {
    error.message = where + " was answered " + std::to_string(response.status) + " " +
                    replace_invalid_utf8(response.body.substr(0, kBodyExcerptBytes));
  }
  const std::chrono::seconds delay = std::max(response.retry_after, retry_after_of(body));
  if (delay.count() > 0) error.retry_after = delay;
  return tl::make_unexpected(std::move(error));
}

bool is_at_least(const std::string& resource_version, const std::string& other) {
  const auto digits = [](const std::string& text) {
    const std::size_t first = text.find_first_not_of('0');
    return first == std::string::npos ? std::string_view{} : std::string_view{text}.substr(first);
  };
  const std::string_view left = digits(resource_version);
  const std::string_view right = digits(other);
  return left.size() != right.size() ? left.size() > right.size() : left >= right;
}

}  // namespace pawl::kube
