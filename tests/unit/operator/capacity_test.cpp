// Spot machines: who leads first, and what the operator does when spot keeps failing.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>

#include "common/api/pod_scheduling.h"
#include "operator/core/failures.h"
#include "tests/unit/operator/world.h"

using namespace pawl;
using namespace pawl::test;
using std::chrono::minutes;
using std::chrono::seconds;

namespace {

World on_spot(int replicas, int on_demand_min, api::SpotUse spot = api::SpotUse::kPrefer) {
  World world = World::training(replicas);
  world.set_spec([&](api::TrainingJobSpec& spec) {
    spec.capacity = api::Capacity{.spot = spot, .on_demand_min = on_demand_min};
  });
  world.settle();
  return world;
}

// Its machine is taken back, and its gang goes on with another pod.
void take(World& world, int slot, const char* reason = "DeletionByTaintManager") {
  api::PodView& pod = world.pod(slot);
  pod.phase = api::PodPhase::kFailed;
  pod.is_ready = false;
  pod.has_disruption_target = true;
  pod.disruption_reason = reason;
  world.settle();
  world.settle(seconds{10});
  world.commit_next(10);
  world.settle();
}

const api::CapacityStatus& capacity_of(const World& world) { return world.job.status.capacity; }

int events_named(const World& world, const std::string& event) {
  return static_cast<int>(std::ranges::count(world.events, event));
}

seconds time_of(const api::CapacityStatus& capacity) {
  REQUIRE(capacity.since.has_value());
  REQUIRE(capacity.until.has_value());
  return std::chrono::duration_cast<seconds>(*capacity.until - *capacity.since);
}

}  // namespace

TEST_CASE("capacity: workers that are never on spot claim first", "[core][I41]") {
  World plain = World::training(3);
  const auto orders = [](const World& world) {
    std::vector<int> out;
    for (const api::EligiblePod& pod : world.group->spec.pods) out.push_back(pod.order);
    return out;
  };
  CHECK(orders(plain) == std::vector{0, 1, 2});
  World mixed(3, api::RuntimeKind::kNative);
  mixed.job.spec.capacity = api::Capacity{.spot = api::SpotUse::kAllow, .on_demand_min = 1};
  mixed.settle();
  CHECK(orders(mixed) == std::vector{0, 11, 12});
}

TEST_CASE("capacity: another spec.capacity makes new pods otherwise, and restarts nothing",
          "[core][I41][I33]") {
  World world = World::training(3);
  const std::string hash = world.group->spec.pod_hash;
  const int writes = world.group_writes;
  world.set_spec([](api::TrainingJobSpec& spec) {
    spec.capacity = api::Capacity{.spot = api::SpotUse::kPrefer, .on_demand_min = 1};
  });
  world.settle();
  CHECK(world.group_writes == writes);
  CHECK(world.job.status.attempt == 1);
  take(world, 2);
  CHECK(world.job.status.attempt == 1);
  CHECK(world.group->spec.pod_hash == hash);
  CHECK(world.pod(2).meta.name.ends_with("-1"));
}

TEST_CASE("capacity: spot that keeps failing is avoided for a while, and used again",
          "[core][I41]") {
  World world = on_spot(3, 1);
  take(world, 1);
  take(world, 2);
  CHECK(capacity_of(world).lost_pods.size() == 2);
  CHECK_FALSE(capacity_of(world).is_spot_avoided);
  take(world, 1);
  CHECK(capacity_of(world).is_spot_avoided);
  CHECK(capacity_of(world).lost_pods.empty());
  CHECK(time_of(capacity_of(world)) == minutes{5});
  CHECK(events_named(world, "SpotAvoided") == 1);
  CHECK(world.job.status.restarts.counted == 0);
  const int writes = world.status_writes;
  world.settle(minutes{4});
  CHECK(capacity_of(world).is_spot_avoided);
  world.settle(minutes{2});
  CHECK_FALSE(capacity_of(world).is_spot_avoided);
  CHECK(events_named(world, "SpotReturned") == 1);
  CHECK(world.status_writes == writes + 1);
  world.settle(minutes{120});
  CHECK(world.status_writes == writes + 1);
  CHECK(world.broken.empty());
}

TEST_CASE("capacity: the time doubles up to an hour, and is short again after a quiet one",
          "[core][I41]") {
  World world = on_spot(3, 0);
  seconds expected = minutes{5};
  for (int i = 0; i < 6; ++i) {
    for (int slot = 0; slot < 3; ++slot) take(world, slot);
    REQUIRE(capacity_of(world).is_spot_avoided);
    CHECK(time_of(capacity_of(world)) == expected);
    expected = std::min<seconds>(2 * expected, minutes{60});
    world.settle(minutes{61});
  }
  world.settle(minutes{60});
  for (int slot = 0; slot < 3; ++slot) take(world, slot);
  CHECK(time_of(capacity_of(world)) == minutes{5});
}

TEST_CASE("capacity: what does not speak against spot is not counted", "[core][I41]") {
  SECTION("workers that are never there") {
    World world = on_spot(3, 2);
    for (int i = 0; i < 4; ++i) take(world, i % 2);
    CHECK(capacity_of(world) == api::CapacityStatus{});
  }
  SECTION("a job that does not ask for it") {
    World world = World::training(3);
    for (int i = 0; i < 4; ++i) take(world, i % 3);
    CHECK(capacity_of(world) == api::CapacityStatus{});
  }
  SECTION("losses far from each other") {
    World world = on_spot(3, 0);
    for (int i = 0; i < 6; ++i) {
      take(world, i % 3);
      world.settle(minutes{6});
    }
    CHECK_FALSE(capacity_of(world).is_spot_avoided);
  }
  SECTION("who deletes a pod") {
    World world = on_spot(3, 0);
    for (int i = 0; i < 4; ++i) {
      world.delete_pod(i % 3);
      world.finish_terminating();
      world.settle(seconds{10});
      world.commit_next(10);
      world.settle();
    }
    CHECK(capacity_of(world).lost_pods.empty());
  }
}

TEST_CASE("capacity: a loss that is judged again counts once", "[core][I41][L2]") {
  World world = on_spot(4, 0);
  api::PodView& pod = world.pod(1);
  pod.phase = api::PodPhase::kFailed;
  pod.has_disruption_target = true;
  pod.disruption_reason = "DeletionByTaintManager";
  const core::Plan first = world.plan();
  for (const core::Action& action : first.actions) {
    if (std::get_if<core::PatchStatus>(&action) != nullptr) CHECK(world.apply(action));
  }
  CHECK(capacity_of(world).lost_pods == std::vector{pod.meta.name});
  world.settle();  // the record is written now
  CHECK(capacity_of(world).lost_pods.size() == 1);
}

TEST_CASE("capacity: a silent machine counts where its gang is rebuilt, too", "[core][I41]") {
  World world = on_spot(3, 0);
  world.set_spec([](api::TrainingJobSpec& spec) { spec.strategy = api::Strategy::kRecreateAll; });
  world.settle();
  const std::string lost = world.pod(1).meta.name;
  world.lose_touch(1);  // no more is known of it
  world.fail(0, 75, "Victim");
  world.settle(seconds{60});
  REQUIRE(world.job.status.attempt == 2);
  CHECK(world.job.status.last_failure->pod == lost);
  CHECK(world.job.status.restarts.counted == 0);
  CHECK(capacity_of(world).lost_pods == std::vector{lost});
}

TEST_CASE("capacity: who is parted from is not taken, unless its machine goes", "[core][I41]") {
  World world = on_spot(3, 0);
  const std::string lost = world.pod(1).meta.name;
  world.lose_touch(1);
  world.group->status.failures.back().cause = "Unreached";
  SECTION("its machine stays") {
    world.settle(seconds{60});
    REQUIRE(world.job.status.last_failure->cause == "Unreached");
    CHECK(capacity_of(world).lost_pods.empty());
  }
  SECTION("another one has left it, because the cloud takes it back") {
    world.group->status.failures.back().node = world.pod(1).node;
    world.job.status.excluded_nodes.push_back({.name = world.pod(1).node,
                                               .cause = "Interrupted",
                                               .until = world.now + minutes{60},
                                               .message = "the cloud takes it back",
                                               .pods = {"gpt-1-2-0"}});
    world.settle(seconds{60});
    REQUIRE(world.job.status.last_failure->cause == "Interrupted");
    CHECK(capacity_of(world).lost_pods == std::vector{lost});
  }
}

TEST_CASE("capacity: a drain takes machines; a kubelet without memory and a queue do not",
          "[core][I41]") {
  World world = on_spot(3, 0);
  take(world, 0, "TerminationByKubelet");
  take(world, 1, "WorkloadEvictedDueToPodsReadyTimeout");
  CHECK(world.job.status.last_failure->cause == "Evicted");
  CHECK(capacity_of(world).lost_pods.empty());
  const std::string drained = world.pod(2).meta.name;
  take(world, 2, "EvictionByEvictionAPI");
  CHECK(capacity_of(world).lost_pods == std::vector{drained});
}

TEST_CASE("capacity: who has gone before the last one has left counts", "[core][I41]") {
  World world = on_spot(3, 0);
  world.is_kubelet_on = false;
  for (int slot = 0; slot < 3; ++slot) world.pod(slot).meta.deletion_time = world.now + seconds{30};
  api::PodView& first = world.pod(0);
  first.phase = api::PodPhase::kFailed;
  first.has_disruption_target = true;
  first.disruption_reason = "EvictionByEvictionAPI";
  const std::string taken = first.meta.name;
  world.settle(seconds{1});
  CHECK(world.job.status.attempt == 1);
  CHECK(capacity_of(world).lost_pods == std::vector{taken});
}

TEST_CASE("capacity: a machine that is shut down is taken, whatever the kubelet calls it",
          "[core][I41]") {
  World world = on_spot(3, 0);
  const std::string taken = world.pod(0).meta.name;
  world.pod(0).reason = "Terminated";
  take(world, 0, "TerminationByKubelet");
  CHECK(world.job.status.last_failure->cause == "NodeLost");
  CHECK(capacity_of(world).lost_pods == std::vector{taken});
}

TEST_CASE("capacity: of a large gang half has to go", "[core][I41]") {
  World world = on_spot(12, 0);
  for (int slot = 0; slot < 5; ++slot) take(world, slot);
  CHECK_FALSE(capacity_of(world).is_spot_avoided);
  take(world, 5);
  CHECK(capacity_of(world).is_spot_avoided);
}

TEST_CASE("capacity: where each loss rebuilds the gang three suffice, of whatever size",
          "[core][I41]") {
  World world = on_spot(12, 0);
  world.set_spec([](api::TrainingJobSpec& spec) { spec.strategy = api::Strategy::kRecreateAll; });
  world.settle();
  for (int i = 0; i < 3; ++i) {
    CHECK_FALSE(capacity_of(world).is_spot_avoided);
    api::PodView& pod = world.pod(i);
    pod.phase = api::PodPhase::kFailed;
    pod.has_disruption_target = true;
    pod.disruption_reason = "DeletionByTaintManager";
    world.settle(seconds{60});
  }
  CHECK(capacity_of(world).is_spot_avoided);
  CHECK(world.job.status.restarts.counted == 0);
}

TEST_CASE("capacity: a clock that was set back keeps nobody from spot", "[core][I41]") {
  World world = on_spot(3, 0);
  for (int slot = 0; slot < 3; ++slot) take(world, slot);
  REQUIRE(capacity_of(world).is_spot_avoided);
  world.now -= std::chrono::hours{5};
  world.settle();
  CHECK_FALSE(capacity_of(world).is_spot_avoided);
}

TEST_CASE("capacity: without spec.capacity, and after a resume, all is forgotten", "[core][I41]") {
  World world = on_spot(3, 0);
  for (int slot = 0; slot < 3; ++slot) take(world, slot);
  REQUIRE(capacity_of(world).is_spot_avoided);
  SECTION("the user changes their mind") {
    world.set_spec([](api::TrainingJobSpec& spec) { spec.capacity.reset(); });
    world.settle();
  }
  SECTION("a suspension") {
    world.set_suspended(true);
    world.settle(seconds{60});
    world.finish_terminating();
    world.settle();
    world.set_suspended(false);
    world.settle();
  }
  CHECK(capacity_of(world) == api::CapacityStatus{});
}
