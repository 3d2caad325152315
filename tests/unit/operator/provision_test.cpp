// Gangs for which an autoscaler is asked to add nodes (ProvisioningRequests).
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include "common/api/provisioning.h"
#include "tests/unit/operator/asking_world.h"

using namespace pawl;
using namespace pawl::test;
using api::ProvisioningStage;
using std::chrono::minutes;
using std::chrono::seconds;

namespace {

bool says(const World& world, const std::string& text) {
  return world.job.status.message.find(text) != std::string::npos;
}

int times_told(const World& world, const std::string& event) {
  return static_cast<int>(std::ranges::count(world.events, event));
}

}  // namespace

TEST_CASE("provision: who waits for room for a while asks for nodes for all of it, once",
          "[core][I49]") {
  AskingWorld world(3);
  world.settle(seconds{9});
  CHECK(world.node_requests.empty());
  world.settle(seconds{2});
  CHECK(world.name() == "gpt-job-uid-1-1-1");
  CHECK(world.asked_for == std::vector{3});
  CHECK(world.pod_templates == std::set<std::string>{"gpt-job-uid-1-1-1"});
  CHECK(world.job.status.reason == "WaitingForRoom");
  CHECK(world.job.status.message ==
        "no room; the autoscaler is asked for nodes (request gpt-job-uid-1-1-1)");
  CHECK(times_told(world, "NodesRequested") == 1);
  const int writes = world.status_writes;
  world.settle(minutes{20});
  CHECK(world.status_writes == writes);
  CHECK(world.asked_for.size() == 1);
  world.answer(ProvisioningStage::kAccepted);
  world.settle(seconds{1});  // at once
  CHECK(says(world, "; the autoscaler adds nodes for it (request gpt-job-uid-1-1-1)"));
  world.answer(ProvisioningStage::kAccepted, "no capacity, tries later");
  world.settle(seconds{1});
  CHECK(says(world,
             "; the autoscaler has found none so far (request gpt-job-uid-1-1-1): no "
             "capacity, tries later"));
  world.answer(ProvisioningStage::kProvisioned);
  world.settle(seconds{1});
  CHECK(says(world, "; the autoscaler has nodes for it (request "));
}

TEST_CASE("provision: the gang begins on the nodes that came, and asks for none any more",
          "[core][I49]") {
  AskingWorld world(2);
  world.settle(seconds{11});
  const std::string name = world.name();
  world.answer(ProvisioningStage::kProvisioned);
  world.has_room = true;
  world.is_kubelet_on = false;
  world.settle(seconds{1});
  // As long as its pods are yet to be there what was booked for them is kept.
  CHECK(world.consuming ==
        std::map<std::string, std::string>{{"gpt-1-0-0", name}, {"gpt-1-1-0", name}});
  CHECK(world.node_requests.size() == 1);
  world.is_kubelet_on = true;
  world.settle(seconds{30});
  CHECK(world.condition("Running") == "True");
  CHECK(world.node_requests.empty());
  CHECK(world.pod_templates.empty());
  CHECK(world.broken.empty());
}

TEST_CASE("provision: where it gets none it asks again, later each time", "[core][I49]") {
  AskingWorld world(2);
  world.settle(seconds{11});
  std::vector<std::int64_t> waits;
  for (int number = 1; number <= 7; ++number) {
    REQUIRE(world.newest().number == number);
    world.answer(ProvisioningStage::kOver, "no quota for g2");
    const TimePoint since = world.now;
    while (world.newest().number == number) {
      REQUIRE(world.now < since + minutes{40});
      world.settle(seconds{1});
      if (world.newest().number != number) break;
      CHECK(says(world, "; the autoscaler cannot add nodes: no quota for g2; asked again at "));
      world.now += seconds{29};
    }
    waits.push_back(std::chrono::duration_cast<minutes>(world.now - since).count());
    CHECK(world.node_requests.size() == 1);  // the one before goes
    CHECK(world.pod_templates.size() == 1);
  }
  CHECK(waits == std::vector<std::int64_t>{1, 2, 4, 8, 16, 30, 30});
  CHECK(times_told(world, "NodesRefused") == 7);
}

TEST_CASE("provision: a refusal is no reason to write again and again", "[core][I49][I15]") {
  AskingWorld world(2);
  world.settle(seconds{11});
  world.answer(ProvisioningStage::kOver, std::string(2'000, 'x'));
  world.settle(seconds{2});
  const int writes = world.status_writes;
  world.settle(seconds{50});
  CHECK(world.status_writes == writes);
}

TEST_CASE("provision: who waits for anything else asks for nothing", "[core][I49]") {
  AskingWorld world(2);
  world.lacks_nodes = false;
  world.settle(minutes{30});
  CHECK(world.asked_for.empty());
  CHECK(world.job.status.message == "no room");
}

TEST_CASE("provision: what was refused while it waits for others is asked for when it may be",
          "[core][I49]") {
  AskingWorld world(2);
  world.settle(seconds{11});
  world.answer(ProvisioningStage::kOver, "no");
  world.lacks_nodes = false;
  world.settle(minutes{10});
  CHECK(world.asked_for.size() == 1);
  world.lacks_nodes = true;
  world.now += seconds{30};
  world.settle(seconds{30});
  CHECK(world.asked_for.size() == 2);
}

TEST_CASE("provision: not asked for, or not served, nothing is made", "[core][I49]") {
  AskingWorld world(2);
  const bool is_off = GENERATE(true, false);
  world.policy.provisioning = is_off ? core::OptionalApi::kOff : core::OptionalApi::kMissing;
  world.settle(minutes{1});
  CHECK(world.asked_for.empty());
  CHECK(world.children.empty());
  CHECK(world.job.status.message ==
        (is_off ? "no room"
                : "no room; the cluster serves no ProvisioningRequests (autoscaling.x-k8s.io/v1), "
                  "so that no autoscaler is asked for nodes"));
}

TEST_CASE("provision: what nobody waits for any more goes", "[core][I49]") {
  AskingWorld world(2);
  world.settle(seconds{11});
  REQUIRE(world.node_requests.size() == 1);
  const auto also = [&](std::int64_t attempt) {
    api::NodeRequest other = world.newest();
    other.attempt = attempt;
    other.name = "gpt-job-uid-" + std::to_string(attempt) + "-1-1";
    world.node_requests[other.name] = other;
  };
  SECTION("suspended") {
    world.set_suspended(true);
    world.settle(seconds{5});
    CHECK(world.node_requests.empty());
    world.set_suspended(false);
    world.settle(seconds{30});
    CHECK(world.newest().attempt == 2);
  }
  SECTION("failed") {
    world.set_spec([](auto& spec) { spec.deadlines.start_seconds = 60; });
    world.settle(minutes{5});
    REQUIRE(world.condition("Failed") == "True");
    CHECK(world.node_requests.empty());
  }
  SECTION("left of another attempt") {
    also(0);
    world.settle(seconds{5});
    CHECK(world.node_requests.size() == 1);
    CHECK(world.name() == "gpt-job-uid-1-1-1");
  }
  SECTION("of a later attempt, which this view does not know of") {
    also(2);
    world.settle(seconds{5});
    CHECK(world.node_requests.size() == 2);
  }
  SECTION("of a job that had this name") {
    api::NodeRequest other = world.newest();
    other.job_uid = "another";
    other.name = "gpt-another-1-1-1";
    world.node_requests[other.name] = other;
    world.set_suspended(true);
    world.settle(minutes{1});
    CHECK(world.node_requests.size() == 1);  // the garbage collector's
    CHECK(world.name() == other.name);
  }
  CHECK(world.broken.empty());
}

TEST_CASE("provision: another size or template is asked for at once, by another name",
          "[core][I49]") {
  AskingWorld world(2);
  world.settle(seconds{11});
  world.set_spec([](auto& spec) { spec.replicas = 5; });
  world.settle(seconds{1});
  CHECK(world.name() == "gpt-job-uid-1-2-1");
  CHECK(world.asked_for == std::vector{2, 5});
  CHECK(world.pod_templates.size() == 1);
}

TEST_CASE("provision: one that may begin smaller asks for all first, then for its least",
          "[core][I49][I35]") {
  AskingWorld world(World::elastic(6, 4));
  world.settle(seconds{11});
  CHECK(world.asked_for == std::vector{6});
  world.answer(ProvisioningStage::kOver, "too many");
  world.settle(minutes{2});
  CHECK(world.asked_for == std::vector{6, 4});
}

TEST_CASE("provision: where the API server takes no request the job waits as before",
          "[core][I49][I14]") {
  AskingWorld world(2);
  const char* kind = GENERATE("PodTemplate", "ProvisioningRequest");
  world.refusal = core::Refusal{.action = std::string("create ") + kind,
                                .message = "you may not",
                                .reason = "Forbidden",
                                .retry_at = world.now + minutes{2},
                                .generation = 1};
  world.settle(minutes{1});
  CHECK(world.condition("Stalled") != "True");
  CHECK(world.job.status.reason == "WaitingForRoom");
  CHECK(world.job.status.message == std::string("no room; create ") + kind +
                                        " was refused, so that the autoscaler is not asked for "
                                        "nodes: you may not");
  CHECK(world.asked_for.empty());
  world.settle(minutes{2});
  CHECK(world.asked_for == std::vector{2});
  world.has_room = true;
  world.now += seconds{1};
  world.settle(seconds{30});
  CHECK(world.condition("Running") == "True");
}

TEST_CASE("provision: a request that is refused again and again is said once", "[core][I49][I15]") {
  AskingWorld world(2);
  world.refusal = core::Refusal{.action = "create PodTemplate",
                                .message = "you may not",
                                .reason = "Forbidden",
                                .retry_at = world.now + minutes{2},
                                .generation = 1};
  world.settle(minutes{1});
  const std::string told = world.job.status.message;
  world.now = world.refusal->retry_at;
  const core::Plan plan = world.plan();
  REQUIRE(plan.actions.size() == 2);
  for (const core::Action& action : plan.actions)
    CHECK(std::get_if<core::CreateChild>(&action) != nullptr);
  CHECK(told.ends_with("so that the autoscaler is not asked for nodes: you may not"));
}

TEST_CASE("provision: where another class is asked the next request is made at once",
          "[core][I49]") {
  AskingWorld world(2);
  world.settle(seconds{11});
  REQUIRE(world.asked_for.size() == 1);
  world.node_requests.begin()->second.class_name = "mistyped";
  world.policy.children.provisioning_class = "right";
  world.settle(seconds{1});
  CHECK(world.asked_for.size() == 2);
  CHECK(world.node_requests.size() == 1);
  CHECK(world.newest().number == 2);
}

TEST_CASE("provision: a gang that has begun asks for nothing, nor do its successors consume",
          "[core][I49][I33]") {
  AskingWorld world(World(3, api::RuntimeKind::kNative));
  world.has_room = true;
  world.settle(seconds{5});
  world.commit();
  world.report(10);
  world.settle(seconds{30});
  REQUIRE(world.condition("Running") == "True");
  world.has_room = false;
  world.remove_pod(1);
  world.settle(minutes{5});
  CHECK(world.asked_for.empty());
  CHECK(world.consuming.empty());
}
