// The rights of a worker pod's token at the embedded API: one refusal a row, through real HTTP.
#include <catch2/catch_test_macros.hpp>
#include <future>

#include "common/api/contract.h"
#include "common/kube/cpprest_transport.h"
#include "common/kube/requests.h"
#include "tests/integration/cli/local_fixture.h"

using namespace pawl;
using namespace pawl::local;
using nlohmann::json;

namespace {

constexpr char kGroups[] = "/apis/pawl.dev/v1alpha1/namespaces/default/workergroups";
constexpr char kJobs[] = "/apis/pawl.dev/v1alpha1/namespaces/default/trainingjobs";

struct Worker {
  explicit Worker(LocalApi& api, const std::string& audience = kApiAudience,
                  std::chrono::seconds life = std::chrono::hours{1}) {
    const TimePoint now = api.clock.now();
    const TokenClaims claims{audience,  "default",          "mine-1-0-0",
                             "pod-uid", "mine-pawl-worker", now + life};
    kube::ClusterConfig config;
    config.server = api.server->url();
    config.token = api.tokens->mint(claims, now - std::chrono::hours{2}).value();
    transport = kube::make_transport(config, api.clock, {"test/0", 4}).value();
  }
  kube::HttpResponse call(kube::Method method, const std::string& target,
                          const json& body = nullptr) {
    kube::HttpRequest request;
    request.method = method;
    request.target = target;
    if (!body.is_null()) {
      request.body = body.dump();
      request.content_type =
          method == kube::Method::kPatch ? "application/merge-patch+json" : "application/json";
    }
    return kube::send_and_wait(*transport, request).value();
  }
  std::unique_ptr<kube::Transport> transport;
};

json group(const std::string& name) {
  return {{"apiVersion", "pawl.dev/v1alpha1"},
          {"kind", "WorkerGroup"},
          {"metadata", {{"name", name}}},
          {"spec", {{"attempt", 1}, {"minMembers", 1}, {"targetMembers", 1}}}};
}

void prepare(LocalApi& api) {
  for (const char* name : {"mine", "other"})
    REQUIRE(api.call(kube::Method::kPost, kGroups, group(name)).status == 201);
  api.server->admit({"default", "mine-1-0-0", "pod-uid", "mine-pawl-worker", "mine"});
}

}  // namespace

TEST_CASE("api_server: a worker reads its WorkerGroup and writes its status", "[cli]") {
  LocalApi api;
  prepare(api);
  Worker worker{api};
  const std::string mine = std::string{kGroups} + "/mine";
  CHECK(worker.call(kube::Method::kGet, mine).status == 200);
  const auto patched = worker.call(kube::Method::kPatch, mine + "/status",
                                   {{"status", {{"attempt", 1}, {"term", 1}}}});
  CHECK(patched.status == 200);
  CHECK(parse_json(patched.body)["status"]["term"] == 1);
}

TEST_CASE("api_server: every other verb, object and subresource is forbidden", "[cli]") {
  LocalApi api;
  prepare(api);
  Worker worker{api};
  const std::string groups{kGroups};
  const json status = {{"status", {{"attempt", 1}}}};
  struct Case {
    kube::Method method;
    std::string target;
    json body;
  };
  using kube::Method;
  const std::vector<Case> cases = {
      {Method::kGet, groups, nullptr},
      {Method::kGet, groups + "/other", nullptr},
      {Method::kGet, groups + "/mine/status", nullptr},
      {Method::kGet, groups + "?watch=true", nullptr},
      {Method::kGet, groups + "?watch=true&fieldSelector=metadata.name%3Dother", nullptr},
      {Method::kGet, groups + "?fieldSelector=metadata.name%3Dmine", nullptr},
      {Method::kGet,
       "/apis/pawl.dev/v1alpha1/workergroups?watch=true&fieldSelector=metadata.name%3Dmine",
       nullptr},
      {Method::kGet, "/apis/pawl.dev/v1alpha1/namespaces/kube-system/workergroups/mine", nullptr},
      {Method::kPatch, groups + "/mine", {{"spec", {{"attempt", 9}}}}},
      {Method::kPatch, groups + "/other/status", status},
      {Method::kDelete, groups + "/mine", nullptr},
      {Method::kDelete, groups, nullptr},
      {Method::kPost, groups, group("new")},
      {Method::kPut, groups + "/mine/status", status},
      {Method::kGet, std::string{kJobs} + "/mine", nullptr},
      {Method::kPatch, std::string{kJobs} + "/mine/status", status},
      {Method::kGet, std::string{kPods} + "/mine-1-0-0", nullptr},
      {Method::kDelete, std::string{kPods} + "/mine-1-0-0", nullptr},
      {Method::kGet, std::string{kPods} + "/mine-1-0-0/log", nullptr},
      {Method::kGet, "/api/v1/namespaces/default/secrets", nullptr},
      {Method::kGet, "/api/v1/nodes", nullptr},
      {Method::kPost, "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles",
       json::object()},
  };
  for (const Case& one : cases) {
    INFO(kube::method_name(one.method) << " " << one.target);
    const auto response = worker.call(one.method, one.target, one.body);
    CHECK(response.status == 403);
    CHECK(parse_json(response.body)["reason"] == "Forbidden");
  }
}

TEST_CASE("api_server: a token is good for its audience, its time and its pod's life", "[cli]") {
  LocalApi api;
  prepare(api);
  const std::string mine = std::string{kGroups} + "/mine";
  Worker peer{api, api::kTokenAudience};
  CHECK(peer.call(kube::Method::kGet, mine).status == 401);
  Worker late{api, kApiAudience, std::chrono::seconds{-1}};
  CHECK(late.call(kube::Method::kGet, mine).status == 401);
  LocalApi stranger;
  Worker foreign{stranger};
  Worker good{api};
  CHECK(good.call(kube::Method::kGet, mine).status == 200);
  CHECK(foreign.call(kube::Method::kGet, mine).status == 401);
  api.server->dismiss("pod-uid");
  CHECK(good.call(kube::Method::kGet, mine).status == 401);
}

TEST_CASE("api_server: a watch by name streams its changes", "[cli]") {
  LocalApi api;
  prepare(api);
  Worker worker{api};
  kube::WatchOptions options;
  options.field_selector = "metadata.name=mine";
  options.resource_version = "0";
  std::promise<void> first, second;
  std::string seen;  // written on the transport's thread, read after the promises
  const auto handle = worker.transport->stream(
      kube::watch_request(kube::resources::kWorkerGroups, "default", options),
      [&](std::string_view bytes) {
        const bool was_empty = seen.empty();
        seen += bytes;
        if (was_empty) first.set_value();
        if (seen.find("MODIFIED") != std::string::npos && seen.back() == '\n') second.set_value();
      },
      [](const Result<kube::HttpResponse>&) {});
  first.get_future().wait();
  const std::string status = std::string{kGroups} + "/mine/status";
  api.call(kube::Method::kPatch, std::string{kGroups} + "/other/status",
           {{"status", {{"attempt", 1}}}});
  api.call(kube::Method::kPatch, status, {{"status", {{"attempt", 1}}}});
  second.get_future().wait();
  worker.transport->cancel(handle);
  CHECK(seen.find("\"other\"") == std::string::npos);
}

TEST_CASE("api_server: who runs it reads and changes any object", "[cli]") {
  LocalApi api;
  prepare(api);
  Worker user{api};
  kube::ClusterConfig config;
  config.server = api.server->url();
  config.token = api.server->user_token();
  user.transport = kube::make_transport(config, api.clock, {"test/0", 4}).value();
  const auto found = [&](const std::string& path) {
    return parse_json(user.call(kube::Method::kGet, path).body);
  };
  CHECK(found("/apis/pawl.dev/v1beta1")["code"] == 404);
  CHECK(found(kGroups)["items"].size() == 2);
  CHECK(user.call(kube::Method::kDelete, std::string{kGroups} + "/other").status == 200);
  config.token.back() = config.token.back() == 'a' ? 'b' : 'a';
  user.transport = kube::make_transport(config, api.clock, {"test/0", 4}).value();
  CHECK(user.call(kube::Method::kGet, kGroups).status == 401);
}
