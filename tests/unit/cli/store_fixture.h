// A store on a clock that stands still, and short forms of the requests that tests make.
#pragma once

#include <string>

#include "cli/local/api_store.h"
#include "common/base/clock.h"
#include "common/base/json.h"
#include "common/kube/requests.h"

namespace pawl::local {

struct Reply {
  int code = 0;
  nlohmann::json body;
  std::string reason() const { return body.value("reason", ""); }
  std::string message() const { return body.value("message", ""); }
};

struct StoreFixture {
  explicit StoreFixture(ApiStoreOptions options = {}) : store(clock, Random{7}, options) {}

  Reply call(kube::Method method, const std::string& target, const nlohmann::json& body = nullptr,
             const std::string& type = "application/json") {
    kube::HttpRequest request;
    request.method = method;
    request.target = target;
    if (!body.is_null()) {
      request.body = body.dump();
      request.content_type = type;
    }
    const auto response = store.handle(request);
    return {response.status, parse_json(response.body)};
  }
  Reply get(const std::string& target) { return call(kube::Method::kGet, target); }
  Reply post(const std::string& target, const nlohmann::json& body) {
    return call(kube::Method::kPost, target, body);
  }
  Reply patch(const std::string& target, const nlohmann::json& body) {
    return call(kube::Method::kPatch, target, body, "application/merge-patch+json");
  }
  void collect_all() {
    while (store.collect_garbage() > 0) {
    }
  }
  Reply remove(const std::string& target, const nlohmann::json& options = nullptr) {
    return call(kube::Method::kDelete, target, options);
  }

  Reply create_pod(const std::string& name, const nlohmann::json& meta = nlohmann::json::object()) {
    nlohmann::json pod = {{"apiVersion", "v1"},
                          {"kind", "Pod"},
                          {"metadata", meta},
                          {"spec", {{"containers", {{{"name", "worker"}, {"image", "x"}}}}}}};
    pod["metadata"]["name"] = name;
    return post(pods, pod);
  }
  Reply create_account(const std::string& name, const nlohmann::json& owners = nullptr) {
    nlohmann::json account = {
        {"apiVersion", "v1"}, {"kind", "ServiceAccount"}, {"metadata", {{"name", name}}}};
    if (!owners.is_null()) account["metadata"]["ownerReferences"] = owners;
    return post(accounts, account);
  }
  static nlohmann::json job(const std::string& name) {
    return {
        {"apiVersion", "pawl.dev/v1alpha1"},
        {"kind", "TrainingJob"},
        {"metadata", {{"name", name}}},
        {"spec",
         {{"replicas", 2},
          {"runtime", {{"kind", "Custom"}}},
          {"template",
           {{"spec",
             {{"containers", {{{"name", "worker"}, {"image", "x"}, {"command", {"true"}}}}}}}}}}}};
  }

  FakeClock clock;
  ApiStore store;
  const std::string pods = "/api/v1/namespaces/default/pods";
  const std::string accounts = "/api/v1/namespaces/default/serviceaccounts";
  const std::string jobs = "/apis/pawl.dev/v1alpha1/namespaces/default/trainingjobs";
  const std::string groups = "/apis/pawl.dev/v1alpha1/namespaces/default/workergroups";
};

inline nlohmann::json owner_of(const nlohmann::json& object, bool is_blocking = false) {
  return {{"apiVersion", object.at("apiVersion")},
          {"kind", object.at("kind")},
          {"name", object.at("metadata").at("name")},
          {"uid", object.at("metadata").at("uid")},
          {"blockOwnerDeletion", is_blocking}};
}

}  // namespace pawl::local
