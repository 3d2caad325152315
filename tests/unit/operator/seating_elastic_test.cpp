// Nodes for a gang that may begin with fewer workers than it is to have.
#include <catch2/catch_test_macros.hpp>

#include "operator/core/conditions.h"
#include "tests/unit/operator/seats.h"

using namespace pawl;
using namespace pawl::test;
using std::chrono::seconds;

namespace {

// Room for so many of its workers, and for none that comes later.
core::Seating room_for(const core::Observed& seen, int workers) {
  const bool has_nodes = seen.job->status.placement.attempt == seen.job->status.attempt;
  if (workers == 0 || has_nodes) return {.obstacle = "full"};
  core::Seating seating = offer_of(seen);
  seating.offer->nodes[0].workers = workers;
  return seating;
}

// With three of four it trains; the last one comes when there is room.
World short_of_one(const bool& is_full) {
  World world = World::elastic(4, 2);
  world.seats = [&is_full](const core::Observed& seen) {
    return is_full ? room_for(seen, 3) : core::Seating{};
  };
  world.settle(seconds{30});
  world.report(10);
  world.settle();
  return world;
}

// All of them train.
World placed(int replicas, int least) {
  World world = World::elastic(replicas, least);
  world.seats = offer_of;
  world.settle(seconds{30});
  world.report(10);
  world.settle();
  return world;
}

core::Plan asking(const World& world) {
  core::Observed seen = world.observed();
  const core::Seating none;
  seen.seating = &none;
  return core::plan(seen, world.policy, world.now);
}

}  // namespace

TEST_CASE("seating: a gang that may begin smaller asks for all of it first", "[core][I43][I35]") {
  World world = World::elastic(4, 2);
  world.seats = [](const core::Observed& seen) { return room_for(seen, 0); };
  world.settle();
  const core::Plan first = asking(world);
  REQUIRE(first.asks_for_seats);
  CHECK(first.seats_least == 4);
  CHECK(first.members_least == 2);
  REQUIRE(first.wake_up);
  CHECK(*first.wake_up <= *world.job.status.attempt_time + seconds{60});
  world.settle(seconds{60});
  CHECK(asking(world).seats_least == 2);
  world.set_spec([](auto& spec) { spec.elastic->on_shortage = api::OnShortage::kWait; });
  CHECK(asking(world).seats_least == 4);
  CHECK(asking(world).members_least == 4);
}

TEST_CASE("seating: it begins with those that have nodes, and the others come later",
          "[core][I43][I35]") {
  for (int crash = 0; crash < 20; ++crash) {
    INFO("crash after " << crash << " actions");
    World world = World::elastic(4, 2);
    bool is_full = true;
    world.seats = [&](const core::Observed& seen) {
      return is_full ? room_for(seen, 3) : core::Seating{};
    };
    world.actions_until_crash = crash;
    world.settle(seconds{30});
    CHECK(world.pods.size() == 3);
    REQUIRE(world.group);
    for (const api::EligiblePod& pod : world.group->spec.pods)
      CHECK(pod.uid.empty() == (pod.slot == 3));
    CHECK(world.job.status.message.find("full") != std::string::npos);
    world.report(10);
    world.settle();
    CHECK(core::find_condition(world.job.status, "Running")->reason == "EnoughReady");
    is_full = false;
    world.settle(seconds{30});
    CHECK(world.pods.size() == 4);
    world.commit_next(11);
    world.settle();
    CHECK(core::find_condition(world.job.status, "Running")->reason == "AllReady");
    CHECK(world.job.status.placement.later == std::vector<api::PlacedPod>{{3, 0, "near-3-0"}});
    CHECK(world.job.status.attempt == 1);
    CHECK(world.broken.empty());
  }
}

TEST_CASE("seating: fewer than the least are no gang", "[core][I43][I35]") {
  World world = World::elastic(4, 2);
  int workers = 3;
  world.seats = [&](const core::Observed& seen) { return room_for(seen, workers); };
  act_until(world, [&] { return world.job.status.placement.attempt > 0; });
  world.set_spec([](auto& spec) { spec.elastic->min_replicas = 4; });
  workers = 0;
  world.settle(seconds{30});
  CHECK(world.pods.empty());
  CHECK(world.job.status.reason == "WaitingForRoom");
}

TEST_CASE("seating: restarted, it does not wait for all of them again", "[core][I43][I35]") {
  World world = World::elastic(4, 2);
  world.seats = [](const core::Observed& seen) { return room_for(seen, 3); };
  world.settle(seconds{30});
  world.report(10);
  world.seats = [](const core::Observed& seen) { return room_for(seen, 0); };
  world.fail(0, 1);
  world.fail(1, 1);
  world.fail(2, 1);
  world.settle(seconds{60});
  REQUIRE(world.job.status.attempt == 2);
  REQUIRE(world.job.status.reason == "WaitingForRoom");
  CHECK(asking(world).seats_least == 2);
}

// The record was written for a gang that waits for all.
TEST_CASE("seating: a job that may begin smaller since it waits does", "[core][I43][I35]") {
  World world = World::elastic(4, 2);
  world.set_spec([](auto& spec) { spec.elastic->on_shortage = api::OnShortage::kWait; });
  world.seats = [](const core::Observed& seen) { return room_for(seen, 4); };
  world.settle(seconds{30});
  REQUIRE(world.pods.size() == 4);
  world.is_kubelet_on = false;
  world.seats = [](const core::Observed& seen) { return room_for(seen, 0); };
  world.fail(0, 1);
  world.settle(seconds{60});
  REQUIRE(world.group->spec.attempt == 2);
  world.is_kubelet_on = true;
  world.finish_terminating();
  world.settle(seconds{60});
  REQUIRE(world.job.status.reason == "WaitingForRoom");
  world.set_spec([](auto& spec) {
    spec.elastic->on_shortage = api::OnShortage::kShrink;
    spec.runtime_config_json = R"({"steps":99})";
  });
  world.seats = [](const core::Observed& seen) { return room_for(seen, 3); };
  world.settle(seconds{30});
  CHECK(world.group->spec.shortage_seconds > 0);
  for (const api::EligiblePod& pod : world.group->spec.pods)
    CHECK(pod.uid.empty() == (pod.slot == 3));
  // The others were made from the job as it is now.
  world.seats = [](const core::Observed&) { return core::Seating{}; };
  world.settle(seconds{30});
  CHECK(world.pods.contains("gpt-2-3-0"));
  CHECK(world.job.status.attempt == 2);
}

TEST_CASE("seating: a pod that would not be what the others are does not come in",
          "[core][I33][I35]") {
  bool is_full = true;
  World world = short_of_one(is_full);
  const auto edit = [&] {
    world.set_spec([](auto& spec) { spec.runtime_config_json = R"({"steps":99})"; });
  };
  SECTION("the gang goes on without it") {
    edit();
    is_full = false;
    world.settle(seconds{60});
    CHECK(world.pods.size() == 3);
    CHECK(world.job.status.phase == "Running");
    CHECK(world.job.status.message.find("the job was changed") != std::string::npos);
    CHECK(world.job.status.attempt == 1);
  }
  SECTION("nothing is held for it") {
    world.refusal = core::Refusal{.action = "create Pod gpt-1-3-0",
                                  .message = "exceeded quota",
                                  .reason = "Forbidden",
                                  .retry_at = world.now,
                                  .generation = world.job.meta.generation};
    world.job.status.placement.later = {{3, 0, "near-3-0"}};
    REQUIRE(core::held_seats(world.observed()).size() == 4);
    edit();
    world.settle(seconds{60});
    CHECK(core::held_seats(world.observed()).size() == 3);
    CHECK(world.pods.size() == 3);
  }
  SECTION("the gang waits for it") {
    world.remove_pod(2);
    world.remove_pod(1);
    world.settle(seconds{30});
    REQUIRE(world.condition("Restarting") == "True");
    REQUIRE(world.job.status.attempt == 1);
    edit();
    world.settle(seconds{60});
    CHECK(world.job.status.attempt == 2);
    CHECK(world.job.status.restarts.counted == 0);
  }
}

// It keeps neither its node nor its quota, also for an operator that begins after any write.
TEST_CASE("seating: a pod more that is refused is given up", "[core][I43][I44]") {
  for (int crash = 0; crash < 8; ++crash) {
    INFO("crash after " << crash << " actions");
    bool is_full = true;
    World world = short_of_one(is_full);
    is_full = world.is_kubelet_on = false;
    world.settle();
    REQUIRE(world.pods.contains("gpt-1-3-0"));
    CHECK(core::staff_of(world.observed(), world.now).slots.contains(3));
    is_full = true;
    api::PodView& pod = world.pods.at("gpt-1-3-0");
    pod.unschedulable_message = "0/3 nodes are available";
    pod.meta.creation_time = world.now;
    world.actions_until_crash = world.actions_done + crash;
    world.settle(seconds{11});
    REQUIRE(world.pods.at("gpt-1-3-0").meta.deletion_time);
    world.finish_terminating();
    world.settle(seconds{60});
    CHECK(world.job.status.attempt == 1);
    const core::Staff staff = core::staff_of(world.observed(), world.now);
    CHECK(staff.slots == std::set<int>{0, 1, 2});
    CHECK(staff.awaited.empty());
    CHECK(core::held_seats(world.observed()).size() == 3);
    is_full = false;
    world.settle(seconds{60});
    CHECK(world.pods.contains("gpt-1-3-1"));
    CHECK(core::staff_of(world.observed(), world.now).slots.size() == 4);
    CHECK(world.broken.empty());
  }
}

// Whoever leads then knows of each worker that has quota.
TEST_CASE("seating: a worker that was to leave, and stays, is on record again", "[core][I44]") {
  World world = placed(4, 2);
  world.set_spec([](auto& spec) { spec.replicas = 2; });
  act_until(world, [&] { return world.group->spec.target_members == 2; });
  CHECK(workers_of(world.job.status.placement) == 2);
  CHECK(core::staff_of(world.observed(), world.now).slots.size() == 4);
  world.set_spec([](auto& spec) { spec.replicas = 3; });
  act_until(world, [&] { return world.group->spec.target_members == 3; });
  CHECK(core::held_seats(world.observed()).size() == 3);
  CHECK(kept_after_failure(world, {0}) == 3);
}

TEST_CASE("seating: a worker that had left before its gang is to be as large again needs quota",
          "[core][I44]") {
  World world = placed(3, 2);
  world.is_kubelet_on = false;
  world.remove_pod(2);
  world.set_spec([](auto& spec) { spec.replicas = 2; });
  act_until(world, [&] { return world.group->spec.target_members == 2; });
  world.set_spec([](auto& spec) { spec.replicas = 3; });
  act_until(world, [&] { return world.group->spec.target_members == 3; });
  REQUIRE_FALSE(world.group->spec.pods[2].uid.empty());
  CHECK(core::staff_of(world.observed(), world.now).slots == std::set<int>{0, 1});
}

TEST_CASE("seating: a worker that was given up is charged until the record tells of it no more",
          "[core][I44][I45]") {
  World world = placed(3, 2);
  world.is_kubelet_on = false;
  world.job.status.placement.later = {{2, 0, api::kGivenUp}};
  world.remove_pod(2);
  CHECK(core::staff_of(world.observed(), world.now).slots == std::set<int>{0, 1, 2});
}

TEST_CASE("seating: of workers that were given up none is kept when it becomes smaller",
          "[core][I44]") {
  World world = World::elastic(3, 1);
  world.job.status.attempt = 2;
  world.job.status.start_time = world.now;
  world.job.status.placement = {1, "", {{"node-1", 3}}, "", {{1, 0, api::kGivenUp}}};
  world.set_spec([](auto& spec) { spec.replicas = 2; });
  world.seats = [](const core::Observed&) {
    return core::Seating{.obstacle = "full", .keeps_quota = true};
  };
  act_until(world, [&] { return world.job.status.message == "full"; });
  CHECK(core::staff_of(world.observed(), world.now).kept == 2);
  world.set_spec([](auto& spec) { spec.replicas = 1; });
  act_until(world, [&] { return core::staff_of(world.observed(), world.now).kept == 1; });
}
