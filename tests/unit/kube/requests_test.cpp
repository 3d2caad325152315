#include "common/kube/requests.h"
#include "common/base/json.h"

#include <catch2/catch_test_macros.hpp>

using namespace pawl;
using namespace pawl::kube;
using nlohmann::json;

namespace {

HttpResponse answer(int status, const std::string& body, std::chrono::seconds retry_after = {}) {
  return {status, body, retry_after};
}

std::string status_body(const char* reason, const char* message) {
  return json{{"kind", "Status"}, {"reason", reason}, {"message", message}}.dump();
}

}  // namespace

TEST_CASE("requests: paths of core and grouped, namespaced and cluster-scoped kinds", "[kube]") {
  const Resource nodes{"", "v1", "nodes", "Node", false};
  CHECK(path_of(resources::kPods, "a") == "/api/v1/namespaces/a/pods");
  CHECK(path_of(resources::kPods, "") == "/api/v1/pods");
  CHECK(path_of(nodes, "ignored", "n1") == "/api/v1/nodes/n1");
  CHECK(path_of(resources::kTrainingJobs, "a", "j", "status") ==
        "/apis/pawl.dev/v1alpha1/namespaces/a/trainingjobs/j/status");
  CHECK(path_of(resources::kRoles, "a", "x:y/z") ==
        "/apis/rbac.authorization.k8s.io/v1/namespaces/a/roles/x%3Ay%2Fz");
}

TEST_CASE("requests: a list carries selectors, limit and the continue token, encoded", "[kube]") {
  ListOptions options;
  options.label_selector = "a in (b,c)";
  options.continue_token = "eyJ2=&";
  options.limit = 7;
  CHECK(list_request(resources::kPods, "n", options).target ==
        "/api/v1/namespaces/n/pods?labelSelector=a%20in%20%28b%2Cc%29&limit=7&continue=eyJ2%3D%26");
  CHECK(list_request(resources::kPods, "", ListOptions{"", "", "", 0}).target == "/api/v1/pods");
}

TEST_CASE("requests: a watch asks for bookmarks and an end, from a resourceVersion", "[kube]") {
  WatchOptions options;
  options.resource_version = "12";
  options.field_selector = "metadata.name=x";
  const HttpRequest request = watch_request(resources::kPods, "n", options);
  CHECK(request.target ==
        "/api/v1/namespaces/n/pods?watch=true&allowWatchBookmarks=true&timeoutSeconds=300"
        "&resourceVersion=12&fieldSelector=metadata.name%3Dx");
  CHECK(request.timeout == std::chrono::seconds{90});
}

TEST_CASE("requests: a delete always carries the UID precondition", "[kube][O4]") {
  DeleteOptions options;
  options.uid = "u-1";
  options.resource_version = "9";
  options.grace_seconds = 0;
  const HttpRequest request = delete_request(resources::kPods, "n", "p", options);
  CHECK(request.method == Method::kDelete);
  const json body = parse_json(request.body);
  CHECK(body["preconditions"] == json{{"uid", "u-1"}, {"resourceVersion", "9"}});
  CHECK(body["gracePeriodSeconds"] == 0);
  CHECK(body["propagationPolicy"] == "Background");
}

TEST_CASE("requests: a patch is a JSON merge patch of what it was given", "[kube]") {
  const json patch = {{"metadata", {{"resourceVersion", "5"}}}, {"status", {{"attempt", 2}}}};
  const HttpRequest request =
      merge_patch_request(resources::kTrainingJobs, "n", "j", patch, "status");
  CHECK(request.method == Method::kPatch);
  CHECK(request.content_type == "application/merge-patch+json");
  CHECK(parse_json(request.body) == patch);
  const HttpRequest created = create_request(resources::kPods, "n", {{"kind", "Pod"}});
  CHECK(created.method == Method::kPost);
  CHECK(created.content_type == "application/json");
}

TEST_CASE("requests: the code of an answer says what to do next", "[kube][B14]") {
  const HttpRequest get = get_request(resources::kPods, "n", "p");
  const HttpRequest post = create_request(resources::kPods, "n", json::object());
  struct Row {
    const HttpRequest* request;
    int status;
    const char* reason;
    Code code;
  };
  const Row rows[] = {
      {&get, 400, "BadRequest", Code::kInvalid},
      {&get, 401, "Unauthorized", Code::kUnavailable},
      {&post, 401, "Unauthorized", Code::kUnavailable},
      {&post, 403, "Forbidden", Code::kForbidden},
      {&get, 404, "NotFound", Code::kNotFound},
      {&post, 409, "AlreadyExists", Code::kAlreadyExists},
      {&post, 409, "Conflict", Code::kConflict},
      {&get, 410, "Expired", Code::kGone},
      {&post, 422, "Invalid", Code::kInvalid},
      {&post, 429, "TooManyRequests", Code::kThrottled},
      {&get, 500, "InternalError", Code::kUnavailable},
      {&post, 500, "InternalError", Code::kOutcomeUnknown},
      {&post, 502, "", Code::kOutcomeUnknown},
      {&post, 503, "ServiceUnavailable", Code::kOutcomeUnknown},
      {&post, 504, "Timeout", Code::kOutcomeUnknown},
      {&get, 504, "Timeout", Code::kUnavailable},
      {&post, 501, "", Code::kUnavailable},
      {&get, 307, "", Code::kInvalid},
  };
  for (const Row& row : rows) {
    CAPTURE(row.status, row.reason);
    const auto result =
        read_response(*row.request, answer(row.status, status_body(row.reason, "why")));
    REQUIRE(!result);
    CHECK(result.error().code == row.code);
    CHECK(result.error().message == "why");
  }
}

TEST_CASE("requests: retry_after comes from the header or from the Status", "[kube]") {
  const HttpRequest get = get_request(resources::kPods, "n", "p");
  const auto header = read_response(get, answer(429, "slow down", std::chrono::seconds{3}));
  CHECK(header.error().retry_after == std::chrono::seconds{3});
  const json status = {{"message", "m"}, {"details", {{"retryAfterSeconds", 7}}}};
  CHECK(read_response(get, answer(503, status.dump())).error().retry_after ==
        std::chrono::seconds{7});
  CHECK(!read_response(get, answer(404, "{}")).error().retry_after);
}

TEST_CASE("requests: a success that is not JSON is no success", "[kube]") {
  const HttpRequest get = get_request(resources::kPods, "n", "p");
  const HttpRequest post = create_request(resources::kPods, "n", json::object());
  CHECK(read_response(get, answer(200, "{\"a\":1}")).value()["a"] == 1);
  CHECK(read_response(get, answer(200, "{\"a\":")).error().code == Code::kUnavailable);
  CHECK(read_response(post, answer(201, "")).error().code == Code::kOutcomeUnknown);
  const auto html = read_response(get, answer(502, std::string(5000, 'x')));
  CHECK(html.error().message.size() < 400);
  CHECK(html.error().message.find("answered 502") != std::string::npos);
}

TEST_CASE("requests: Status bodies of the wrong shape are survived", "[kube][B10]") {
  const HttpRequest get = get_request(resources::kPods, "n", "p");
  for (const char* body : {"[]", "3", "null", "{\"reason\":5,\"message\":{}}", "{\"details\":[]}",
                           "{\"details\":{\"retryAfterSeconds\":\"x\"}}"}) {
    CAPTURE(body);
    CHECK(read_response(get, answer(404, body)).error().code == Code::kNotFound);
  }
}

TEST_CASE("requests: resourceVersions compare as numbers of any length", "[kube]") {
  CHECK(is_at_least("10", "9"));
  CHECK(!is_at_least("9", "10"));
  CHECK(is_at_least("10", "10"));
  CHECK(is_at_least("0010", "10"));
  CHECK(is_at_least("1", ""));
  CHECK(!is_at_least("", "1"));
  CHECK(is_at_least("340282366920938463463374607431768211457",
                    "340282366920938463463374607431768211456"));
}

TEST_CASE("requests: text that is no UTF-8 goes out with replacement characters", "[kube]") {
  const std::string half = "caf\xc3";
  const json object = {{"message", half}};
  CHECK(create_request(resources::kEvents, "n", object).body ==
        "{\"message\":\"caf\xef\xbf\xbd\"}");
  CHECK(merge_patch_request(resources::kPods, "n", "p", object).body ==
        "{\"message\":\"caf\xef\xbf\xbd\"}");
  const auto answer = read_response(get_request(resources::kPods, "n", "p"), {418, half, {}});
  REQUIRE_FALSE(answer);
  CHECK(json(answer.error().message).dump().ends_with("caf\xef\xbf\xbd\""));
}
