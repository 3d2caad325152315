#include "cli/cluster/connection.h"

#include <catch2/catch_test_macros.hpp>

#include "tests/unit/cli/scripted_api.h"

using namespace pawl;
using namespace pawl::cli;
using nlohmann::json;

TEST_CASE("connection: an error is one sentence that says what to change", "[cli]") {
  const Place place{"https://10.0.0.1:6443", "team-a"};
  struct Case {
    Code code;
    std::string message, expected;
  };
  const std::vector<Case> cases = {
      {Code::kForbidden, "Unauthorized",
       "the API server https://10.0.0.1:6443 does not accept your credentials: renew them, or "
       "choose others with "
       "--context"},
      {Code::kForbidden, "user cannot list trainingjobs",
       "you may not read this in namespace team-a: ask for the right, or choose another -n (user "
       "cannot list "
       "trainingjobs)"},
      {Code::kNotFound, "GET /apis/pawl.dev was answered 404 404 page not found",
       "the cluster at https://10.0.0.1:6443 does not know TrainingJob: install Pawl there, or "
       "choose another cluster "
       "with --context"},
      {Code::kNotFound, "trainingjobs \"x\" not found", "trainingjobs \"x\" not found"},
      {Code::kUnavailable, "connection refused",
       "the API server https://10.0.0.1:6443 cannot be reached (connection refused): see that the "
       "cluster runs and "
       "that the kubeconfig's server is right"},
      {Code::kUnavailable, "x: the server's certificate was refused (expired)",
       "the API server https://10.0.0.1:6443 does not prove to be the kubeconfig's: x: the "
       "server's certificate was "
       "refused (expired); get a fresh kubeconfig, or choose another with --context"},
      {Code::kThrottled, "slow down",
       "the API server https://10.0.0.1:6443 is overloaded: try again (slow down)"},
  };
  for (const Case& each : cases) {
    CHECK(explain({each.code, each.message, {}}, place) == each.expected);
  }
  CHECK(explain({Code::kUnavailable, "refused", {}}, {"http://127.0.0.1:4000", "default"})
            .ends_with("; after the end of a `pawl run` there are the files in logs/, beside its "
                       "kubeconfig"));
}

TEST_CASE("connection: a list is all of its pages, a broken one is an error", "[cli]") {
  ScriptedApi api;
  Connection connection{api, {"https://x", ""}, "a"};
  const std::string target = "/api/v1/namespaces/a/pods?labelSelector=b%3Dc&limit=500";
  api.answer(target, {{"metadata", {{"continue", "next"}}}, {"items", {1, 2}}});
  api.answer(target + "&continue=next", {{"metadata", json::object()}, {"items", {3}}});
  const auto items = connection.list(kube::resources::kPods, "a", "b=c");
  REQUIRE(items);
  CHECK(json(*items) == json({1, 2, 3}));

  api.refuse(target, 403, "no");
  const auto refused = connection.list(kube::resources::kPods, "a", "b=c");
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == Code::kForbidden);
  CHECK(refused.error().message.starts_with("you may not read this in namespace a"));
}

TEST_CASE("connection: a namespace is missing only if the server says so", "[cli]") {
  ScriptedApi api;
  Connection connection{api, {"https://x", ""}, "a"};
  api.answer("/api/v1/namespaces/a", json::object());
  api.refuse("/api/v1/namespaces/b", 403, "no");
  CHECK(connection.has_namespace("a"));
  CHECK(connection.has_namespace("b"));
  CHECK_FALSE(connection.has_namespace("c"));
  api.refuse("/api/v1/namespaces/d", 404, "the server could not find the requested resource");
  CHECK(connection.has_namespace("d"));  // as `pawl run` answers, which has all of them
}
