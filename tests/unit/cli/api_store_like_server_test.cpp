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

const std::string kEvents = "/api/v1/namespaces/default/events";

json event(const std::string& name, json meta) {
  meta["name"] = name;
  return {{"apiVersion", "v1"},
          {"kind", "Event"},
          {"metadata", std::move(meta)},
          {"involvedObject", {{"kind", "Pod"}, {"name", "a"}, {"namespace", "default"}}}};
}

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
  object["metadata"]["finalizers"] = json::array({"x/y"});
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
  CHECK(event["object"]["metadata"]["finalizers"] == json::array({"x/y"}));
  CHECK(event["object"]["metadata"]["resourceVersion"] == std::to_string(revision + 1));
}

TEST_CASE("api_store: the propagation of a pod's deletion is fixed only while grace is left",
          "[cli]") {
  StoreFixture api;
  api.create_pod("a", {{"finalizers", {"x/y"}}});
  const std::string a = api.pods + "/a";
  REQUIRE(
      api.post(a + "/binding", {{"metadata", {{"name", "a"}}}, {"target", {{"name", "n"}}}}).code ==
      201);
  const Reply first = api.remove(a, {{"gracePeriodSeconds", 20}});
  CHECK(api.remove(a, {{"propagationPolicy", "Foreground"}}).body == first.body);
  // Less than nothing is one second.
  const Reply hastened = api.remove(a, {{"gracePeriodSeconds", -5}});
  CHECK(hastened.body["metadata"]["deletionGracePeriodSeconds"] == 1);

  const Reply over = api.remove(a, {{"gracePeriodSeconds", 0}});
  CHECK(over.body["metadata"]["finalizers"] == json::array({"x/y"}));
  CHECK(api.remove(a).body == over.body);
  CHECK(api.remove(a, {{"gracePeriodSeconds", 9}}).body == over.body);
  for (const auto& [policy, finalizer] :
       {std::pair{"Foreground", "foregroundDeletion"}, std::pair{"Orphan", "orphan"}}) {
    const Reply again = api.remove(a, {{"propagationPolicy", policy}, {"gracePeriodSeconds", 9}});
    CHECK(again.body["metadata"]["finalizers"] == json::array({"x/y", finalizer}));
    CHECK(again.body["metadata"]["generation"] == over.body["metadata"]["generation"]);
    CHECK(again.body["metadata"]["deletionGracePeriodSeconds"] == 0);
  }
}

TEST_CASE("api_store: Events have no part in garbage collection", "[cli]") {
  StoreFixture api;
  const json job = api.post(api.jobs, StoreFixture::job("j")).body;
  api.post(kEvents, event("a", {{"ownerReferences", json::array({owner_of(job, true)})}}));
  json stranger = owner_of(job);
  stranger["uid"] = "00000000-0000-4000-8000-000000000000";
  const json both = json::array({stranger, owner_of(job)});
  api.post(kEvents, event("b", {{"ownerReferences", both}}));
  CHECK(api.store.collect_garbage() == 0);
  // It blocks no owner, and is not told that its owner went.
  REQUIRE(api.remove(api.jobs + "/j", {{"propagationPolicy", "Foreground"}}).code == 200);
  api.collect_all();
  CHECK(api.get(api.jobs + "/j").code == 404);
  CHECK(api.get(kEvents + "/a").code == 200);
  CHECK(api.get(kEvents + "/b").body["metadata"]["ownerReferences"] == both);
  // No deletion of one waits for the collector.
  api.post(kEvents, event("c", {{"finalizers", json::array({"orphan"})}}));
  for (const char* policy : {"Orphan", "Foreground", "Background"}) {
    api.post(kEvents, event("d", json::object()));
    CHECK(api.remove(kEvents + "/d", {{"propagationPolicy", policy}}).body["status"] == "Success");
    CHECK(api.get(kEvents + "/d").code == 404);
  }
  CHECK(api.remove(kEvents + "/c").code == 200);
  CHECK(api.get(kEvents + "/c").code == 404);
}

TEST_CASE("api_store: a kind that counts no generations keeps the client's", "[cli]") {
  StoreFixture api;
  const auto create = [&](const json& generation) {
    json object = lease("a");
    object["metadata"]["generation"] = generation;
    object["metadata"]["finalizers"] = json::array({"x/y"});
    return api.post(kLeases, object);
  };
  CHECK(create(-1).code == 422);
  CHECK(create("7").code == 400);
  CHECK(create(7).body["metadata"]["generation"] == 7);
  const std::string a = kLeases + "/a";
  const json change = {{"metadata", {{"generation", 40}}}, {"spec", {{"holderIdentity", "you"}}}};
  CHECK(api.patch(a, change).body["metadata"]["generation"] == 7);
  CHECK(api.patch(a, {{"metadata", {{"generation", "8"}}}}).code == 422);
  CHECK(api.remove(a).body["metadata"]["generation"] == 8);
  api.patch(a, {{"metadata", {{"finalizers", nullptr}}}});
  CHECK_FALSE(create(0).body["metadata"].contains("generation"));

  json job = StoreFixture::job("j");
  job["metadata"]["generation"] = -1;
  CHECK(api.post(api.jobs, job).body["metadata"]["generation"] == 1);
}

TEST_CASE("api_store: rules are not asked about an object that breaks its schema", "[cli]") {
  StoreFixture api;
  REQUIRE(api.post(api.jobs, StoreFixture::job("j")).code == 201);
  const auto fields_of = [&](const json& spec) {
    std::vector<std::string> fields;
    const Reply reply = api.patch(api.jobs + "/j", {{"spec", spec}});
    for (const json& cause : reply.body["details"]["causes"]) fields.push_back(cause["field"]);
    return fields;
  };
  const json no_containers = {{"spec", {{"containers", nullptr}, {"hostNetwork", true}}}};
  CHECK(fields_of({{"template", no_containers}}) ==
        std::vector<std::string>{"spec.template.spec.containers"});
  CHECK(fields_of({{"replicas", "3"}, {"processesPerWorker", 2}}) ==
        std::vector<std::string>{"spec.replicas"});
  CHECK(fields_of({{"runtime", {{"config", json::object()}}}, {"processesPerWorker", 2}}) ==
        std::vector<std::string>{"spec.runtime", "spec.processesPerWorker"});
}

TEST_CASE("api_store: a patch is refused for its namespace, then its name, then its version",
          "[cli]") {
  StoreFixture api;
  REQUIRE(api.post(api.jobs, StoreFixture::job("j")).code == 201);
  const std::string place =
      "the namespace of the provided object does not match the namespace sent on the request";
  const std::string name = "the name of the object (k) does not match the name on the URL (j)";
  for (const char* part : {"", "/status", "/scale"}) {
    const auto refusal = [&](const json& meta) {
      return api.patch(api.jobs + "/j" + part, {{"metadata", meta}}).message();
    };
    CHECK(refusal({{"namespace", "other"}, {"name", "k"}, {"resourceVersion", "1"}}) == place);
    CHECK(refusal({{"namespace", "other"}, {"resourceVersion", "abc"}}) == place);
    CHECK(refusal({{"name", "k"}, {"resourceVersion", "abc"}}) == name);
    CHECK(refusal({{"name", nullptr}}) ==
          "the name of the object (j based on URL) was undeterminable: name must be provided");
    CHECK(refusal({{"resourceVersion", "abc"}}) ==
          "strconv.ParseUint: parsing \"abc\": invalid syntax");
    CHECK(refusal({{"resourceVersion", "1"}}).starts_with("Operation cannot be fulfilled"));
  }
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
