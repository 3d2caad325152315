// Where the pods of an attempt go is written before there is any.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>

#include "tests/unit/operator/seats.h"

using namespace pawl;
using namespace pawl::test;
using std::chrono::seconds;

namespace {

// Two workers, placed; the scheduler refuses the second one on its node.
World refused_gang() {
  World world(2);
  world.seats = offer_of;
  world.is_kubelet_on = false;
  world.settle();
  REQUIRE(world.pods.size() == 2);
  world.pod(1).unschedulable_message = "0/2 nodes are available: 2 Insufficient nvidia.com/gpu.";
  world.pod(1).meta.creation_time = world.now;
  return world;
}

}  // namespace

TEST_CASE("seating: nodes are written before anything of the attempt is made", "[core][I43][A44]") {
  World world(3);
  world.seats = offer_of;
  world.is_kubelet_on = false;
  bool has_children = false;
  for (int i = 0; i < 10 && world.job.status.placement.attempt == 0; ++i) {
    for (const core::Action& action : world.plan().actions) world.apply(action);
    has_children = has_children || !world.children.empty() || world.group || !world.pods.empty();
  }
  CHECK(world.job.status.placement.nodes == std::vector<api::PlacedNode>{{"node-1", 3}});
  CHECK(world.job.status.placement.domain == "rack-1");
  CHECK_FALSE(has_children);
  world.settle();
  CHECK(world.pods.size() == 3);
  CHECK(world.broken.empty());
}

TEST_CASE("seating: a gang without room waits, and says why once", "[core][I43]") {
  World world(2);
  bool is_full = true;
  world.seats = [&](const core::Observed& seen) {
    return is_full ? core::Seating{.obstacle = "8 GPUs short"} : offer_of(seen);
  };
  world.settle(seconds{120});
  CHECK(world.pods.empty());
  CHECK(world.children.empty());
  CHECK(world.job.status.reason == "WaitingForRoom");
  CHECK(world.job.status.message == "8 GPUs short");
  CHECK(std::ranges::count(world.events, "WaitingForRoom") == 1);
  CHECK(world.plan().actions.empty());
  is_full = false;
  world.settle(seconds{60});
  CHECK(world.text() == "Running attempt 1 counted 0 free 0 ready 2/2 live 2");
}

TEST_CASE("seating: who never fits is Stalled until it may, and then waits as others do",
          "[core][I48]") {
  World world(2);
  core::Seating answer{.defect = "too large", .never_fits = true};
  world.seats = [&](const core::Observed&) { return answer; };
  world.settle(seconds{30});
  CHECK(world.condition("Stalled") == "True");
  CHECK(world.job.status.phase == "Stalled");
  CHECK(world.job.status.reason == "NeverFits");
  CHECK(world.job.status.message == "too large");
  CHECK(std::ranges::count(world.events, "NeverFits") == 1);
  CHECK(world.plan().actions.empty());
  answer = {.obstacle = "no room yet"};
  world.settle(seconds{60});
  CHECK(world.condition("Stalled") == "False");
  CHECK(world.job.status.phase == "Starting");
  CHECK(world.job.status.reason == "WaitingForRoom");
  const int writes = world.status_writes;
  world.settle(seconds{600});
  CHECK(world.status_writes == writes);
  world.seats = offer_of;
  world.settle(seconds{60});
  CHECK(world.text() == "Running attempt 1 counted 0 free 0 ready 2/2 live 2");
}

TEST_CASE("seating: each attempt is placed anew, when the pods of the one before are gone",
          "[core][I43][I4]") {
  World world(2);
  world.seats = [](const core::Observed& seen) {
    CHECK(seen.pods.size() <= 2);
    for (const api::PodView* pod : seen.pods) CHECK(core::is_terminal(*pod));
    return offer_of(seen);
  };
  world.settle(seconds{30});
  world.fail(0, 1, "Error");
  world.settle(seconds{120});
  CHECK(world.job.status.attempt == 2);
  CHECK(world.job.status.placement.attempt == 2);
  CHECK(world.job.status.placement.nodes.front().name == "node-2");
  CHECK(world.condition("Running") == "True");
}

TEST_CASE("seating: another size before there are pods is placed anew", "[core][I43][I17]") {
  World world(2);
  world.seats = offer_of;
  act_until(world, [&] { return world.job.status.placement.attempt > 0; });
  world.set_spec([](auto& spec) { spec.replicas = 4; });
  world.settle(seconds{30});
  CHECK(world.job.status.placement.nodes == std::vector<api::PlacedNode>{{"node-1", 4}});
  CHECK(world.pods.size() == 4);
  CHECK(world.job.status.attempt == 1);
}

// Seed 44143: the quota of the workers that it had just been given went to somebody else.
TEST_CASE("seating: a gang that grows before there are pods holds nodes for its new size at once",
          "[core][I44][I17]") {
  World world(1);
  world.seats = offer_of;
  act_until(world, [&] { return world.job.status.placement.attempt > 0; });
  for (const core::Action& action : world.plan().actions) {
    if (!world.group) world.apply(action);
  }
  REQUIRE(world.group);
  REQUIRE(world.pods.empty());
  world.set_spec([](auto& spec) { spec.replicas = 3; });
  act_until(world, [&] { return workers_of(world.job.status.placement) == 3; });
  REQUIRE(world.group->spec.target_members == 1);
  CHECK(core::staff_of(world.observed(), world.now).slots.size() == 3);
}

// Seed 55241: it was given to another one, and kept by the operator that came next.
TEST_CASE("seating: a gang that has lost its record and its pods keeps its quota", "[core][I44]") {
  World world(2);
  world.seats = offer_of;
  world.settle(seconds{60});
  REQUIRE(world.condition("Running") == "True");
  world.group.reset();
  world.fail(0, 1);
  world.fail(1, 1);
  CHECK(core::staff_of(world.observed(), world.now).slots.size() == 2);
}

TEST_CASE("seating: a crash after any action leaves a gang that is placed once", "[core][I43]") {
  for (int crash = 0; crash < 16; ++crash) {
    World world(2);
    world.seats = offer_of;
    world.actions_until_crash = crash;
    world.settle(seconds{60});
    INFO("crash after " << crash << " actions");
    CHECK(world.text() == "Running attempt 1 counted 0 free 0 ready 2/2 live 2");
    CHECK(world.broken.empty());
  }
}

TEST_CASE("seating: nodes that cannot take the gang any more are left before there are pods",
          "[core][I43]") {
  World world(2);
  bool is_void = false, is_full = false;
  world.seats = [&](const core::Observed& seen) {
    core::Seating seating = is_full ? core::Seating{.obstacle = "full"} : offer_of(seen);
    if (is_void && seating.offer) seating.offer->nodes = {{"other", 2}};
    seating.is_void = is_void;
    return seating;
  };
  act_until(world, [&] { return world.job.status.placement.attempt > 0; });
  core::Seating gone{.is_void = true};
  core::Observed seen = world.observed();
  seen.seating = &gone;
  // They are given back before others are asked for.
  CHECK_FALSE(core::plan(seen, world.policy, world.now).asks_for_seats);
  for (const core::Action& action : core::plan(seen, world.policy, world.now).actions)
    world.apply(action);
  CHECK(world.job.status.placement == api::PlacementStatus{});
  seen = world.observed();
  seen.seating = &gone;
  CHECK(core::plan(seen, world.policy, world.now).asks_for_seats);
  gone.obstacle = "full";
  for (const core::Action& action : core::plan(seen, world.policy, world.now).actions)
    world.apply(action);
  CHECK(world.job.status.placement == api::PlacementStatus{});
  CHECK(world.job.status.reason == "WaitingForRoom");
  is_void = true;
  world.settle(seconds{30});
  CHECK(world.job.status.placement.nodes == std::vector<api::PlacedNode>{{"other", 2}});
  CHECK(world.condition("Running") == "True");
}

// A pod of somebody else's was faster, or the scheduler knows of something that we do not.
TEST_CASE("seating: a pod that is not scheduled where it was to go moves the whole gang",
          "[core][I43]") {
  World world = refused_gang();
  world.settle(seconds{9});
  CHECK(world.job.status.attempt == 1);
  world.settle(seconds{2});
  CHECK(world.job.status.attempt == 2);
  CHECK(world.job.status.restarts.counted == 0);
  CHECK(world.job.status.restarts.by_cause == std::map<std::string, int>{{"Unschedulable", 1}});
  const auto& avoided = world.job.status.excluded_nodes;
  REQUIRE(avoided.size() == 1);
  CHECK(avoided[0].name == "node-1");
  CHECK(avoided[0].until > world.now);
  world.is_kubelet_on = true;
  world.settle(seconds{60});
  CHECK(world.job.status.placement.nodes.front().name == "node-2");
  CHECK(world.condition("Running") == "True");
}

// Seed 30753: with a capacity other than Never the scheduler decides.
TEST_CASE("seating: pods for a node that was decided on leave it after nobody decides any more",
          "[core][I43]") {
  World world = refused_gang();
  world.seats = nullptr;
  world.settle(seconds{11});
  CHECK(world.job.status.attempt == 2);
  world.finish_terminating();
  world.is_kubelet_on = true;
  world.settle(seconds{60});
  CHECK(world.condition("Running") == "True");
}

TEST_CASE("seating: who is moved three times is left to the scheduler", "[core][I43]") {
  World world(2);
  world.seats = offer_of;
  world.is_kubelet_on = false;
  for (int i = 0; i < 3; ++i) {
    world.settle();
    world.pod(0).unschedulable_message = "no such volume";
    world.pod(0).meta.creation_time = world.now;
    world.settle(seconds{11});
    world.finish_terminating();
  }
  world.settle(seconds{10});
  CHECK(world.job.status.attempt == 4);
  CHECK(world.job.status.placement.attempt == 3);
  world.pod(0).unschedulable_message = "no such volume";
  world.pod(0).meta.creation_time = world.now;
  world.settle(seconds{600});
  CHECK(world.job.status.attempt == 4);
  CHECK(core::held_seats(world.observed()).empty());
}

TEST_CASE("seating: of a job that may not make its pods nothing is held", "[core][I43]") {
  World world(2);
  world.seats = offer_of;
  world.is_kubelet_on = false;
  act_until(world, [&] { return world.job.status.placement.attempt > 0; });
  world.refusal = core::Refusal{.action = "create Pod",
                                .message = "exceeded quota",
                                .reason = "Forbidden",
                                .retry_at = world.now + seconds{5},
                                .generation = world.job.meta.generation};
  for (const core::Action& action : world.plan().actions) world.apply(action);
  CHECK(core::held_seats(world.observed()).empty());
  world.now += seconds{6};  // it is tried again, with the refusal still in mind
  world.settle(seconds{10});
  CHECK(world.pods.size() == 2);
  CHECK(world.job.status.placement.nodes == std::vector<api::PlacedNode>{{"node-1", 2}});
}

// Where its pods go is no part of what they are.
TEST_CASE("seating: a gang that was placed anew replaces a lost member in its attempt",
          "[core][I43][I33]") {
  World world = World::training(3);
  world.seats = offer_of;
  world.is_kubelet_on = false;
  for (int slot = 0; slot < 3; ++slot) world.delete_pod(slot);
  world.settle(seconds{60});
  REQUIRE(world.group->spec.attempt == 2);  // the record is there before the nodes are
  REQUIRE(world.job.status.placement.attempt == 0);
  world.is_kubelet_on = true;
  world.settle(seconds{120});
  REQUIRE(world.job.status.placement.attempt == 2);
  world.group->status.members.clear();
  world.report(20);
  world.settle(seconds{10});
  REQUIRE(world.condition("Running") == "True");
  world.remove_pod(2);
  world.settle(seconds{30});
  CHECK(world.job.status.attempt == 2);
  CHECK(world.pod(2).meta.name == "gpt-2-2-1");
  CHECK(world.job.status.placement.later == std::vector<api::PlacedPod>{{2, 1, "near-2-1"}});
}

TEST_CASE("seating: who is given again what is written goes on with it", "[core][I43]") {
  World world(2);
  world.seats = offer_of;
  act_until(world, [&] { return world.job.status.placement.attempt > 0; });
  REQUIRE(world.pods.empty());
  world.job.status.start_time.reset();  // somebody took it away, so no other write is due
  const core::Seating same{.offer = world.job.status.placement, .is_void = true};
  core::Observed seen = world.observed();
  seen.seating = &same;
  CHECK_FALSE(core::plan(seen, world.policy, world.now).actions.empty());
}

TEST_CASE("seating: room is held for pods that are to be made, or wait", "[core][I43]") {
  World world(2);
  world.seats = offer_of;
  CHECK(core::held_seats(world.observed()).empty());
  act_until(world, [&] { return world.job.status.placement.attempt > 0; });
  const std::string job = world.job.meta.name;
  const std::vector<core::HeldSeat> both{{job + "-1-0-0", "node-1"}, {job + "-1-1-0", "node-1"}};
  CHECK(core::held_seats(world.observed()) == both);
  world.settle();
  CHECK(core::held_seats(world.observed()) == both);  // until they are seen there, by the ledger
  SECTION("one is gone, and another takes its place") {
    world.remove_pod(1);
    CHECK(core::held_seats(world.observed()) == std::vector{both[0]});
  }
  SECTION("they have ended") {
    world.succeed_all();
    CHECK(core::held_seats(world.observed()).empty());
  }
  SECTION("the job is suspended") {
    world.set_suspended(true);
    world.settle(seconds{120});
    CHECK(core::held_seats(world.observed()).empty());
  }
}
