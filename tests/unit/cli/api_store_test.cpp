#include <catch2/catch_test_macros.hpp>

#include "tests/unit/cli/store_fixture.h"

using namespace pawl;
using namespace pawl::local;
using nlohmann::json;

TEST_CASE("api_store: a created object gets an identity and nothing the client made up", "[cli]") {
  StoreFixture api;
  const Reply reply = api.create_pod(
      "a", {{"uid", "mine"}, {"generation", 9}, {"creationTimestamp", "1970-01-01T00:00:00Z"}});
  REQUIRE(reply.code == 201);
  const json& meta = reply.body["metadata"];
  CHECK(meta["uid"].get<std::string>().size() == 36);
  CHECK(meta["namespace"] == "default");
  CHECK(meta["creationTimestamp"] == format_time(api.clock.now()));
  CHECK(meta["generation"] == 1);
  CHECK(meta["resourceVersion"] == "2");
  CHECK(reply.body["status"]["phase"] == "Pending");
  CHECK(api.get(api.pods + "/a").body == reply.body);
}

TEST_CASE("api_store: refusals carry the code, reason and sentence of the real server", "[cli]") {
  StoreFixture api;
  REQUIRE(api.create_pod("a").code == 201);
  const json pod = {{"apiVersion", "v1"},
                    {"kind", "Pod"},
                    {"metadata", {{"name", "b"}}},
                    {"spec", {{"containers", json::array()}}}};
  json other_namespace = pod;
  other_namespace["metadata"]["namespace"] = "other";
  json bad_name = pod;
  bad_name["metadata"]["name"] = "B_";
  json nameless = pod;
  nameless["metadata"].erase("name");
  json foreign_account = pod;
  foreign_account["spec"]["serviceAccountName"] = "nobody";
  json versioned = pod;
  versioned["metadata"]["resourceVersion"] = "4";

  struct Case {
    Reply reply;
    int code;
    std::string reason, message;
  };
  const std::vector<Case> cases = {
      {api.create_pod("a"), 409, "AlreadyExists", "pods \"a\" already exists"},
      {api.get(api.pods + "/x"), 404, "NotFound", "pods \"x\" not found"},
      {api.get(api.jobs + "/x"), 404, "NotFound", "trainingjobs.pawl.dev \"x\" not found"},
      {api.get("/apis/apps/v1/namespaces/default/deployments"), 404, "NotFound",
       "the server could not find the requested resource"},
      {api.get(api.accounts + "/a/status"), 404, "NotFound",
       "the server could not find the requested resource"},
      {api.post(api.pods, other_namespace), 400, "BadRequest",
       "the namespace of the provided object does not match the namespace sent on the request"},
      {api.post(api.pods, bad_name), 422, "Invalid", ""},
      {api.post(api.pods, nameless), 422, "Invalid",
       "Pod \"\" is invalid: metadata.name: Required value: name or generateName is required"},
      {api.post(api.pods, foreign_account), 403, "Forbidden",
       "pods \"b\" is forbidden: error looking up service account default/nobody: serviceaccount "
       "\"nobody\" not found"},
      {api.post(api.pods, versioned), 500, "",
       "resourceVersion should not be set on objects to be created"},
      {api.post(api.pods, StoreFixture::job("j")), 400, "BadRequest", ""},
      {api.get(api.pods + "?fieldSelector=spec.hostname=x"), 400, "BadRequest",
       "field label not supported: spec.hostname"},
      {api.get(api.pods + "?resourceVersion=99"), 504, "Timeout",
       "Timeout: Too large resource version: 99, current: 2"},
      {api.call(kube::Method::kPut, api.pods + "/a", pod), 405, "MethodNotAllowed", ""},
      {api.call(kube::Method::kPatch, api.pods + "/a", json::object(),
                "application/json-patch+json"),
       415, "UnsupportedMediaType", ""},
  };
  for (const Case& one : cases) {
    INFO(one.reply.body.dump());
    CHECK(one.reply.code == one.code);
    CHECK(one.reply.body["kind"] == "Status");
    CHECK(one.reply.body["status"] == "Failure");
    CHECK(one.reply.body["code"] == one.code);
    CHECK(one.reply.reason() == one.reason);
    if (!one.message.empty()) CHECK(one.reply.message() == one.message);
  }
  CHECK(api.store.revision() == 2);  // nothing of this was a write
}

TEST_CASE("api_store: a patch is one compare-and-swap when it carries a resourceVersion", "[cli]") {
  StoreFixture api;
  const std::string version = api.create_pod("a").body["metadata"]["resourceVersion"];
  const auto with_version = [&](const char* value) {
    return json{{"metadata", {{"resourceVersion", version}, {"labels", {{"k", value}}}}}};
  };
  CHECK(api.patch(api.pods + "/a", with_version("1")).code == 200);
  const Reply late = api.patch(api.pods + "/a", with_version("2"));
  CHECK(late.code == 409);
  CHECK(late.reason() == "Conflict");
  CHECK(late.message() ==
        "Operation cannot be fulfilled on pods \"a\": the object has been modified; please apply "
        "your changes to the "
        "latest version and try again");
  CHECK(api.patch(api.pods + "/a/status", {{"metadata", {{"resourceVersion", version}}},
                                           {"status", {{"phase", "Running"}}}})
            .code == 409);
  CHECK(api.get(api.pods + "/a").body["metadata"]["labels"]["k"] == "1");
}

TEST_CASE("api_store: a patch without a difference writes nothing", "[cli]") {
  StoreFixture api;
  api.create_pod("a", {{"labels", {{"k", "1"}}}});
  const auto before = api.store.revision();
  const Reply reply =
      api.patch(api.pods + "/a", {{"metadata", {{"labels", {{"k", "1"}, {"gone", nullptr}}}}}});
  CHECK(reply.code == 200);
  CHECK(reply.body["metadata"]["resourceVersion"] == std::to_string(before));
  CHECK(api.store.revision() == before);
}

TEST_CASE("api_store: spec and status are written apart, and only spec counts generations",
          "[cli]") {
  StoreFixture api;
  REQUIRE(api.post(api.jobs, StoreFixture::job("j")).code == 201);
  const std::string j = api.jobs + "/j";
  CHECK_FALSE(api.get(j).body.contains("status"));

  const json both = {{"spec", {{"suspend", true}}}, {"status", {{"phase", "Queued"}}}};
  const Reply status = api.patch(j + "/status", both);
  REQUIRE(status.code == 200);
  CHECK(status.body["status"]["phase"] == "Queued");
  CHECK_FALSE(status.body["spec"].value("suspend", false));
  CHECK(status.body["metadata"]["generation"] == 1);

  const Reply spec =
      api.patch(j, {{"spec", {{"suspend", true}}}, {"status", {{"phase", "Failed"}}}});
  REQUIRE(spec.code == 200);
  CHECK(spec.body["status"]["phase"] == "Queued");
  CHECK(spec.body["spec"]["suspend"] == true);
  CHECK(spec.body["metadata"]["generation"] == 2);

  CHECK(api.patch(j, {{"metadata", {{"labels", {{"a", "b"}}}}}}).body["metadata"]["generation"] ==
        2);
}

TEST_CASE("api_store: nobody rewrites an object's identity", "[cli]") {
  StoreFixture api;
  api.create_pod("a");
  CHECK(api.patch(api.pods + "/a", {{"metadata", {{"uid", "other"}}}}).code == 422);
  CHECK(api.patch(api.pods + "/a", {{"metadata", {{"name", "b"}}}}).code == 400);
  CHECK(api.patch(api.pods + "/a", {{"metadata", {{"deletionTimestamp", "2026-01-01T00:00:00Z"}}}})
            .code == 422);
  CHECK(api.patch(api.pods + "/a", {{"spec", {{"nodeName", "n"}}}}).code == 422);
  CHECK(api.patch(api.pods + "/a", {{"metadata", {{"uid", nullptr}}}}).code == 200);
}

TEST_CASE("api_store: a TrainingJob is defaulted and validated like its schema", "[cli]") {
  StoreFixture api;
  json job = StoreFixture::job("j");
  job["spec"].erase("replicas");
  const Reply created = api.post(api.jobs, job);
  REQUIRE(created.code == 201);
  CHECK(created.body["spec"]["replicas"] == 1);
  CHECK(created.body["spec"]["failurePolicy"]["maxRestarts"] == 6);

  json wrong = StoreFixture::job("k");
  wrong["spec"]["replicas"] = 0;
  wrong["spec"]["failurePolicy"] = {{"maxRestarts", -1}};
  const Reply refused = api.post(api.jobs, wrong);
  CHECK(refused.code == 422);
  CHECK(refused.message().rfind("TrainingJob.pawl.dev \"k\" is invalid: [", 0) == 0);
  CHECK(refused.body["details"]["causes"].size() == 2);

  const Reply frozen =
      api.patch(api.jobs + "/j", {{"spec", {{"template", {{"spec", {{"hostNetwork", true}}}}}}}});
  CHECK(frozen.code == 422);
}

TEST_CASE("api_store: a WorkerGroup's generation moves forward by one or not at all", "[cli]") {
  StoreFixture api;
  const json group = {{"apiVersion", "pawl.dev/v1alpha1"},
                      {"kind", "WorkerGroup"},
                      {"metadata", {{"name", "g"}}},
                      {"spec", {{"attempt", 1}, {"minMembers", 1}, {"targetMembers", 1}}}};
  REQUIRE(api.post(api.groups, group).code == 201);
  const std::string status = api.groups + "/g/status";
  CHECK(api.patch(status, {{"status", {{"attempt", 1}, {"term", 1}, {"generation", 1}}}}).code ==
        200);
  CHECK(api.patch(status, {{"status", {{"generation", 3}}}}).code == 422);
  CHECK(api.patch(status, {{"status", {{"generation", 0}}}}).code == 422);
  CHECK(api.patch(status, {{"status", {{"generation", 2}}}}).code == 200);
}

TEST_CASE("api_store: lists select by labels and fields", "[cli]") {
  StoreFixture api;
  api.create_pod("a", {{"labels", {{"app", "x"}, {"tier", "1"}}}});
  api.create_pod("b", {{"labels", {{"app", "y"}}}});
  api.create_pod("c");
  struct Case {
    std::string query, names;
  };
  const std::vector<Case> cases = {
      {"", "abc"},
      {"labelSelector=app%3Dx", "a"},
      {"labelSelector=app%3D%3Dx", "a"},
      {"labelSelector=app%21%3Dx", "bc"},
      {"labelSelector=app", "ab"},
      {"labelSelector=%21app", "c"},
      {"labelSelector=app+in+(x,y)", "ab"},
      {"labelSelector=app+notin+(x)", "bc"},
      {"labelSelector=app+in+(x,y),tier", "a"},
      {"fieldSelector=metadata.name%3Db", "b"},
      {"fieldSelector=metadata.name%21%3Db", "ac"},
      {"fieldSelector=status.phase%3DPending&labelSelector=%21app", "c"},
      {"fieldSelector=spec.nodeName%3D", "abc"},
  };
  for (const Case& one : cases) {
    INFO(one.query);
    const Reply reply = api.get(api.pods + "?" + one.query);
    REQUIRE(reply.code == 200);
    std::string names;
    for (const json& item : reply.body["items"]) names += item["metadata"]["name"];
    CHECK(names == one.names);
    CHECK(reply.body["kind"] == "PodList");
  }
  CHECK(api.get("/api/v1/pods").body["items"].size() == 3);
  CHECK(api.get("/api/v1/namespaces/other/pods").body["items"].empty());
}

TEST_CASE("api_store: the pages of a list show one revision", "[cli]") {
  StoreFixture api;
  for (const char* name : {"a", "b", "c", "d"}) api.create_pod(name);
  const Reply first = api.get(api.pods + "?limit=2");
  const json& meta = first.body["metadata"];
  CHECK(first.body["items"].size() == 2);
  CHECK(meta["remainingItemCount"] == 2);
  const std::string token = kube::encode_query(meta["continue"]);
  api.remove(api.pods + "/c");
  api.create_pod("e");
  const Reply second = api.get(api.pods + "?limit=2&continue=" + token);
  REQUIRE(second.code == 200);
  CHECK(second.body["items"].size() == 2);
  CHECK(second.body["items"][0]["metadata"]["name"] == "c");
  CHECK(second.body["metadata"]["resourceVersion"] == meta["resourceVersion"]);
  CHECK_FALSE(second.body["metadata"].contains("continue"));

  api.store.compact(api.store.revision());
  const Reply gone = api.get(api.pods + "?limit=2&continue=" + token);
  CHECK(gone.code == 410);
  CHECK(gone.reason() == "Expired");
}

TEST_CASE("api_store: a pod is bound to a node once", "[cli]") {
  StoreFixture api;
  const Reply pod = api.create_pod("a");
  const json binding = {{"metadata", {{"name", "a"}, {"uid", pod.body["metadata"]["uid"]}}},
                        {"target", {{"name", "n1"}}}};
  json foreign = binding;
  foreign["metadata"]["uid"] = "x";
  json nameless = binding;
  nameless["metadata"].erase("name");
  CHECK(api.post(api.pods + "/a/binding", foreign).code == 409);
  CHECK(api.post(api.pods + "/a/binding", nameless).code == 400);
  CHECK(api.post(api.pods + "/a/binding", binding).code == 201);
  CHECK(api.get(api.pods + "/a").body["spec"]["nodeName"] == "n1");
  CHECK(api.post(api.pods + "/a/binding", binding).code == 409);
}
