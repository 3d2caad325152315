// Every prefix of every plan, followed by a crash, leads to the same end (Sieve's
// intermediate-state bugs, B06, B39).
#include <catch2/catch_test_macros.hpp>

#include "tests/unit/operator/asking_world.h"

using namespace pawl;
using namespace pawl::test;
using std::chrono::seconds;

namespace {

struct Scenario {
  std::string name;
  std::function<void(World&)> run;
};

std::vector<Scenario> scenarios() {
  const auto start = [](World& world) { world.settle(seconds{120}); };
  const auto suspend = [](World& world, bool value) {
    world.set_spec([value](auto& spec) { spec.is_suspended = value; });
    world.settle(seconds{120});
  };
  return {
      {"complete",
       [=](World& world) {
         start(world);
         world.succeed_all();
         world.settle(seconds{120});
       }},
      {"fail, restart, complete",
       [=](World& world) {
         start(world);
         world.fail(1, 1, "Error");
         world.settle(seconds{120});
         world.succeed_all();
         world.settle(seconds{120});
       }},
      {"deleted pod, then too many failures",
       [=](World& world) {
         world.set_spec([](auto& spec) { spec.max_restarts = 1; });
         start(world);
         world.delete_pod(0);
         world.settle(seconds{120});
         for (int i = 0; i < 2; ++i) {
           world.fail(0, 1, "Error");
           world.settle(seconds{120});
         }
       }},
      {"a lost member is replaced, complete",
       [=](World& world) {
         world.job.spec.runtime_kind = api::RuntimeKind::kNative;
         start(world);
         world.report(10);
         world.settle(seconds{120});
         world.delete_pod(1);
         world.finish_terminating();
         world.settle(seconds{120});
         world.commit_next(12);
         world.settle(seconds{120});
         world.succeed_all();
         world.settle(seconds{120});
       }},
      {"suspend and resume",
       [=](World& world) {
         start(world);
         suspend(world, true);
         suspend(world, false);
         world.succeed_all();
         world.settle(seconds{120});
       }},
      {"rules: a node is replaced, then an end by rule",
       [=](World& world) {
         world.set_spec([](auto& spec) {
           spec.failure_rules = {{"node", api::RuleAction::kReplaceNode, {41}, false, {}},
                                 {"end", api::RuleAction::kFail, {42}, false, {}}};
           spec.clean_pod_policy = api::CleanPodPolicy::kNone;
         });
         start(world);
         world.fail(0, 41, "Error");
         world.settle(seconds{120});
         world.fail(1, 42, "Error");
         world.settle(seconds{120});
       }},
      {"out of memory, hang, deadline",
       [=](World& world) {
         world.set_spec([](auto& spec) {
           spec.runtime_kind = api::RuntimeKind::kNative;
           spec.deadlines.progress_seconds = 100;
           spec.deadlines.active_seconds = 500;
           spec.clean_pod_policy = api::CleanPodPolicy::kAll;
         });
         world.settle(seconds{50});
         world.fail(0, 137);
         world.pod(0).terminated_reason = "OOMKilled";
         world.settle(seconds{200});
         world.settle(seconds{400});
       }},
      {"resize, ttl",
       [=](World& world) {
         world.set_spec([](auto& spec) { spec.ttl_seconds_after_finished = 60; });
         start(world);
         world.set_spec([](auto& spec) { spec.replicas = 3; });
         world.settle(seconds{120});
         world.succeed_all();
         world.settle(seconds{120});
       }},
  };
}

}  // namespace

TEST_CASE("crash: after any prefix of any plan the job comes to the same end",
          "[core][B06][B14][B39][A5]") {
  for (const Scenario& scenario : scenarios()) {
    World reference(2);
    scenario.run(reference);
    REQUIRE(reference.broken.empty());
    REQUIRE(reference.actions_done > 10);
    for (int crash_after = 0; crash_after < reference.actions_done; ++crash_after) {
      INFO(scenario.name << ", crash after action " << crash_after);
      World world(2);
      world.actions_until_crash = crash_after;
      scenario.run(world);
      CHECK(world.text() == reference.text());
      CHECK(world.pods_created == reference.pods_created);
      CHECK(world.broken.empty());
      REQUIRE_FALSE(world.actions_until_crash);  // the crash did happen
    }
  }
}

// The autoscaler has nothing at first; then it has.
TEST_CASE("crash: after any prefix of any plan nodes are asked for once each time",
          "[core][I49][B06]") {
  const auto run = [](AskingWorld& world) {
    world.settle(seconds{30});
    world.answer(api::ProvisioningStage::kOver, "none left");
    world.settle(seconds{90});
    world.answer(api::ProvisioningStage::kProvisioned);
    world.has_room = true;
    world.now += seconds{1};
    world.settle(seconds{120});
    world.succeed_all();
    world.settle(seconds{120});
  };
  AskingWorld reference(2);
  run(reference);
  REQUIRE(reference.asked_for.size() == 2);
  for (int crash_after = 0; crash_after < reference.actions_done; ++crash_after) {
    INFO("crash after action " << crash_after);
    AskingWorld world(2);
    world.actions_until_crash = crash_after;
    run(world);
    CHECK(world.text() == reference.text());
    CHECK(world.asked_for == reference.asked_for);
    CHECK(world.node_requests.empty());
    CHECK(world.pod_templates.empty());
    CHECK(world.pods_created == reference.pods_created);
    CHECK(world.broken.empty());
    REQUIRE_FALSE(world.actions_until_crash);
  }
}
