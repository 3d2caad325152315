// Builds the API server's requests and reads its answers: pure functions, any thread.
// Every delete carries a UID precondition, every patch is a JSON merge patch; a patch that must not
// overwrite somebody else's write carries metadata.resourceVersion in its body.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "common/base/result.h"
#include "common/kube/transport.h"

namespace pawl::kube {

// One kind of object: where its collection lives.
struct Resource {
  std::string group;    // "" for core
  std::string version;  // "v1", "v1alpha1"
  std::string plural;   // "pods"
  std::string kind;     // "Pod"
  bool is_namespaced = true;
};

namespace resources {
extern const Resource kPods, kEvents, kServiceAccounts, kServices, kRoles, kRoleBindings,
    kPodDisruptionBudgets, kPodGroups, kPodTemplates, kProvisioningRequests, kLeases, kNodes,
    kPriorityClasses, kTrainingJobs, kWorkerGroups, kTrainingQueues;
}  // namespace resources

struct ListOptions {
  std::string label_selector;
  std::string field_selector;
  std::string continue_token;
  int limit = 500;
};

struct WatchOptions {
  std::string label_selector;
  std::string field_selector;
  std::string resource_version;
  std::chrono::seconds server_timeout{300};  // the server ends the watch by itself after this
};

struct DeleteOptions {
  std::string uid;  // required: the precondition
  std::optional<std::string> resource_version = std::nullopt;
  std::optional<std::int64_t> grace_seconds = std::nullopt;
  std::string propagation = "Background";  // Background, Foreground, Orphan
};

// ns is ignored for cluster-scoped resources; an empty ns on list/watch means all namespaces.
std::string path_of(const Resource& resource, const std::string& ns, const std::string& name = "",
                    const std::string& subresource = "");
std::string encode_query(const std::string& text);

// What the API server serves of the resource's group and version: 404 NotFound if nothing.
HttpRequest discovery_request(const Resource& resource);
HttpRequest get_request(const Resource& resource, const std::string& ns, const std::string& name);
HttpRequest list_request(const Resource& resource, const std::string& ns,
                         const ListOptions& options);
HttpRequest watch_request(const Resource& resource, const std::string& ns,
                          const WatchOptions& options);
HttpRequest create_request(const Resource& resource, const std::string& ns,
                           const nlohmann::json& object);
HttpRequest merge_patch_request(const Resource& resource, const std::string& ns,
                                const std::string& name, const nlohmann::json& patch,
                                const std::string& subresource = "");
HttpRequest delete_request(const Resource& resource, const std::string& ns, const std::string& name,
                           const DeleteOptions& options);

// 2xx → the body as JSON; anything else → an Error whose code says what to do: 404 NotFound, 409
// AlreadyExists (reason AlreadyExists) or Conflict, 410 Gone, 403 Forbidden, 429 Throttled
// (with retry_after), 400/422 Invalid, 401 and 5xx Unavailable (writes answered 500/502/503/504:
// OutcomeUnknown), message = Status.message.
Result<nlohmann::json> read_response(const HttpRequest& request, const HttpResponse& response);

// resourceVersions are comparable as numbers of arbitrary length (KEP-5504).
bool is_at_least(const std::string& resource_version, const std::string& other);

}  // namespace pawl::kube
