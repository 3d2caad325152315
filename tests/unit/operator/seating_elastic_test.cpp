// Nodes for a gang that may begin with fewer workers than it is to have.
#include <catch2/catch_test_macros.hpp>

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
    is_full = false;
    world.settle(seconds{30});
    CHECK(world.pods.size() == 4);
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
