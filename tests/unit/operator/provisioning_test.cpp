// Nodes that an autoscaler is asked for, on a cluster that serves ProvisioningRequests, or does
// not.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <map>

#include "common/api/contract.h"
#include "operator/controller/watches.h"
#include "tests/unit/operator/placed_world.h"

using namespace pawl;
using namespace pawl::test;
using nlohmann::json;
using std::chrono::seconds;

namespace {

constexpr char kClass[] = "check-capacity.autoscaling.x-k8s.io";

kube::HttpResponse status_answer(int status, const char* reason) {
  return {.status = status, .body = json{{"kind", "Status"}, {"reason", reason}}.dump()};
}

// Two machines with 8 GPUs each, and an API server that keeps requests and templates, and shows
// requests to whoever watches them.
struct Asking : PlacedWorld {
  Asking() : PlacedWorld({"node-a", "node-b"}) {
    cluster.options.policy.children.provisioning_class = kClass;
    cluster.other_server = [this](const kube::HttpRequest& request) { return handle(request); };
    start_operator();
  }
  void start_operator() {
    cluster.start_operator();
    for (const auto& [name, request] : requests) show(request);
    cluster.inbox()->post_node_requests_listed();
  }
  void show(const json& request, bool is_gone = false) {
    if (is_view_behind) return;
    const auto events = controller::node_request_informer_events(cluster.inbox());
    (is_gone ? events.on_delete : events.on_upsert)(request);
  }
  std::optional<kube::HttpResponse> handle(const kube::HttpRequest& request) {
    const std::string& target = request.target;
    if (target == "/apis/autoscaling.x-k8s.io/v1") {
      if (!is_served) return status_answer(404, "NotFound");
      const json list = {{"kind", "APIResourceList"},
                         {"resources", {{{"name", "provisioningrequests"}}}}};
      return kube::HttpResponse{.status = 200, .body = list.dump()};
    }
    if (target.find("/provisioningrequests") != std::string::npos) return keep(requests, request);
    if (target.find("/podtemplates") != std::string::npos) return keep(templates, request);
    return std::nullopt;
  }
  kube::HttpResponse keep(std::map<std::string, json>& objects, const kube::HttpRequest& request) {
    if (is_forbidden) return status_answer(403, "Forbidden");
    ++calls[kube::method_name(request.method)];
    const bool is_shown = &objects == &requests;
    if (request.method == kube::Method::kPost) {
      json object = parse_json(request.body);
      const std::string name = object["metadata"]["name"];
      if (objects.contains(name)) return status_answer(409, "AlreadyExists");
      object["metadata"]["uid"] = "uid-of-" + name;
      object["metadata"]["resourceVersion"] = "1";
      objects[name] = object;
      if (is_shown) show(object);
      return {.status = 201, .body = object.dump()};
    }
    const auto found = objects.find(target_name(request));
    if (found == objects.end()) return status_answer(404, "NotFound");
    const json object = found->second;
    if (request.method == kube::Method::kDelete) {
      objects.erase(found);
      if (is_shown) show(object, true);
    }
    return {.status = 200, .body = object.dump()};
  }
  static std::string target_name(const kube::HttpRequest& request) {
    return request.target.substr(request.target.rfind('/') + 1);
  }
  // The autoscaler's word on the only request that there is.
  void answer(const char* condition, const char* message) {
    REQUIRE(requests.size() == 1);
    json& request = requests.begin()->second;
    request["status"]["conditions"] = {{{"type", condition},
                                        {"status", "True"},
                                        {"reason", "Said"},
                                        {"message", message},
                                        {"lastTransitionTime", format_time(cluster.clock.now())}}};
    show(request);
  }
  bool says(const char* text) { return message("train").find(text) != std::string::npos; }

  bool is_served = true, is_forbidden = false, is_view_behind = false;
  std::map<std::string, json> requests, templates;
  std::map<std::string, int> calls;
};

}  // namespace

TEST_CASE("provisioning: a gang that is larger than the cluster gets the nodes that it asks for",
          "[controller][I49][I48]") {
  Asking world;
  world.cluster.create_job("train", 6, "Custom", 4);
  world.cluster.settle(seconds{8});
  CHECK(world.reason("train") == "WaitingForRoom");
  CHECK(world.requests.empty());
  world.cluster.settle(seconds{5});
  REQUIRE(world.requests.size() == 1);
  const auto [name, request] = *world.requests.begin();
  const json pods = {{{"count", 6}, {"podTemplateRef", {{"name", name}}}}};
  CHECK(request["spec"] == json{{"provisioningClassName", kClass}, {"podSets", pods}});
  CHECK(request["metadata"]["ownerReferences"][0]["kind"] == "TrainingJob");
  const json pod = world.templates.at(name)["template"];
  CHECK(placement::requests_of(pod).at("nvidia.com/gpu") == 4);
  CHECK_FALSE(pod["spec"].contains("affinity"));
  CHECK(pod["metadata"]["labels"][api::kLabelJobName] == "train");
  CHECK_FALSE(pod["metadata"].contains("name"));
  world.answer("Accepted", "");
  world.cluster.settle(seconds{31});
  CHECK(world.says("; the autoscaler adds nodes for it (request "));
  world.answer("Provisioned", "");
  world.cluster.set_machine("node-c", 8);
  world.cluster.settle(seconds{30});
  CHECK(world.phase("train") == "Running");
  for (const json& one : world.cluster.all(kube::resources::kPods)) {
    const json& annotations = one["metadata"]["annotations"];
    CHECK(annotations["autoscaling.x-k8s.io/consume-provisioning-request"] == name);
    CHECK(annotations["autoscaling.x-k8s.io/provisioning-class-name"] == kClass);
  }
  CHECK(world.requests.empty());
  CHECK(world.templates.empty());
}

TEST_CASE("provisioning: what the autoscaler cannot do is told, and asked for again",
          "[controller][I49]") {
  Asking world;
  world.cluster.create_job("train", 6, "Custom", 4);
  world.cluster.settle(seconds{12});
  const std::string first = world.requests.begin()->first;
  const bool is_late = GENERATE(false, true);
  world.answer(is_late ? "BookingExpired" : "Failed", "no machines of that kind");
  if (GENERATE(false, true)) world.start_operator();
  world.cluster.settle(seconds{40});
  CHECK(world.says("no machines of that kind; asked again at 2"));
  CHECK(world.says("the nodes came, and are kept for it no longer") == is_late);
  CHECK(world.requests.begin()->first == first);
  world.cluster.settle(seconds{30});
  REQUIRE(world.requests.size() == 1);
  CHECK(world.requests.begin()->first == first.substr(0, first.size() - 1) + "2");
  CHECK(world.templates.size() == 1);
}

TEST_CASE("provisioning: where the cluster serves none, it says so, and waits or is Stalled",
          "[controller][I49][I48]") {
  Asking world;
  world.is_served = false;
  world.start_operator();
  const int workers = GENERATE(3, 6);
  world.cluster.take("node-a", 8);
  world.cluster.create_job("train", workers, "Custom", 4);
  world.cluster.settle(seconds{40});
  CHECK(world.reason("train") == (workers == 3 ? "WaitingForRoom" : "NeverFits"));
  CHECK(world.says("the cluster serves no ProvisioningRequests") == (workers == 3));
  CHECK(world.calls.empty());
  // Until it does.
  world.is_served = true;
  world.cluster.settle(seconds{120});
  CHECK(world.reason("train") == "WaitingForRoom");
  CHECK(world.requests.size() == 1);
}

TEST_CASE("provisioning: while its view is behind nothing is asked for twice",
          "[controller][I49][B03]") {
  Asking world;
  world.is_view_behind = true;
  world.cluster.create_job("train", 6, "Custom", 4);
  world.cluster.settle(seconds{50});
  CHECK(world.requests.size() == 1);
  CHECK(world.calls == std::map<std::string, int>{{"POST", 2}});
  CHECK(world.says("; the autoscaler is asked for nodes (request "));
  world.is_view_behind = false;
  world.show(world.requests.begin()->second);
  world.is_view_behind = true;
  world.cluster.patch_job("train", {{"spec", {{"suspend", true}}}});
  world.cluster.settle(seconds{50});
  CHECK(world.requests.empty());
  CHECK(world.calls["DELETE"] == 2);  // nor is it deleted twice
  CHECK(world.calls["GET"] == 2);
}

TEST_CASE("provisioning: who waits for quota, or far back in line, asks for nothing",
          "[controller][I49][I44]") {
  Asking world;
  world.cluster.set_queue("team", 4);
  world.cluster.create_job("train", 6, "Custom", 4, {{"queueName", "team"}});
  world.cluster.settle(seconds{40});
  CHECK(world.reason("train") == "WaitingForQuota");
  CHECK(world.requests.empty());
  for (int i = 0; i < 20; ++i) {
    world.cluster.clock.advance(seconds{1});
    world.cluster.create_job("job-" + std::to_string(i), 6, "Custom", 4);
    world.cluster.settle(seconds{1});
  }
  world.cluster.settle(seconds{60});
  CHECK(world.requests.size() == 16);
}

TEST_CASE("provisioning: an operator that may not ask says so, and its jobs run none the less",
          "[controller][I49]") {
  Asking world;
  world.is_forbidden = true;
  world.cluster.create_job("train", 6, "Custom", 4);
  world.cluster.settle(seconds{40});
  CHECK(world.phase("train") == "Starting");
  CHECK(world.says("create PodTemplate was refused, so that the autoscaler is not asked"));
  world.cluster.set_machine("node-c", 8);
  world.cluster.settle(seconds{30});
  CHECK(world.phase("train") == "Running");
}

TEST_CASE("provisioning: an operator that dies anywhere asks once", "[controller][I49]") {
  for (int steps = 0; steps < 40; ++steps) {
    INFO("dies after " << steps << " steps");
    Asking world;
    world.cluster.create_job("train", 6, "Custom", 4);
    world.cluster.settle(seconds{9});
    for (int step = 0; step < steps; ++step) {
      if (!world.cluster.step()) world.cluster.clock.advance(std::chrono::milliseconds{300});
    }
    world.start_operator();
    world.cluster.settle(seconds{30});
    CHECK(world.requests.size() == 1);
    CHECK(world.templates.size() == 1);
  }
}
