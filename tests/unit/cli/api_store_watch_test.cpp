#include <catch2/catch_test_macros.hpp>
#include <sstream>

#include "tests/unit/cli/store_fixture.h"

using namespace pawl;
using namespace pawl::local;
using nlohmann::json;

namespace {

Watch open(StoreFixture& api, const std::string& query) {
  kube::HttpRequest request;
  request.target = api.pods + "?watch=true&" + query;
  REQUIRE(ApiStore::is_watch(request));
  auto watch = api.store.begin_watch(request);
  REQUIRE(watch.has_value());
  return *watch;
}

// "ADDED a, DELETED b".
std::string summary(const std::string& lines) {
  std::istringstream stream{lines};
  std::string text, line;
  while (std::getline(stream, line)) {
    const json event = parse_json(line);
    if (!text.empty()) text += ", ";
    text += event["type"].get<std::string>() + " " + event["object"]["metadata"].value("name", "");
  }
  return text;
}

}  // namespace

TEST_CASE("api_store: a watch shows what comes after its resourceVersion", "[cli]") {
  StoreFixture api;
  api.create_pod("a");
  const auto start = std::to_string(api.store.revision());
  Watch watch = open(api, "resourceVersion=" + start);
  Watch from_now = open(api, "resourceVersion=0");
  CHECK(api.store.read_watch(watch).empty());
  CHECK(summary(api.store.read_watch(from_now)) == "ADDED a");
  api.create_pod("b");
  api.patch(api.pods + "/a", {{"metadata", {{"labels", {{"k", "v"}}}}}});
  api.create_account("unseen");
  api.remove(api.pods + "/b");
  const std::string all =
      "ADDED b, MODIFIED a, MODIFIED b, DELETED b";  // a deleted pod is seen terminating first
  CHECK(summary(api.store.read_watch(watch)) == all);
  CHECK(summary(api.store.read_watch(from_now)) == all);
  CHECK(api.store.read_watch(watch).empty());
}

TEST_CASE("api_store: an object that stops to match a selector is deleted for its watchers",
          "[cli]") {
  StoreFixture api;
  Watch watch = open(api, "resourceVersion=0&labelSelector=k%3Dv");
  CHECK(api.store.read_watch(watch).empty());
  api.create_pod("a");
  CHECK(api.store.read_watch(watch).empty());
  const auto set = [&](const json& value) {
    api.patch(api.pods + "/a", {{"metadata", {{"labels", {{"k", value}}}}}});
  };
  set("v");
  CHECK(summary(api.store.read_watch(watch)) == "ADDED a");
  set("w");
  const std::string line = api.store.read_watch(watch);
  CHECK(summary(line) == "DELETED a");
  CHECK(parse_json(line)["object"]["metadata"]["labels"]["k"] == "v");
  CHECK(parse_json(line)["object"]["metadata"]["resourceVersion"] ==
        std::to_string(api.store.revision()));
  api.remove(api.pods + "/a");
  CHECK(api.store.read_watch(watch).empty());
}

TEST_CASE("api_store: a watch from before the compaction ends with 410 inside a 200", "[cli]") {
  StoreFixture api{ApiStoreOptions{.first_revision = 1, .history_max = 2}};
  api.create_pod("a");
  Watch watch = open(api, "resourceVersion=" + std::to_string(api.store.revision()));
  for (const char* name : {"b", "c", "d"}) api.create_pod(name);
  const json event = parse_json(api.store.read_watch(watch));
  CHECK(event["type"] == "ERROR");
  CHECK(event["object"]["code"] == 410);
  CHECK(event["object"]["reason"] == "Expired");
  CHECK(event["object"]["message"] == "too old resource version: 2 (3)");
  CHECK(watch.is_over);
  CHECK(api.store.read_watch(watch).empty());
}

TEST_CASE("api_store: a lagging reader sees a prefix of history, and a bookmark says how far it is",
          "[cli]") {
  StoreFixture api;
  Watch watch = open(api, "resourceVersion=1&allowWatchBookmarks=true");
  for (const char* name : {"a", "b", "c"}) api.create_pod(name);
  CHECK(summary(api.store.read_watch(watch, 3)) == "ADDED a, ADDED b");
  const json bookmark = parse_json(api.store.bookmark(watch));
  CHECK(bookmark["type"] == "BOOKMARK");
  CHECK(bookmark["object"]["kind"] == "Pod");
  CHECK(bookmark["object"]["metadata"]["resourceVersion"] == "3");
  CHECK(summary(api.store.read_watch(watch)) == "ADDED c");
}

TEST_CASE("api_store: watches of other namespaces and bad selectors", "[cli]") {
  StoreFixture api;
  kube::HttpRequest request;
  request.target = "/api/v1/namespaces/other/pods?watch=1";
  auto watch = api.store.begin_watch(request);
  REQUIRE(watch.has_value());
  api.create_pod("a");
  CHECK(api.store.read_watch(*watch).empty());
  request.target = api.pods + "?watch=1&fieldSelector=spec.x=1";
  CHECK(api.store.begin_watch(request).error().code == 400);
  request.target = api.pods + "?watch=1&resourceVersion=abc";
  CHECK(api.store.begin_watch(request).error().code == 500);
}
