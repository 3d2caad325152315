// What the client asks and understands, against a real API server.
#include <set>

#include "tests/integration/kube/cluster.h"

using namespace pawl;
using namespace pawl::kube;

namespace {

Code code_of(const Result<json>& result) {
  REQUIRE(!result);
  UNSCOPED_INFO(result.error().message);
  CHECK(!result.error().message.empty());
  return result.error().code;
}

json value_patch(const std::string& value, const std::string& version = "") {
  json patch = {{"data", {{"v", value}}}};
  if (!version.empty()) patch["metadata"]["resourceVersion"] = version;
  return patch;
}

}  // namespace

TEST_CASE("api server: an object's life, with the answers that decisions rest on", "[kube]") {
  Cluster cluster;
  const json first = cluster.create("a");
  const std::string uid = first["metadata"]["uid"], version = first["metadata"]["resourceVersion"];

  CHECK(cluster.call(get_request(kConfigMaps, cluster.ns(), "a")).value()["metadata"]["uid"] ==
        uid);
  CHECK(code_of(cluster.call(create_request(
            kConfigMaps, cluster.ns(), {{"metadata", {{"name", "a"}}}}))) == Code::kAlreadyExists);

  const json second = cluster.patch("a", value_patch("1", version));
  CHECK(second["data"]["v"] == "1");
  CHECK(is_at_least(second["metadata"]["resourceVersion"], version));
  CHECK(!is_at_least(version, second["metadata"]["resourceVersion"]));
  // The version has moved: this patch would overwrite what it has not seen.
  CHECK(code_of(cluster.call(merge_patch_request(kConfigMaps, cluster.ns(), "a",
                                                 value_patch("2", version)))) == Code::kConflict);

  DeleteOptions wrong;
  wrong.uid = "00000000-0000-4000-8000-000000000000";
  CHECK(code_of(cluster.call(delete_request(kConfigMaps, cluster.ns(), "a", wrong))) ==
        Code::kConflict);
  DeleteOptions stale;
  stale.uid = uid;
  stale.resource_version = version;
  CHECK(code_of(cluster.call(delete_request(kConfigMaps, cluster.ns(), "a", stale))) ==
        Code::kConflict);
  CHECK(cluster.call(get_request(kConfigMaps, cluster.ns(), "a")).value()["data"]["v"] == "1");

  cluster.remove(first);
  CHECK(code_of(cluster.call(get_request(kConfigMaps, cluster.ns(), "a"))) == Code::kNotFound);
  CHECK(code_of(cluster.call(merge_patch_request(kConfigMaps, cluster.ns(), "a",
                                                 value_patch("3")))) == Code::kNotFound);
  DeleteOptions right;
  right.uid = uid;
  CHECK(code_of(cluster.call(delete_request(kConfigMaps, cluster.ns(), "a", right))) ==
        Code::kNotFound);
}

TEST_CASE("api server: what it cannot accept is Invalid and says why", "[kube]") {
  Cluster cluster;
  const auto refused = [&](const json& object) {
    const auto result = cluster.call(create_request(kConfigMaps, cluster.ns(), object));
    return !result && result.error().code == Code::kInvalid && !result.error().message.empty();
  };
  CHECK(refused({{"metadata", {{"name", "Not A Name"}}}}));               // 422
  CHECK(refused({{"metadata", {{"name", "a"}}}, {"data", {{"v", 5}}}}));  // 400
  HttpRequest garbage = create_request(kConfigMaps, cluster.ns(), {{"metadata", {{"name", "a"}}}});
  garbage.body = "{";
  CHECK(code_of(cluster.call(garbage)) == Code::kInvalid);
  HttpRequest media = garbage;
  media.content_type = "text/plain";
  CHECK(code_of(cluster.call(media)) == Code::kInvalid);
}

TEST_CASE("api server: a list comes in pages that together are the whole, by selector", "[kube]") {
  Cluster cluster;
  for (int i = 0; i < 7; ++i) {
    cluster.create("a" + std::to_string(i), {{"parity", i % 2 == 0 ? "even" : "odd"}});
  }
  std::set<std::string> names;
  ListOptions options;
  options.limit = 2;
  options.label_selector = "parity in (even, odd),!absent";
  int pages = 0;
  do {
    const auto page = cluster.call(list_request(kConfigMaps, cluster.ns(), options));
    REQUIRE(page);
    CHECK((*page)["items"].size() <= 2);
    for (const json& item : (*page)["items"]) names.insert(item["metadata"]["name"]);
    options.continue_token = (*page)["metadata"].value("continue", "");
    ++pages;
  } while (!options.continue_token.empty());
  CHECK(pages == 4);
  CHECK(names.size() == 7);
  ListOptions odd;
  odd.label_selector = "parity=odd";
  CHECK(cluster.call(list_request(kConfigMaps, cluster.ns(), odd)).value()["items"].size() == 3);
  ListOptions one;
  one.field_selector = "metadata.name=a3";
  CHECK(cluster.call(list_request(kConfigMaps, cluster.ns(), one)).value()["items"].size() == 1);
}

TEST_CASE("api server: a ServiceAccount without rights is Forbidden, with a wrong token too",
          "[kube]") {
  Cluster cluster;
  const auto nobody = cluster.as_service_account("nobody");
  const auto result = Cluster::call(*nobody, get_request(kConfigMaps, cluster.ns(), "a"));
  CHECK(code_of(result) == Code::kForbidden);
  CHECK(result.error().message.find("cannot get resource") != std::string::npos);
  CHECK(code_of(Cluster::call(
            *nobody, create_request(kConfigMaps, cluster.ns(), {{"metadata", {{"name", "a"}}}}))) ==
        Code::kForbidden);
}

TEST_CASE("api server: large objects pass both ways", "[kube]") {
  Cluster cluster;
  const std::string large(900'000, 'x');
  const auto made = cluster.call(create_request(
      kConfigMaps, cluster.ns(), {{"metadata", {{"name", "a"}}}, {"data", {{"v", large}}}}));
  REQUIRE(made);
  CHECK(cluster.call(get_request(kConfigMaps, cluster.ns(), "a")).value()["data"]["v"] == large);
}
