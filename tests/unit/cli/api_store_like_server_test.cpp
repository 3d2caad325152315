// Where a random sequence of tests/conformance once told ApiStore from a real API server.
#include <catch2/catch_test_macros.hpp>

#include "tests/unit/cli/store_fixture.h"

using namespace pawl;
using namespace pawl::local;
using nlohmann::json;

namespace {

json lease(const std::string& name, const json& owners = nullptr) {
  json object = {{"apiVersion", "coordination.k8s.io/v1"},
                 {"kind", "Lease"},
                 {"metadata", {{"name", name}}},
                 {"spec", {{"holderIdentity", "me"}}}};
  if (!owners.is_null()) object["metadata"]["ownerReferences"] = owners;
  return object;
}

const std::string kLeases = "/apis/coordination.k8s.io/v1/namespaces/default/leases";

std::string events_of(StoreFixture& api, const std::string& collection, std::uint64_t from) {
  kube::HttpRequest request;
  request.target = collection + "?watch=true&resourceVersion=" + std::to_string(from);
  auto watch = api.store.begin_watch(request);
  REQUIRE(watch.has_value());
  return api.store.read_watch(*watch);
}

}  // namespace

TEST_CASE("api_store: unknown fields are dropped, and refused where the client asks", "[cli]") {
  StoreFixture api;
  json job = StoreFixture::job("j");
  job["spec"]["replica"] = 3;
  const Reply strict = api.post(api.jobs + "?fieldValidation=Strict", job);
  CHECK(strict.code == 400);
  CHECK(strict.message() ==
        "TrainingJob in version \"v1alpha1\" cannot be handled as a TrainingJob: strict decoding "
        "error: unknown field \"spec.replica\"");
  const Reply created = api.post(api.jobs, job);
  REQUIRE(created.code == 201);
  CHECK_FALSE(created.body["spec"].contains("replica"));
  const auto revision = api.store.revision();
  CHECK(api.patch(api.jobs + "/j", {{"spec", {{"other", 1}}}}).code == 200);
  CHECK(api.patch(api.jobs + "/j", {{"spec", {{"suspend", nullptr}}}}).code == 200);
  CHECK(api.store.revision() == revision);  // the default came back: nothing changed
}

TEST_CASE("api_store: a status is checked by its schema, and a status patch writes no labels",
          "[cli]") {
  StoreFixture api;
  REQUIRE(api.post(api.jobs, StoreFixture::job("j")).code == 201);
  const Reply wrong = api.patch(api.jobs + "/j/status", {{"status", {{"phase", 3}}}});
  CHECK(wrong.code == 422);
  CHECK(wrong.body["details"]["causes"][0]["field"] == "status.phase");
  const auto revision = api.store.revision();
  CHECK(api.patch(api.jobs + "/j/status", {{"metadata", {{"labels", {{"k", "v"}}}}}}).code == 200);
  CHECK(api.store.revision() == revision);
  api.create_pod("a");
  const Reply pod = api.patch(api.pods + "/a/status", {{"metadata", {{"labels", {{"k", "v"}}}}}});
  CHECK(pod.body["metadata"]["labels"]["k"] == "v");
}

TEST_CASE("api_store: the patch that ends a deletion answers with what would have been stored",
          "[cli]") {
  StoreFixture api;
  json object = lease("a");
  object["metadata"]["finalizers"] = {"x/y"};
  REQUIRE(api.post(kLeases, object).code == 201);
  const Reply deleted = api.remove(kLeases + "/a");
  const auto revision = api.store.revision();
  CHECK(api.post(kLeases, object).message() ==
        "object is being deleted: leases.coordination.k8s.io \"a\" already exists");
  const Reply last = api.patch(kLeases + "/a", {{"metadata", {{"finalizers", nullptr}}}});
  CHECK(last.body["metadata"]["resourceVersion"] == deleted.body["metadata"]["resourceVersion"]);
  CHECK_FALSE(last.body["metadata"].contains("finalizers"));
  const json event = parse_json(events_of(api, kLeases, revision));
  CHECK(event["type"] == "DELETED");
  CHECK(event["object"]["metadata"]["finalizers"] == json{"x/y"});
  CHECK(event["object"]["metadata"]["resourceVersion"] == std::to_string(revision + 1));
}

TEST_CASE("api_store: nothing of a pod's deletion changes while it is under way", "[cli]") {
  StoreFixture api;
  api.create_pod("a", {{"finalizers", {"x/y"}}});
  const Reply first = api.remove(api.pods + "/a");
  CHECK(first.body["metadata"]["deletionGracePeriodSeconds"] == 0);
  CHECK(api.remove(api.pods + "/a", {{"propagationPolicy", "Foreground"}}).body == first.body);
  CHECK(api.remove(api.pods + "/a", {{"gracePeriodSeconds", 0}}).body == first.body);
}

TEST_CASE("api_store: a foreground deletion spares what another owner holds", "[cli]") {
  StoreFixture api;
  const json one = api.post(api.jobs, StoreFixture::job("j")).body;
  const json other = api.post(api.jobs, StoreFixture::job("k")).body;
  api.post(kLeases, lease("shared", json::array({owner_of(one, true), owner_of(other)})));
  api.post(kLeases, lease("own", json::array({owner_of(one, true)})));
  const auto revision = api.store.revision();
  REQUIRE(api.remove(api.jobs + "/j", {{"propagationPolicy", "Foreground"}}).code == 200);
  api.collect_all();
  CHECK(api.get(api.jobs + "/j").code == 404);
  CHECK(api.get(kLeases + "/own").code == 404);
  CHECK(api.get(kLeases + "/shared").body["metadata"]["ownerReferences"] ==
        json::array({owner_of(other)}));
  // What has no dependents of its own just goes.
  CHECK(events_of(api, kLeases, revision).find("foregroundDeletion") == std::string::npos);
}

TEST_CASE("api_store: the collector hears of every way to lose an owner", "[cli]") {
  StoreFixture api;
  const json job = api.post(api.jobs, StoreFixture::job("j")).body;
  api.post(kLeases, lease("a"));
  api.collect_all();
  // An owner that is named later, and is not there.
  json stranger = owner_of(job);
  stranger["uid"] = "00000000-0000-4000-8000-000000000000";
  REQUIRE(api.patch(kLeases + "/a", {{"metadata", {{"ownerReferences", json::array({stranger})}}}})
              .code == 200);
  CHECK(api.store.collect_garbage() == 1);
  CHECK(api.get(kLeases + "/a").code == 404);
  // A child that no longer blocks lets its owner go.
  api.post(kLeases, lease("b", json::array({owner_of(job, true)})));
  json held = lease("c", json::array({owner_of(job, true)}));
  held["metadata"]["finalizers"] = {"x/y"};
  api.post(kLeases, held);
  REQUIRE(api.remove(api.jobs + "/j", {{"propagationPolicy", "Foreground"}}).code == 200);
  api.collect_all();
  CHECK(api.get(api.jobs + "/j").code == 200);
  api.patch(kLeases + "/c", {{"metadata", {{"finalizers", nullptr}}}});
  api.collect_all();
  CHECK(api.get(api.jobs + "/j").code == 404);
}

TEST_CASE("api_store: the scale of a job is its replicas, under the job's rules", "[cli]") {
  StoreFixture api;
  REQUIRE(api.post(api.jobs, StoreFixture::job("j")).code == 201);
  const std::string scale = api.jobs + "/j/scale";
  CHECK(api.get(scale).body["spec"]["replicas"] == 2);
  CHECK(api.get(scale).body["kind"] == "Scale");
  api.patch(api.jobs + "/j/status", {{"status", {{"replicas", 1}, {"selector", "a=b"}}}});
  const Reply scaled = api.patch(scale, {{"spec", {{"replicas", 5}}}});
  CHECK(scaled.body["spec"]["replicas"] == 5);
  CHECK(scaled.body["status"] == json{{"replicas", 1}, {"selector", "a=b"}});
  CHECK(api.get(api.jobs + "/j").body["metadata"]["generation"] == 2);
  CHECK(api.patch(scale, {{"spec", {{"replicas", 0}}}}).code == 422);
  CHECK(api.patch(scale, {{"metadata", {{"resourceVersion", "1"}}}}).code == 409);
  CHECK(api.patch(scale, {{"spec", {{"replicas", "5"}}}}).code == 422);
  CHECK(api.get(api.groups + "/g/scale").code == 404);
}

TEST_CASE("api_store: a list shows the revision that is asked for", "[cli]") {
  StoreFixture api;
  for (const char* name : {"a", "b", "c"}) api.post(kLeases, lease(name));
  const auto version = std::to_string(api.store.revision());
  api.remove(kLeases + "/b");
  const auto names = [&](const std::string& query) {
    const Reply reply = api.get(kLeases + "?" + query);
    std::string text = std::to_string(reply.code) + " ";
    if (reply.code == 200) {
      for (const json& item : reply.body["items"]) text += item["metadata"]["name"];
    }
    return text;
  };
  CHECK(names("resourceVersion=" + version) == "200 ac");
  CHECK(names("resourceVersionMatch=NotOlderThan&resourceVersion=" + version) == "200 ac");
  CHECK(names("resourceVersionMatch=Exact&resourceVersion=" + version) == "200 abc");
  CHECK(names("limit=2&resourceVersion=" + version) == "200 ab");
  CHECK(names("limit=1&resourceVersion=0") == "200 ac");  // from the cache: all of it
  CHECK(names("resourceVersionMatch=Exact") == "422 ");
  CHECK(names("resourceVersionMatch=Exact&resourceVersion=0") == "422 ");
  CHECK(names("resourceVersion=x") == "400 ");
  CHECK(names("limit=x") == "400 ");
  api.store.compact(api.store.revision());
  CHECK(names("resourceVersionMatch=Exact&resourceVersion=" + version) == "410 ");
}

TEST_CASE("api_store: names and labels follow the rules of their kind", "[cli]") {
  StoreFixture api;
  const auto code = [&](const char* name, const json& labels = json::object()) {
    json object = lease(name);
    object["metadata"]["labels"] = labels;
    return api.post(kLeases, object).code;
  };
  CHECK(code("a.b-c") == 201);
  for (const char* name : {"a..b", "-a", "a-", "A", "a_b", "a.-b"}) {
    INFO(name);
    CHECK(code(name) == 422);
  }
  CHECK(code("b", {{"pawl.dev/job", "a"}}) == 201);
  CHECK(code("c", {{"a b", "c"}}) == 422);
  CHECK(code("d", {{"a", "b c"}}) == 422);
  // Kinds whose names are only part of a path.
  const json budget = {
      {"apiVersion", "policy/v1"}, {"kind", "PodDisruptionBudget"}, {"metadata", {{"name", "B_"}}}};
  CHECK(api.post("/apis/policy/v1/namespaces/default/poddisruptionbudgets", budget).code == 201);
}
