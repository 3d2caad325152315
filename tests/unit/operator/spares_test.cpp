// Workers beside those that train, which wait for a lost one's place (scheduling.spares).
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include "common/api/contract.h"
#include "common/api/pod_scheduling.h"
#include "operator/core/conditions.h"
#include "operator/core/failures.h"
#include "operator/core/plan.h"
#include "tests/unit/operator/seats.h"

using namespace pawl;
using namespace pawl::test;
using std::chrono::seconds;

namespace {

World unborn(int replicas, int spares) {
  World world(replicas, api::RuntimeKind::kNative);
  world.set_spec([&](auto& spec) { spec.scheduling = api::Scheduling{.spares = spares}; });
  return world;
}

// Three train, at step 10, and one waits.
World with_spare() {
  World world = unborn(3, 1);
  world.settle();
  world.report(10);
  world.settle();
  return world;
}

int times(const World& world, const std::string& event) {
  return static_cast<int>(std::ranges::count(world.events, event));
}

}  // namespace

TEST_CASE("spares: there are pods for them, and the gang is whole without them", "[core][I50]") {
  World world = with_spare();
  CHECK(world.group->spec.target_members == 4);
  CHECK(world.group->spec.spares == 1);
  CHECK(world.group->spec.min_members == 3);
  CHECK(world.pods.size() == 4);
  CHECK(world.job.status.ready == "3/3");
  CHECK(core::find_condition(world.job.status, "Running")->reason == "AllReady");
  CHECK(world.least == 2);  // a drain takes one after the other
  CHECK(world.broken.empty());
  world.settle(seconds{60});
  CHECK(world.job.status.message == "3/3 workers ready in attempt 1; 1 of 1 spares wait");
  const int writes = world.status_writes, group_writes = world.group_writes;
  world.settle(seconds{600});
  CHECK(world.status_writes == writes);
  CHECK(world.group_writes == group_writes);
}

TEST_CASE("spares: the gang goes on with one, and the lost one's next pod waits from then on",
          "[core][I50][I33][I35]") {
  const bool is_gang_first = GENERATE(true, false);
  for (int crash = 0; crash < 8; ++crash) {
    INFO("crash after " << crash << " actions");
    World world = with_spare();
    world.actions_until_crash = world.actions_done + crash;
    if (is_gang_first) world.commit_next(12, 1);
    world.fail(1, 137);
    world.settle();
    if (!is_gang_first) world.commit_next(12, 1);
    world.settle(seconds{60});
    CHECK(world.condition("Running") == "True");
    CHECK(world.job.status.attempt == 1);
    CHECK(world.job.status.restarts.counted == 0);
    CHECK(world.pods.size() == 4);
    CHECK(world.pods.contains("gpt-1-1-1"));
    CHECK(world.job.status.ready == "3/3");
    CHECK(times(world, "MemberReplaced") <= 1);
    CHECK(world.broken.empty());
  }
}

TEST_CASE("spares: they come when the gang trains, and keep nobody from that", "[core][I50][I43]") {
  World world = unborn(3, 1);
  bool is_full = true;
  world.seats = [&](const core::Observed& seen) {
    const bool has_nodes = seen.job->status.placement.attempt == seen.job->status.attempt;
    if (!has_nodes) return offer_of(seen);
    core::Seating more{.obstacle = "full"};
    if (!is_full) more = {.later = {{3, 0, "node-2"}}};
    return more;
  };
  world.settle(seconds{60});
  CHECK(world.pods.size() == 3);
  CHECK(world.condition("Running") == "True");
  CHECK(world.job.status.ready == "3/3");
  world.report(10);
  world.settle(seconds{60});
  CHECK(world.pods.size() == 3);
  CHECK(world.job.status.message == "3/3 workers ready in attempt 1; 0 of 1 spares wait; full");
  is_full = false;
  world.settle(seconds{30});
  REQUIRE(world.pods.contains("gpt-1-3-0"));
  CHECK(node_of(world.job.status.placement, 1, 3, 0) == "node-2");
  CHECK(world.group->spec.pods[3].uid == world.pod(3).meta.uid);
  CHECK(world.job.status.attempt == 1);
}

TEST_CASE("spares: a rule that is taken away brings them, and no gang begins anew for it",
          "[core][I50][I34]") {
  World world = unborn(2, 1);
  const std::vector<api::FailureRule> rules{
      {.name = "r", .action = api::RuleAction::kRestart, .causes = {core::cause::kNodeLost}}};
  world.set_spec([&](auto& spec) { spec.failure_rules = rules; });
  world.settle();
  world.report(10);
  world.settle();
  REQUIRE(world.pods.size() == 2);
  world.set_spec([](auto& spec) { spec.failure_rules.clear(); });
  world.settle(seconds{60});
  CHECK(world.job.status.attempt == 1);
  CHECK(world.pods.size() == 3);
  CHECK(world.group->spec.spares == 1);
}

TEST_CASE("spares: another number of them is another size of the gang", "[core][I50][I34]") {
  World world = with_spare();
  world.set_spec([](auto& spec) { spec.scheduling->spares = 2; });
  world.settle(seconds{10});
  CHECK(world.pods.size() == 5);
  CHECK(world.group->spec.target_members == 5);
  CHECK(world.job.status.ready == "3/3");
  world.set_spec([](auto& spec) { spec.scheduling.reset(); });
  world.settle();
  CHECK(world.group->spec.spares == 0);
  CHECK(world.group->spec.target_members == 3);
  world.report(20);
  world.settle(seconds{60});
  CHECK(world.pods.size() == 3);
  CHECK(world.condition("Running") == "True");
  CHECK(world.job.status.attempt == 1);
  CHECK(times(world, "Resizing") == 2);
  CHECK(world.broken.empty());
}

TEST_CASE("spares: there are none where nobody could take a lost one's place", "[core][I50]") {
  World world = unborn(2, 1);
  SECTION("Kueue admits the pods of an attempt together") {
    world.job.meta.labels[std::string(api::kKueuePrefix) + "queue-name"] = "q";
  }
  SECTION("a rule ends the gang") {
    world.set_spec([](auto& spec) {
      spec.failure_rules = {
          {.name = "r", .action = api::RuleAction::kRestart, .causes = {core::cause::kNodeLost}}};
    });
  }
  world.settle(seconds{30});
  CHECK(world.group->spec.spares == 0);
  CHECK(world.group->spec.min_members == 2);
  CHECK(world.pods.size() == 2);
}

TEST_CASE("spares: one that waits ends nothing and is not waited for at the end",
          "[core][I50][I9]") {
  World world = with_spare();
  world.succeed(0);
  world.succeed(1);
  world.settle();
  CHECK(world.condition("SuccessCriteriaMet").empty());
  world.succeed(2);
  world.settle();
  CHECK(world.condition("SuccessCriteriaMet") == "True");
}

TEST_CASE("spares: all have to succeed where nobody knows any more who waited", "[core][I50][I9]") {
  World world = with_spare();
  const bool is_smaller = GENERATE(true, false);
  if (is_smaller) {  // then as many successes as workers train are too few
    world.set_spec([](auto& spec) { spec.replicas = 2; });
    world.settle();
  }
  world.group->status = {};
  for (const int slot : {1, 2, 0}) {
    world.settle();
    CHECK(world.condition("SuccessCriteriaMet").empty());
    world.succeed(slot);
  }
  if (!is_smaller) {
    world.settle();
    CHECK(world.condition("SuccessCriteriaMet").empty());
    world.succeed(3);
  }
  world.settle();
  CHECK(world.condition("SuccessCriteriaMet") == "True");
}

TEST_CASE("spares: a lost one that nobody follows is not waited for", "[core][I50][I9]") {
  World world = with_spare();
  world.seats = [](const core::Observed&) {
    return core::Seating{.obstacle = "no room near the others"};
  };
  world.job.status.placement = {1, "", {{world.pod(0).node, 4}}};
  world.remove_pod(3);
  world.settle();
  REQUIRE(world.pods.size() == 3);
  world.group->status = {};
  for (const int slot : {0, 1, 2}) {
    CHECK(world.condition("SuccessCriteriaMet").empty());
    world.succeed(slot);
    world.settle();
  }
  CHECK(world.condition("SuccessCriteriaMet") == "True");
}

TEST_CASE("spares: a smaller gang has not succeeded before a member of the larger one",
          "[core][I50][I9]") {
  World world = unborn(3, 2);
  world.settle();
  world.report(10);
  world.settle();
  world.set_spec([](auto& spec) { spec.replicas = 2; });
  world.settle();  // four places, and nobody leaves of the three that train
  world.succeed(1);
  world.succeed(2);
  world.settle();
  CHECK(world.condition("SuccessCriteriaMet").empty());
  world.succeed(0);
  world.settle();
  CHECK(world.condition("SuccessCriteriaMet") == "True");
}

TEST_CASE("spares: they go before anybody has to leave for another job", "[core][I50][I45]") {
  World world = unborn(3, 1);
  world.seats = [](const core::Observed& seen) {
    const bool has_nodes = seen.job->status.placement.attempt == seen.job->status.attempt;
    core::Seating more{.later = {{3, 0, "node-2"}}};
    return has_nodes ? more : offer_of(seen);
  };
  world.settle(seconds{30});
  world.report(10);
  world.settle();
  REQUIRE(world.pods.size() == 4);
  const auto names = [&] {
    std::vector<std::string> found;
    for (const auto& seat : core::spare_seats(world.observed(), world.policy, world.now).pods)
      found.push_back(seat.pod);
    return found;
  };
  CHECK(names() == std::vector<std::string>{"gpt-1-3-0"});
  SECTION("whoever they are") {
    world.commit_next(12, 1);
    CHECK(names() == std::vector<std::string>{"gpt-1-1-0"});
  }
  SECTION("they are told to") {
    world.seats = [](const core::Observed&) { return core::Seating{.obstacle = "full"}; };
    world.gives_up = {"gpt-1-3-0"};
    world.settle(seconds{10});
    world.finish_terminating();
    world.settle(seconds{60});
    CHECK(world.pods.size() == 3);
    CHECK(world.condition("Running") == "True");
    CHECK(world.job.status.attempt == 1);
    CHECK(names().empty());
  }
  CHECK(world.broken.empty());
}

TEST_CASE("spares: kube-scheduler waits for none of them", "[core][I50][I47]") {
  World world = unborn(3, 1);
  world.policy.pod_groups = core::OptionalApi::kServed;
  world.settle(seconds{30});
  CHECK(world.pods.size() == 3);
  world.report(10);
  world.settle(seconds{30});
  CHECK(world.pods.size() == 4);
  REQUIRE(world.pod_group);
  CHECK(world.pod_group->least == 3);
  CHECK(world.pod_group->is_indivisible);
  CHECK(world.grouped == std::set<std::string>{"gpt-1-0-0", "gpt-1-1-0", "gpt-1-2-0"});
}
