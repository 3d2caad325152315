#include <catch2/catch_test_macros.hpp>

#include "tests/unit/cli/store_fixture.h"

using namespace pawl;
using namespace pawl::local;
using nlohmann::json;

namespace {

void bind(StoreFixture& api, const std::string& name) {
  const json binding = {{"metadata", {{"name", name}}}, {"target", {{"name", "n"}}}};
  REQUIRE(api.post(api.pods + "/" + name + "/binding", binding).code == 201);
}

}  // namespace

TEST_CASE("api_store: a delete with a wrong precondition deletes nothing", "[cli]") {
  StoreFixture api;
  const json meta = api.create_account("a").body["metadata"];
  const Reply uid = api.remove(api.accounts + "/a", {{"preconditions", {{"uid", "other"}}}});
  CHECK(uid.code == 409);
  CHECK(uid.message() ==
        "Operation cannot be fulfilled on ServiceAccount \"a\": the UID in the precondition "
        "(other) does "
        "not match the UID in record (" +
            meta["uid"].get<std::string>() +
            "). The object might have been deleted and then recreated");
  CHECK(api.remove(api.accounts + "/a", {{"preconditions", {{"resourceVersion", "1"}}}}).code ==
        409);
  CHECK(api.get(api.accounts + "/a").code == 200);
  CHECK(api.remove(api.accounts + "/a",
                   {{"preconditions",
                     {{"uid", meta["uid"]}, {"resourceVersion", meta["resourceVersion"]}}}})
            .code == 200);
  CHECK(api.get(api.accounts + "/a").code == 404);
  CHECK(api.remove(api.accounts + "/a").code == 404);
}

TEST_CASE("api_store: a running pod is terminating until its node lets it go", "[cli]") {
  StoreFixture api;
  const std::string a = api.pods + "/a";
  const json uid = api.create_pod("a").body["metadata"]["uid"];
  bind(api, "a");
  const Reply first = api.remove(a);
  CHECK(first.code == 200);
  CHECK(first.body["metadata"]["deletionGracePeriodSeconds"] == 30);
  CHECK(first.body["metadata"]["deletionTimestamp"] ==
        format_time(api.clock.now() + std::chrono::seconds{30}));
  CHECK(first.body["metadata"]["generation"] == 2);

  const auto revision = api.store.revision();
  api.clock.advance(std::chrono::seconds{5});
  CHECK(api.remove(a).body == first.body);  // again: nothing new
  CHECK(api.remove(a, {{"gracePeriodSeconds", 60}}).body == first.body);
  CHECK(api.store.revision() == revision);

  const Reply hastened = api.remove(a, {{"gracePeriodSeconds", 10}});
  CHECK(hastened.body["metadata"]["deletionGracePeriodSeconds"] == 10);
  CHECK(api.get(a).code == 200);
  CHECK(api.remove(a, {{"gracePeriodSeconds", 0}, {"preconditions", {{"uid", uid}}}}).code == 200);
  CHECK(api.get(a).code == 404);
}

TEST_CASE("api_store: a pod that runs nowhere goes at once", "[cli]") {
  StoreFixture api;
  api.create_pod("pending");
  CHECK(api.remove(api.pods + "/pending").code == 200);
  CHECK(api.get(api.pods + "/pending").code == 404);
  for (const char* phase : {"Succeeded", "Failed"}) {
    api.create_pod("done");
    bind(api, "done");
    api.patch(api.pods + "/done/status", {{"status", {{"phase", phase}}}});
    CHECK(api.remove(api.pods + "/done").code == 200);
    CHECK(api.get(api.pods + "/done").code == 404);
  }
}

TEST_CASE("api_store: finalizers hold a deleted object, and no new ones come", "[cli]") {
  StoreFixture api;
  const std::string a = api.accounts + "/a";
  json account = {{"apiVersion", "v1"},
                  {"kind", "ServiceAccount"},
                  {"metadata", {{"name", "a"}, {"finalizers", {"x/y"}}}}};
  REQUIRE(api.post(api.accounts, account).code == 201);
  CHECK(api.remove(a).body["metadata"].contains("deletionTimestamp"));
  CHECK(api.get(a).code == 200);
  CHECK(api.patch(a, {{"metadata", {{"finalizers", {"x/y", "x/z"}}}}}).code == 422);
  CHECK(api.patch(a, {{"metadata", {{"finalizers", nullptr}}}}).code == 200);
  CHECK(api.get(a).code == 404);
}

TEST_CASE("api_store: the garbage collector follows owners by UID", "[cli]") {
  StoreFixture api;
  const json job = api.post(api.jobs, StoreFixture::job("j")).body;
  const json other = api.post(api.jobs, StoreFixture::job("k")).body;
  json stranger = owner_of(job);
  stranger["uid"] = "00000000-0000-4000-8000-000000000000";
  api.create_account("child", json::array({owner_of(job)}));
  api.create_account("shared", json::array({owner_of(job), owner_of(other)}));
  api.create_account("free");
  api.create_account("misled", json::array({stranger}));  // right name, wrong UID
  api.create_account("grandchild", json::array({owner_of(api.get(api.accounts + "/child").body)}));
  json foreign = owner_of(job);
  foreign["apiVersion"] = "apps/v1";
  api.create_account("foreign", json::array({foreign}));
  api.collect_all();
  CHECK(api.get(api.accounts + "/misled").code == 404);

  REQUIRE(api.remove(api.jobs + "/j").code == 200);
  CHECK(api.get(api.accounts + "/child").code == 200);  // until the collector comes
  api.collect_all();
  CHECK(api.get(api.accounts + "/child").code == 404);
  CHECK(api.get(api.accounts + "/grandchild").code == 404);
  CHECK(api.get(api.accounts + "/free").code == 200);
  CHECK(api.get(api.accounts + "/foreign").code == 200);
  CHECK(api.get(api.accounts + "/shared").body["metadata"]["ownerReferences"] ==
        json::array({owner_of(other)}));
  CHECK(api.store.collect_garbage() == 0);
}

TEST_CASE("api_store: orphaned children stay, without their owner", "[cli]") {
  StoreFixture api;
  const json job = api.post(api.jobs, StoreFixture::job("j")).body;
  api.create_account("child", json::array({owner_of(job)}));
  REQUIRE(api.remove(api.jobs + "/j", {{"propagationPolicy", "Orphan"}}).code == 200);
  CHECK(api.get(api.jobs + "/j").body["metadata"]["finalizers"] == json{"orphan"});
  api.collect_all();
  CHECK(api.get(api.jobs + "/j").code == 404);
  CHECK_FALSE(api.get(api.accounts + "/child").body["metadata"].contains("ownerReferences"));
}

TEST_CASE("api_store: a foreground deletion waits for the children that block it", "[cli]") {
  StoreFixture api;
  const json job = api.post(api.jobs, StoreFixture::job("j")).body;
  api.create_pod("child", {{"ownerReferences", json::array({owner_of(job, true)})}});
  bind(api, "child");
  REQUIRE(api.remove(api.jobs + "/j", {{"propagationPolicy", "Foreground"}}).code == 200);
  api.collect_all();
  CHECK(api.get(api.jobs + "/j").code == 200);
  CHECK(api.get(api.pods + "/child").body["metadata"].contains("deletionTimestamp"));
  REQUIRE(api.remove(api.pods + "/child", {{"gracePeriodSeconds", 0}}).code == 200);
  api.collect_all();
  CHECK(api.get(api.pods + "/child").code == 404);
  CHECK(api.get(api.jobs + "/j").code == 404);
}
