// Quotas of nodes of one kind (placement.flavors).
#include <catch2/catch_test_macros.hpp>

#include "operator/controller/queue_limits.h"
#include "tests/unit/operator/queued_world.h"

using namespace pawl;
using namespace pawl::test;
using nlohmann::json;
using std::chrono::seconds;

namespace {

const json kH100 = {{"gpu", "h100"}};

// Of four machines two have H100s and two A100s; the queue may use 8 of the first, 4 of the others.
struct Flavored : Queued {
  Flavored() {
    for (const char* name : {"node-a", "node-b"}) label(name, "h100");
    for (const char* name : {"node-c", "node-d"}) label(name, "a100");
    cluster.options.flavors = {{"h100", {{"gpu", "h100"}}}, {"a100", {{"gpu", "a100"}}}};
    set_quotas("8", "4");
    cluster.start_operator();
  }
  void label(const std::string& machine, const std::string& gpu) {
    cluster.edit_machine(machine, [&](placement::Host& host) { host.labels["gpu"] = gpu; });
  }
  void set_quotas(const std::string& h100, const std::string& a100) {
    cluster.edit_queue("team-a", [&](api::TrainingQueue& queue) {
      queue.quotas = {{.resource = "nvidia.com/gpu", .nominal = h100, .flavor = "h100"},
                      {.resource = "nvidia.com/gpu", .nominal = a100, .flavor = "a100"}};
    });
  }
  // Each worker takes four GPUs.
  void create_on(const std::string& name, int replicas, const json& labels,
                 const json& scheduling = kTeam) {
    json affinity;  // as a template may say it as well
    for (const auto& [key, value] : labels.items()) {
      const json is_it = {{"key", key}, {"operator", "In"}, {"values", json::array({value})}};
      affinity["nodeSelectorTerms"] = json::array({{{"matchExpressions", json::array({is_it})}}});
    }
    json spec = {
        {"containers", json::array({{{"name", "worker"},
                                     {"image", "example/train:1"},
                                     {"command", {"/train"}},
                                     {"resources", {{"limits", {{"nvidia.com/gpu", 4}}}}}}})}};
    if (is_by_affinity) {
      spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] = affinity;
    } else if (!labels.empty()) {
      spec["nodeSelector"] = labels;
    }
    cluster.clock.advance(seconds{1});
    const json job = {{"apiVersion", "pawl.dev/v1alpha1"},
                      {"kind", "TrainingJob"},
                      {"metadata", {{"name", name}, {"namespace", "team"}}},
                      {"spec",
                       {{"replicas", replicas},
                        {"runtime", {{"kind", "Custom"}}},
                        {"scheduling", scheduling},
                        {"template", {{"spec", spec}}}}}};
    cluster.call(kube::create_request(kube::resources::kTrainingJobs, "team", job));
  }
  bool is_by_affinity = false;
};

}  // namespace

TEST_CASE("flavor: a job needs quota of the nodes that its template demands", "[controller][I44]") {
  Flavored world;
  SECTION("by nodeSelector") {}
  SECTION("by affinity") { world.is_by_affinity = true; }
  world.create_on("one", 1, {{"gpu", "a100"}});
  world.create_on("two", 1, {{"gpu", "a100"}});
  world.create_on("three", 2, kH100);
  world.cluster.settle(seconds{30});
  CHECK(world.phase("one") == "Running");
  CHECK(world.phase("three") == "Running");
  CHECK(
      world.message("two") ==
      "no quota for 1 worker in queue team-a: nvidia.com/gpu@a100 4 is needed, 0 can be had (4 of "
      "4 used); it starts when jobs end or quotas are raised");
  SECTION("the quota is raised") {
    world.set_quotas("8", "8");
    world.cluster.settle(seconds{30});
    CHECK(world.phase("two") == "Running");
  }
  SECTION("what is charged outlives the operator") {
    world.cluster.start_operator();
    world.cluster.settle(seconds{30});
    CHECK(world.reason("two") == "WaitingForQuota");
  }
}

TEST_CASE("flavor: one for which the queue has no quota, or none, is told what to write",
          "[controller][I44]") {
  Flavored world;
  world.create_on("none", 1, json::object());
  world.create_on("other", 1, {{"gpu", "b200"}});
  world.cluster.settle(seconds{30});
  for (const char* job : {"none", "other"}) {
    CHECK(world.reason(job) == "InvalidScheduling");
    CHECK(
        world.message(job) ==
        "spec.scheduling.queueName: TrainingQueue \"team-a\" has nvidia.com/gpu on nodes of some "
        "flavors alone: suspend the job and have its template's nodeSelector name one of h100 "
        "{\"gpu\":\"h100\"}, a100 {\"gpu\":\"a100\"}, or have a quota of other nodes added to the "
        "queue");
  }
  world.cluster.edit_queue("team-a", [](api::TrainingQueue& queue) {
    queue.quotas.push_back({.resource = "nvidia.com/gpu", .nominal = "4"});
  });
  world.cluster.settle(seconds{30});
  CHECK(world.phase("none") == "Running");  // of all other nodes
}

TEST_CASE("flavor: jobs that run are charged for what their queue lists by now",
          "[controller][I44]") {
  Flavored world;
  world.cluster.set_queue("team-a", 16);  // of whatever nodes
  world.create_on("one", 2, kH100);
  world.cluster.settle(seconds{30});
  REQUIRE(world.phase("one") == "Running");
  world.set_quotas("8", "4");
  world.create_on("two", 1, kH100);
  world.cluster.settle(seconds{30});
  CHECK(world.reason("two") == "WaitingForQuota");
  CHECK(world.message("two").find("(8 of 8 used)") != std::string::npos);
}

TEST_CASE("flavor: who waits is counted by the names that its queue has by now",
          "[controller][I44]") {
  Flavored world;
  SECTION("all nodes, then flavors") {
    world.cluster.set_queue("team-a", 8);
    world.create_on("one", 2, kH100);
    world.create_on("two", 1, kH100);
    world.create_on("plain", 1, json::object());
    world.cluster.settle(seconds{30});
    REQUIRE(world.phase("one") == "Running");
    REQUIRE(world.reason("two") == "WaitingForQuota");
    world.set_quotas("8", "4");
    world.cluster.settle(seconds{60});
    CHECK(world.reason("two") == "WaitingForQuota");
    CHECK(world.reason("plain") == "InvalidScheduling");
    CHECK(world.pods() == 2);
  }
  SECTION("flavors, then all nodes") {
    world.create_on("one", 2, kH100);
    world.create_on("two", 1, kH100);
    world.cluster.settle(seconds{30});
    REQUIRE(world.reason("two") == "WaitingForQuota");
    world.cluster.set_queue("team-a", 8);
    world.cluster.settle(seconds{60});
    CHECK(world.reason("two") == "WaitingForQuota");
    CHECK(world.pods() == 2);
  }
}

TEST_CASE("flavor: what is charged for nodes that are in no view yet stays charged",
          "[controller][I44]") {
  Flavored world;
  auto& lagging = world.cluster.lagging;
  world.cluster.fault = [&](const kube::HttpRequest& request) {
    const bool has_nodes = request.target.find("/trainingjobs/one/status") != std::string::npos &&
                           request.body.find("node-a") != std::string::npos;
    if (has_nodes) lagging.insert(controller::Kind::kJob);
    return Fault::kNone;
  };
  world.create_on("one", 2, kH100);
  world.create_on("two", 2, kH100);
  world.cluster.settle();
  REQUIRE(!lagging.empty());
  world.set_quotas("8", "8");
  world.cluster.settle(seconds{5});
  lagging.clear();
  world.cluster.fault = nullptr;
  world.cluster.settle(seconds{60});
  CHECK(world.pods() == 2);
  CHECK(world.phase("one") == "Running");
  CHECK(world.reason("two") == "WaitingForQuota");
}

TEST_CASE("flavor: of those that overlap the one with the most labels counts", "[controller]") {
  const controller::Flavors flavors = {{"a", {{"gpu", "h100"}}},
                                       {"b", {{"gpu", "h100"}, {"zone", "1"}}}};
  const auto flavor = [&](const json& labels) {
    return controller::flavor_of(flavors, placement::Demands::of({{"nodeSelector", labels}}));
  };
  CHECK(flavor({{"gpu", "h100"}}) == "a");
  CHECK(flavor({{"gpu", "h100"}, {"zone", "1"}}) == "b");
  CHECK(flavor({{"zone", "1"}}).empty());
}

TEST_CASE("flavor: what a queue does not use of one others borrow, and give back",
          "[controller][I44][I45]") {
  Flavored world;
  world.cluster.set_queue("team-b", 0);
  world.cluster.edit_queue("team-b", [](api::TrainingQueue& queue) {
    queue.quotas = {{.resource = "nvidia.com/gpu", .nominal = "4", .flavor = "a100"}};
  });
  world.create_on("borrower", 2, {{"gpu", "a100"}});  // eight of its four
  world.cluster.settle(seconds{30});
  REQUIRE(world.phase("borrower") == "Running");
  world.create_on("owner", 1, {{"gpu", "a100"}}, {{"queueName", "team-b"}});
  world.cluster.settle(seconds{60});
  CHECK(world.phase("owner") == "Running");
  CHECK(world.reason("borrower") == "WaitingForQuota");
}

TEST_CASE("flavor: the status of a queue tells them apart", "[controller]") {
  api::TrainingQueue queue{.quotas = {{.resource = "cpu", .nominal = "1500m", .flavor = "h100"},
                                      {.resource = "cpu", .nominal = "2"}}};
  queue.meta.name = "team-a";
  admission::Quotas quotas;
  quotas.set("team-a", controller::limits_of(queue));
  quotas.charge("team/one", "team-a", {{"cpu@h100", 500}});
  const auto status = controller::status_of(queue, quotas, 0);
  CHECK(status.usage == "cpu@h100 500m/1500m, cpu 0/2");
  REQUIRE(status.quotas.size() == 2);
  CHECK(status.quotas[0].flavor == "h100");
  CHECK(status.quotas[0].used == "500m");
}

TEST_CASE("flavor: what is no table of them is refused with the form that it has", "[controller]") {
  CHECK(controller::parse_flavors("")->empty());
  CHECK(controller::parse_flavors(R"({"a": {"b": "c"}})")->at("a").at("b") == "c");
  for (const char* text : {"[]", "x", R"({"a": {}})", R"({"a": "b"})", R"({"a": {"b": 1}})"}) {
    const auto flavors = controller::parse_flavors(text);
    REQUIRE_FALSE(flavors);
    CHECK(flavors.error().message.find(R"(must be {"NAME": {"LABEL": "VALUE"}}, not)") == 0);
  }
}
