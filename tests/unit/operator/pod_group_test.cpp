// Gangs that kube-scheduler places as a whole (PodGroups).
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include "common/api/children.h"
#include "tests/unit/operator/seats.h"

using namespace pawl;
using namespace pawl::test;
using core::OptionalApi;
using std::chrono::seconds;

namespace {

World served(World world) {
  world.policy.pod_groups = OptionalApi::kServed;
  return world;
}

// Until the operator dies, in the middle of a plan.
void die_when(World& world, const std::function<bool()>& is_time) {
  world.is_kubelet_on = false;
  for (int plans = 0; plans < 10; ++plans) {
    for (const core::Action& action : world.plan().actions) {
      if (is_time()) {
        world.is_kubelet_on = true;
        return;
      }
      world.apply(action);
    }
  }
  FAIL("it is never time");
}

bool is_placed_together(const World& world) {
  return world.job.status.placed_by == "kube-scheduler, all pods together (as a PodGroup)";
}

}  // namespace

TEST_CASE("pod_group: all pods of a gang belong to one that wants all of them",
          "[core][I47][A44][E10]") {
  World world = served(World(3));
  world.settle(seconds{30});
  CHECK(world.condition("Running") == "True");
  REQUIRE(world.pod_group);
  CHECK(world.pod_group->least == 3);
  CHECK(world.pod_group->is_indivisible);
  CHECK(world.grouped == std::set<std::string>{"gpt-1-0-0", "gpt-1-1-0", "gpt-1-2-0"});
  CHECK(world.group->spec.pod_group == api::pod_group_name(world.job, 1));
  CHECK(is_placed_together(world));
  CHECK(world.broken.empty());
  const int writes = world.status_writes, group_writes = world.group_writes;
  world.settle(seconds{600});
  CHECK(world.status_writes == writes);
  CHECK(world.group_writes == group_writes);
}

TEST_CASE("pod_group: whether it is asked for costs no write more", "[core][I47][I15]") {
  World with = served(World(3)), without(3);
  with.settle(seconds{30});
  without.settle(seconds{30});
  CHECK(with.status_writes == without.status_writes);
  CHECK(with.group_writes == without.group_writes);
  CHECK(without.grouped.empty());
  CHECK(without.group->spec.pod_group.empty());
}

TEST_CASE("pod_group: one that may begin smaller wants its least, and can be divided",
          "[core][I47]") {
  World world = served(World::elastic(4, 2));
  world.settle(seconds{30});
  REQUIRE(world.pod_group);
  CHECK(world.pod_group->least == 2);
  CHECK_FALSE(world.pod_group->is_indivisible);
}

TEST_CASE("pod_group: a gang whose nodes Pawl decides on has none", "[core][I47][I43]") {
  World world = served(World(2));
  world.seats = offer_of;
  world.settle(seconds{30});
  CHECK(world.condition("Running") == "True");
  CHECK_FALSE(world.pod_group);
  CHECK(world.grouped.empty());
}

TEST_CASE("pod_group: a gang that is left to the scheduler after all gets one",
          "[core][I47][I43]") {
  World world = served(World(2));
  world.seats = offer_of;
  world.job.status.restarts.by_cause["Unschedulable"] = world.policy.moves_max;
  world.job.status.restarts.free = world.policy.moves_max;
  world.settle(seconds{30});
  CHECK(world.grouped.size() == 2);
  CHECK(world.pod_group->least == 2);
}

TEST_CASE("pod_group: pods that are somebody else's to schedule are left alone", "[core][I47]") {
  World world = served(World(2));
  SECTION("Kueue's") { world.job.meta.labels["kueue.x-k8s.io/queue-name"] = "q"; }
  SECTION("another scheduler's") {
    world.job.spec.template_json =
        R"({"spec": {"schedulerName": "mine", "containers": [{"name": "worker", "command": ["x"]}]}})";
  }
  SECTION("in a group of the user's") {
    world.job.spec.template_json = R"({"spec": {"schedulingGroup": {"podGroupName": "mine"},)"
                                   R"( "containers": [{"name": "worker", "command": ["x"]}]}})";
  }
  world.settle(seconds{30});
  CHECK(world.condition("Running") == "True");
  CHECK(world.grouped.empty());
  CHECK_FALSE(world.pod_group);
}

TEST_CASE("pod_group: the pods that an attempt begins with are all in it, or none is",
          "[core][I47]") {
  World world(3);
  SECTION("asked for meanwhile") {
    die_when(world, [&] { return world.pods.size() == 1; });
    world.policy.pod_groups = OptionalApi::kServed;
    world.settle(seconds{30});
    CHECK(world.grouped.empty());
  }
  SECTION("no longer asked for") {
    world.policy.pod_groups = OptionalApi::kServed;
    die_when(world, [&] { return world.grouped.size() == 1; });
    world.policy.pod_groups = OptionalApi::kOff;
    world.settle(seconds{30});
    CHECK(world.grouped.size() == 3);
  }
  SECTION("the cluster serves none any more") {
    world.policy.pod_groups = OptionalApi::kServed;
    die_when(world, [&] { return world.grouped.size() == 1; });
    world.policy.pod_groups = OptionalApi::kMissing;
    world.settle(seconds{30});
    CHECK(world.grouped.size() == 1);  // and the API server drops that field
  }
  SECTION("asked for before there is a pod") {
    die_when(world, [&] { return world.group.has_value(); });
    world.policy.pod_groups = OptionalApi::kServed;
    world.settle(seconds{30});
    CHECK(world.grouped.size() == 3);
  }
  CHECK(world.condition("Running") == "True");
  CHECK(world.broken.empty());
}

TEST_CASE("pod_group: who comes later belongs to none", "[core][I47][I33][I34]") {
  World world = served(World(3, api::RuntimeKind::kNative));
  world.settle(seconds{5});
  world.commit();
  world.report(10);
  world.settle(seconds{30});
  REQUIRE(world.grouped.size() == 3);
  world.pod_group.reset();
  SECTION("a successor") {
    world.remove_pod(1);
    world.settle(seconds{5});
    CHECK(world.pods.contains("gpt-1-1-1"));
  }
  SECTION("growth") {
    world.set_spec([](auto& spec) { spec.replicas = 5; });
    world.settle(seconds{5});
    CHECK(world.pods.contains("gpt-1-4-0"));
  }
  CHECK(world.grouped.size() == 3);
  CHECK_FALSE(world.pod_group);  // nor is it asked for
}

TEST_CASE("pod_group: each attempt has one, and that of the one before goes", "[core][I47][I20]") {
  World world = served(World(2));
  world.settle(seconds{30});
  const std::string before = world.group->spec.pod_group;
  world.set_suspended(true);
  world.settle(seconds{60});
  REQUIRE(world.pods.empty());
  world.set_spec([](auto& spec) { spec.replicas = 3; });
  const bool is_asked_for = GENERATE(true, false);
  if (!is_asked_for) world.policy.pod_groups = OptionalApi::kOff;
  world.set_suspended(false);
  world.settle(seconds{60});
  CHECK(world.condition("Running") == "True");
  CHECK(world.dropped_groups == std::vector<std::string>{before});
  CHECK(world.grouped.contains("gpt-2-2-0") == is_asked_for);
  CHECK(world.pod_group->least == (is_asked_for ? 3 : 2));
}

TEST_CASE("pod_group: a name that an older operator left in a later record says nothing",
          "[core][I47]") {
  World world = served(World(2));
  world.settle(seconds{30});
  world.policy.pod_groups = OptionalApi::kOff;
  const std::string before = world.group->spec.pod_group;
  world.fail(0, 1);
  world.settle(seconds{1});
  world.group->spec.pod_group = before;
  world.policy.pod_groups = OptionalApi::kServed;
  world.pod_group.reset();
  world.settle(seconds{60});
  REQUIRE(world.job.status.attempt == 2);
  CHECK(world.condition("Running") == "True");
  CHECK(world.broken.empty());
}

TEST_CASE("pod_group: where the cluster serves none, the status says so", "[core][I47]") {
  World world(2);
  world.policy.pod_groups = OptionalApi::kMissing;
  core::Observed seen = world.observed();
  seen.placed_by = "kube-scheduler: of the template";
  for (const core::Action& action : core::plan(seen, world.policy, world.now).actions) {
    if (const auto* patch = std::get_if<core::PatchStatus>(&action)) {
      CHECK(patch->after.placed_by ==
            "kube-scheduler: of the template; the cluster serves no PodGroups "
            "(scheduling.k8s.io/v1beta1)");
    }
  }
  world.settle(seconds{30});
  CHECK(world.condition("Running") == "True");
  CHECK(world.grouped.empty());
}

TEST_CASE("pod_group: that of a job which is gone goes, too", "[core][I47][I22]") {
  World world = served(World(2));
  world.settle(seconds{5});
  core::Orphans orphans{"gpt", world.job.meta.uid, &*world.group, {}};
  const auto of_group = [](const core::Action& action) {
    const auto* orphan = std::get_if<core::DeleteOrphan>(&action);
    return orphan != nullptr && orphan->kind == core::ObjectKind::kPodGroup;
  };
  CHECK(std::ranges::count_if(core::plan_orphans(orphans).actions, of_group) == 1);
  world.group->spec.pod_group.clear();
  CHECK(std::ranges::count_if(core::plan_orphans(orphans).actions, of_group) == 0);
}
