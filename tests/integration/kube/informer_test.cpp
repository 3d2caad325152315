// The informer against a real API server: what it is told converges to what is there, whatever
// happens between.
#include <future>

#include "tests/integration/kube/cluster.h"

using namespace pawl;
using namespace pawl::kube;

namespace {

bool is_synced(View& view) { return view.synced() > 0; }

json data(const std::string& value) { return {{"data", {{"v", value}}}}; }

}  // namespace

TEST_CASE("informer: sees what is there, in pages, and what happens then", "[kube]") {
  Cluster cluster;
  json objects = json::array();
  for (int i = 0; i < 25; ++i) objects.push_back(cluster.create("a" + std::to_string(i)));
  InformerOptions options;
  options.page_size = 10;
  View view(cluster, cluster.transport(), options);
  view.wait_for("the list", is_synced);
  CHECK(view.size() == 25);
  cluster.create("new");
  cluster.patch("a3", data("changed"));
  cluster.remove(objects[7]);
  view.wait_for("new", [](View& v) { return v.value("new") == "0"; });
  view.wait_for("the change", [](View& v) { return v.value("a3") == "changed"; });
  view.wait_for("the delete", [](View& v) { return v.value("a7").empty(); });
  CHECK(view.size() == 25);
  CHECK(view.synced() == 1);
}

TEST_CASE("informer: an object that leaves the selector is deleted from the view", "[kube]") {
  Cluster cluster;
  cluster.create("in", {{"team", "x"}});
  cluster.create("out", {{"team", "y"}});
  InformerOptions options;
  options.label_selector = "team=x";
  View view(cluster, cluster.transport(), options);
  view.wait_for("the list", is_synced);
  CHECK(view.size() == 1);
  cluster.patch("out", {{"metadata", {{"labels", {{"team", "x"}}}}}});
  view.wait_for("the one that comes in", [](View& v) { return v.value("out") == "0"; });
  cluster.patch("in", {{"metadata", {{"labels", {{"team", "z"}}}}}});
  view.wait_for("the one that leaves", [](View& v) { return v.is_told("-in"); });
  CHECK(view.size() == 1);
}

TEST_CASE("informer: a deleted and recreated name is a delete and an add", "[kube][B01]") {
  Cluster cluster;
  const json first = cluster.create("a");
  View view(cluster, cluster.transport(), {});
  view.wait_for("the list", is_synced);
  cluster.remove(first);
  cluster.create("a");
  view.wait_for("both", [](View& v) {
    return v.told() == std::vector<std::string>{"+a", "synced", "-a", "+a"};
  });
  CHECK(view.size() == 1);
}

TEST_CASE("api server: forgotten history is 410, for the next page of a list and for a watch",
          "[kube][B13]") {
  Cluster cluster;
  for (int i = 0; i < 3; ++i) cluster.create("a" + std::to_string(i));
  ListOptions list;
  list.limit = 1;
  const json page = cluster.call(list_request(kConfigMaps, cluster.ns(), list)).value()["metadata"];
  cluster.create("later");
  cluster.compact_history();
  cluster.restart_api_server();  // what it still had in memory is gone too
  cluster.wait_until_ready();
  list.continue_token = page["continue"];
  const auto next = cluster.call(list_request(kConfigMaps, cluster.ns(), list));
  REQUIRE(!next);
  CHECK(next.error().code == Code::kGone);

  WatchOptions watch;
  watch.resource_version = page["resourceVersion"];
  std::string bytes;  // read after `ended`, which comes after the last piece
  std::promise<Result<HttpResponse>> ended;
  const RequestHandle handle = cluster.transport().stream(
      watch_request(kConfigMaps, cluster.ns(), watch),
      [&](std::string_view piece) { bytes += piece; },
      [&](Result<HttpResponse> end) { ended.set_value(std::move(end)); });
  auto end = ended.get_future();
  const bool is_ended = end.wait_for(kPatience) == std::future_status::ready;
  cluster.transport().cancel(handle);
  const auto result = end.get();
  REQUIRE(is_ended);
  REQUIRE(result);
  // Either way is allowed: as an event in the stream, or as the answer.
  const json event = parse_json(bytes.empty() ? result->body : bytes);
  CHECK((event.value("type", "") == "ERROR" ? event["object"]["code"] : event["code"]) == 410);
}

TEST_CASE("informer: recovers from a restart of the API server and sees what changed meanwhile",
          "[kube][B12]") {
  Cluster cluster;
  const json doomed = cluster.create("doomed");
  cluster.create("changed");
  View view(cluster, cluster.transport(), {});
  view.wait_for("the list", is_synced);
  cluster.restart_api_server();
  cluster.wait_until_ready();
  cluster.create("new");
  cluster.patch("changed", data("1"));
  cluster.remove(doomed);
  view.wait_for("the new object", [](View& v) { return v.value("new") == "0"; });
  view.wait_for("the change", [](View& v) { return v.value("changed") == "1"; });
  view.wait_for("the delete", [](View& v) { return v.value("doomed").empty(); });
  CHECK(view.size() == 2);
}

TEST_CASE("informer: a server that stands still is noticed, and followed again when it moves",
          "[kube][B12]") {
  Cluster cluster;
  cluster.create("a");
  InformerOptions options;
  options.silence_max = std::chrono::milliseconds{1'000};
  View view(cluster, cluster.transport(), options);
  view.wait_for("the list", is_synced);
  cluster.freeze_api_server();
  cluster.wait_for_log("silent for 1000 ms");
  cluster.thaw_api_server();
  cluster.wait_until_ready();
  cluster.patch("a", data("1"));
  view.wait_for("the change", [](View& v) { return v.value("a") == "1"; });
}

TEST_CASE("informer: history that was compacted during an outage costs a list, not the view",
          "[kube][B13]") {
  Cluster cluster;
  const json doomed = cluster.create("doomed");
  cluster.create("stays");
  View view(cluster, cluster.transport(), {});
  view.wait_for("the list", is_synced);
  // What happens in another namespace moves the server's version on and is not shown to this watch.
  Cluster elsewhere;
  for (int i = 0; i < 3; ++i) elsewhere.create("noise" + std::to_string(i));
  elsewhere.compact_history();
  elsewhere.restart_api_server();  // its watch cache begins anew, after where the view is
  cluster.wait_until_ready();
  cluster.remove(doomed);
  cluster.create("new");
  view.wait_for("the new object", [](View& v) { return v.value("new") == "0"; });
  view.wait_for("the delete", [](View& v) { return v.value("doomed").empty(); });
  CHECK(view.value("stays") == "0");
  CHECK(view.synced() == 2);  // the watch could not go on; it listed again
}

TEST_CASE("informer: with get and watch of one name only, as a launcher has", "[kube]") {
  Cluster cluster;
  cluster.create("mine");
  cluster.create("other");
  const json rules = {{{"apiGroups", {""}},
                       {"resources", {"configmaps"}},
                       {"resourceNames", {"mine"}},
                       {"verbs", {"get", "watch"}}}};
  const auto launcher = cluster.as_service_account("launcher", rules);
  InformerOptions options;
  options.can_list = false;
  options.field_selector = "metadata.name=mine";
  // The role reaches the authorizer a moment after it was made; until then 403 is retried.
  View view(cluster, *launcher, options);
  view.wait_for("the object", is_synced);
  CHECK(view.value("mine") == "0");
  cluster.patch("mine", data("1"));
  cluster.patch("other", data("1"));
  view.wait_for("the change", [](View& v) { return v.value("mine") == "1"; });
  CHECK(view.size() == 1);
  cluster.restart_api_server();
  cluster.wait_until_ready();
  cluster.patch("mine", data("2"));
  view.wait_for("the change after the restart", [](View& v) { return v.value("mine") == "2"; });
}

TEST_CASE("informer: nothing is told after stop", "[kube]") {
  Cluster cluster;
  cluster.create("a");
  View view(cluster, cluster.transport(), {});
  view.wait_for("the list", is_synced);
  View witness(cluster, cluster.transport(), {});
  witness.wait_for("the list", is_synced);
  view.informer().stop();
  const std::size_t told = view.told().size();
  cluster.create("late");
  witness.wait_for("what the other does not see", [](View& v) { return v.value("late") == "0"; });
  CHECK(view.told().size() == told);
  view.informer().stop();
}
