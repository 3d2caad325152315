// A worker that holds up its gang: a rule moves it to another node, and nothing is counted.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>

#include "operator/core/failures.h"
#include "tests/unit/operator/world.h"

using namespace pawl;
using namespace pawl::test;
using std::chrono::minutes;
using std::chrono::seconds;

namespace {

// Each worker on a node of its own, and a rule that moves the slow ones.
World with_rule(api::Strategy strategy = api::Strategy::kInPlace) {
  World world = World::training(3);
  for (int slot = 0; slot < 3; ++slot) world.pod(slot).node = "node-" + std::to_string(slot);
  world.set_spec([&](auto& spec) {
    spec.strategy = strategy;
    spec.failure_rules = {
        {.name = "slow", .action = api::RuleAction::kReplaceNode, .causes = {"Straggler"}}};
  });
  world.is_kubelet_on = false;
  return world;
}

void name_slow(World& world, int slot) {
  world.group->status.progress->straggler = api::Straggler{.rank = slot,
                                                           .pod = world.pod(slot).meta.name,
                                                           .node = world.pod(slot).node,
                                                           .factor = "1.9"};
}

bool is_leaving(World& world, int slot) { return world.pod(slot).meta.deletion_time.has_value(); }

int how_often(const World& world, const std::string& event) {
  return static_cast<int>(std::ranges::count(world.events, event));
}

}  // namespace

TEST_CASE("straggler: a rule moves a slow worker, and its gang goes on", "[core][I42][G2]") {
  World world = with_rule();
  world.settle();
  name_slow(world, 1);
  world.settle();
  REQUIRE(is_leaving(world, 1));
  CHECK_FALSE(is_leaving(world, 0));
  REQUIRE(world.job.status.excluded_nodes.size() == 1);
  CHECK(world.job.status.excluded_nodes[0].name == "node-1");
  CHECK(world.job.status.excluded_nodes[0].cause == "Straggler");
  CHECK(world.job.status.excluded_nodes[0].pods == std::vector<std::string>{"gpt-1-1-0"});
  CHECK(how_often(world, "StragglerLeaves") == 1);

  world.pods.erase("gpt-1-1-0");
  world.settle(seconds{5});
  CHECK(world.job.status.attempt == 1);
  CHECK(world.pod(1).meta.name == "gpt-1-1-1");
  REQUIRE(world.job.status.last_failure.has_value());
  CHECK(world.job.status.last_failure->cause == "Straggler");
  CHECK(world.job.status.last_failure->node == "node-1");
  CHECK(world.job.status.restarts.counted + world.job.status.restarts.free == 0);
  CHECK(world.broken.empty());
}

TEST_CASE("straggler: without a rule for it nobody is moved", "[core][I42]") {
  World world = with_rule();
  world.set_spec([](auto& spec) {
    spec.failure_rules = {
        {.name = "other", .action = api::RuleAction::kReplaceNode, .causes = {"Error"}}};
  });
  world.settle();
  name_slow(world, 1);
  world.settle(minutes{10});
  CHECK_FALSE(is_leaving(world, 1));
  CHECK(world.job.status.excluded_nodes.empty());
}

TEST_CASE("straggler: whoever dies before the pod is deleted is carried on", "[core][I42]") {
  World world = with_rule();
  world.settle();
  name_slow(world, 1);
  world.actions_until_crash = 1;  // the status is written
  world.settle();
  REQUIRE(is_leaving(world, 1));
  CHECK(world.job.status.excluded_nodes.size() == 1);
}

TEST_CASE("straggler: one that came to its node for want of another stays", "[core][I42]") {
  World world = with_rule();
  world.job.status.excluded_nodes = {{.name = "node-1",
                                      .cause = "Straggler",
                                      .time = world.now - std::chrono::hours{1},
                                      .pods = {"gpt-1-1-9"}}};
  world.settle();
  name_slow(world, 1);
  world.settle(minutes{10});
  CHECK_FALSE(is_leaving(world, 1));
}

TEST_CASE("straggler: the next one is moved five minutes later", "[core][I42]") {
  World world = with_rule();
  world.job.status.excluded_nodes = {
      {.name = "node-9", .cause = "Straggler", .time = world.now, .pods = {"gpt-1-0-0"}}};
  world.settle();
  name_slow(world, 1);
  world.settle(minutes{4});
  CHECK_FALSE(is_leaving(world, 1));
  world.settle(minutes{2});
  CHECK(how_often(world, "StragglerLeaves") == 1);
  CHECK(world.job.status.excluded_nodes.size() == 2);
}

TEST_CASE("straggler: a gang that ends with every loss begins again, free", "[core][I42][I6]") {
  World world = with_rule(api::Strategy::kRecreateAll);
  world.settle();
  name_slow(world, 2);
  world.settle();
  REQUIRE(is_leaving(world, 2));
  world.is_kubelet_on = true;
  world.pods.erase("gpt-1-2-0");
  world.settle(seconds{60});
  CHECK(world.job.status.attempt == 2);
  CHECK(world.job.status.restarts.counted == 0);
  CHECK(world.job.status.restarts.free == 1);
  CHECK(world.job.status.restarts.by_cause.at("Straggler") == 1);
  CHECK(world.job.status.excluded_nodes.size() == 1);
}
