// Where pods go that come into a gang which has begun.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>

#include "tests/unit/operator/seats.h"

using namespace pawl;
using namespace pawl::test;
using std::chrono::seconds;

namespace {

// A gang of three that Pawl has placed, and that trains.
World placed_gang() {
  World world = World::training(3);
  world.seats = offer_of;
  const std::string node = world.pod(0).node;
  world.job.status.placement = {world.job.status.attempt, "", {{node, 3}}};
  return world;
}

}  // namespace

TEST_CASE("seating: a pod that comes in later is made when its node is written", "[core][I43]") {
  for (int crash = 0; crash < 12; ++crash) {
    INFO("crash after " << crash << " actions");
    World world = placed_gang();
    world.remove_pod(1);
    world.actions_until_crash = crash;
    world.settle(seconds{60});
    CHECK(world.job.status.attempt == 1);
    CHECK(world.pod(1).meta.name == "gpt-1-1-1");
    CHECK(world.job.status.placement.later == std::vector<api::PlacedPod>{{1, 1, "near-1-1"}});
    CHECK(world.broken.empty());
  }
}

TEST_CASE("seating: without room near the others a lost member is waited for", "[core][I43]") {
  World world = placed_gang();
  bool is_full = true;
  world.seats = [&](const core::Observed& seen) {
    return is_full ? core::Seating{.obstacle = "no room near the others"} : offer_of(seen);
  };
  world.remove_pod(1);
  world.settle(seconds{60});
  CHECK(world.job.status.attempt == 1);
  CHECK(world.pods.size() == 2);
  CHECK(world.job.status.message.find("no room near the others") != std::string::npos);
  is_full = false;
  world.settle(seconds{60});
  CHECK(world.pod(1).meta.name == "gpt-1-1-1");
}

TEST_CASE("seating: a gang that cannot get a lost member back goes where all of it has room",
          "[core][I43]") {
  World world = placed_gang();
  world.seats = [](const core::Observed& seen) {
    const bool is_whole = seen.pods.empty();
    return is_whole
               ? offer_of(seen)
               : core::Seating{.obstacle = "no room near the others", .is_room_elsewhere = true};
  };
  world.remove_pod(1);
  world.settle(seconds{20});
  CHECK(world.job.status.attempt == 1);
  world.settle(seconds{120});
  CHECK(world.job.status.attempt == 2);
  CHECK(world.job.status.restarts.counted == 0);
  CHECK(world.job.status.placement.nodes == std::vector<api::PlacedNode>{{"node-2", 3}});
  CHECK(world.condition("Running") == "True");
}

TEST_CASE("seating: room is held for a pod that comes in until it is there, or lost",
          "[core][I43]") {
  World world = placed_gang();
  world.is_kubelet_on = false;
  world.remove_pod(1);
  act_until(world, [&] { return !world.job.status.placement.later.empty(); });
  const core::HeldSeat later{"gpt-1-1-1", "near-1-1"};
  const auto is_held = [&] {
    const auto held = core::held_seats(world.observed());
    return std::ranges::find(held, later) != held.end();
  };
  CHECK(is_held());
  world.settle(seconds{5});
  CHECK(is_held());
  world.remove_pod(1);
  CHECK_FALSE(is_held());
}

TEST_CASE("seating: activeSeconds does not count in line, and does where a member is lacking",
          "[core][I27][B4]") {
  World world(2);
  world.set_spec([](auto& spec) { spec.deadlines.active_seconds = 100; });
  const auto check_begins_and_fails = [&] {
    world.settle(seconds{50});
    CHECK(world.condition("Running") == "True");
    world.settle(seconds{100});
    CHECK(world.condition("Failed") == "True");
  };
  SECTION("nobody has answered yet") {
    world.seats = [](const core::Observed&) { return core::Seating{}; };
    world.settle(seconds{300});
    CHECK(world.condition("Failed").empty());
    world.seats = offer_of;
    check_begins_and_fails();
  }
  SECTION("the scheduler decides after all") {
    world.seats = [](const core::Observed&) { return core::Seating{.obstacle = "full"}; };
    world.settle(seconds{300});
    CHECK(world.condition("Failed").empty());
    world.seats = nullptr;
    check_begins_and_fails();
  }
  SECTION("a member is lacking") {
    World trained = placed_gang();
    trained.set_spec([](auto& spec) { spec.deadlines.active_seconds = 1'000; });
    trained.seats = [](const core::Observed&) { return core::Seating{.obstacle = "full"}; };
    trained.remove_pod(1);
    trained.settle(seconds{100});
    CHECK(trained.condition("Failed").empty());
    CHECK(trained.job.status.reason == "WaitingForRoom");
    trained.settle(seconds{1'000});
    CHECK(trained.condition("Failed") == "True");
  }
}

TEST_CASE("seating: nothing is held for a worker that was to come in, and is not wanted any more",
          "[core][I43]") {
  World world = placed_gang();
  world.set_spec([](auto& spec) { spec.replicas = 4; });
  act_until(world, [&] { return !world.job.status.placement.later.empty(); });
  REQUIRE(core::held_seats(world.observed()).size() == 4);
  world.set_spec([](auto& spec) { spec.replicas = 3; });
  world.settle(seconds{60});
  CHECK(core::held_seats(world.observed()).size() == 3);
}

TEST_CASE("seating: of a gang that runs only the pod is moved that the scheduler refuses",
          "[core][I43]") {
  World world = placed_gang();
  world.is_kubelet_on = false;
  world.remove_pod(1);
  world.settle(seconds{5});
  REQUIRE(world.pods.contains("gpt-1-1-1"));
  world.pods.at("gpt-1-1-1").unschedulable_message = "0/3 nodes are available";
  world.pods.at("gpt-1-1-1").meta.creation_time = world.now;
  world.settle(seconds{19});  // the second pod of its slot has twice the time
  CHECK_FALSE(world.pods.at("gpt-1-1-1").meta.deletion_time);
  world.settle(seconds{2});
  CHECK(world.pods.at("gpt-1-1-1").meta.deletion_time);
  REQUIRE(world.job.status.excluded_nodes.size() == 1);
  CHECK(world.job.status.excluded_nodes[0].name == "near-1-1");
  world.finish_terminating();
  world.settle(seconds{60});
  INFO(world.text() << " " << world.job.status.message);
  CHECK(world.job.status.attempt == 1);
  CHECK(world.pods.contains("gpt-1-1-2"));
}

TEST_CASE("seating: a worker that is lost before its UID is on record keeps its quota",
          "[core][I44]") {
  World world = placed_gang();
  world.group->status = {};
  for (api::EligiblePod& pod : world.group->spec.pods) pod.uid.clear();
  world.pod(1).phase = api::PodPhase::kFailed;
  CHECK(core::staff_of(world.observed(), world.now).slots == std::set<int>{0, 1, 2});
}

TEST_CASE("seating: ranks are dealt anew in the write that tells of a pod which has come in",
          "[core][I51]") {
  World world = placed_gang();
  world.rank_order = {2, 0};  // of slot 1 it is not known
  world.settle(seconds{60});
  const auto orders = [&] {
    std::vector<int> found;
    for (const api::EligiblePod& pod : world.group->spec.pods) found.push_back(pod.rank_order);
    return found;
  };
  CHECK(orders() == std::vector<int>{-1, -1, -1});  // nobody has come
  const int writes = world.group_writes;
  world.remove_pod(1);
  world.settle(seconds{60});
  CHECK(world.pod(1).meta.name == "gpt-1-1-1");
  CHECK(orders() == std::vector<int>{1, 2, 0});
  CHECK(world.group_writes == writes + 2);  // its name, its UID

  world.rank_order.clear();  // it is not known any more
  world.remove_pod(0);
  world.settle(seconds{60});
  CHECK(orders() == std::vector<int>{1, 2, 0});

  world.rank_order = {0, 1, 2};
  world.remove_pod(1);
  world.settle(seconds{60});
  CHECK(orders() == std::vector<int>{-1, -1, -1});  // as the slots
  CHECK(world.job.status.attempt == 1);
  CHECK(world.broken.empty());
}
