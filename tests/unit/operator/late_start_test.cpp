// A gang that has its nodes and does not begin gives them back (scheduling.startTimeoutSeconds).
#include <algorithm>
#include <catch2/catch_test_macros.hpp>

#include "tests/unit/operator/seats.h"

using namespace pawl;
using namespace pawl::test;
using std::chrono::seconds;

namespace {

// Placed, with all pods, of which none has started.
World stuck(int replicas, int timeout = 60) {
  World world(replicas, api::RuntimeKind::kNative);
  world.job.spec.scheduling = api::Scheduling{.start_timeout_seconds = timeout};
  world.seats = offer_of;
  world.is_kubelet_on = false;
  world.settle();
  REQUIRE(std::cmp_equal(world.pods.size(), replicas));
  for (int slot = 0; slot < replicas; ++slot) {
    api::PodView& pod = world.pod(slot);
    pod.node = "node-" + std::to_string(slot);
    pod.meta.creation_time = world.now;
    pod.waiting_reason = "ImagePullBackOff";
    pod.waiting_message = "no such image";
  }
  return world;
}

void start(World& world, int slot) {
  api::PodView& pod = world.pod(slot);
  pod.phase = api::PodPhase::kRunning;
  pod.waiting_reason.clear();
  pod.waiting_message.clear();
}

}  // namespace

TEST_CASE("late_start: nodes of a gang that does not begin are others' until it is tried again",
          "[core][I46]") {
  World world = stuck(2);
  world.settle(seconds{59});
  CHECK(world.job.status.attempt == 1);
  REQUIRE(api::workers_of(world.job.status.placement) == 2);
  world.settle(seconds{2});
  CHECK(world.job.status.attempt == 2);
  CHECK(api::workers_of(world.job.status.placement) == 2);  // its pods are there
  world.finish_terminating();
  world.settle(seconds{2});
  CHECK(world.job.status.placement == api::PlacementStatus{});
  CHECK(world.job.status.restarts.counted == 0);
  CHECK(world.job.status.restarts.by_cause.at("StartTimeout") == 1);
  CHECK(world.job.status.message.find("ImagePullBackOff (pod gpt-1-0-0): no such image") !=
        std::string::npos);
  CHECK(world.job.status.message.find("the gang had 60 s to start") != std::string::npos);
  CHECK(world.job.status.start_time == world.job.status.attempt_time);
  CHECK(world.pods.empty());
  world.is_kubelet_on = true;
  world.settle(seconds{120});
  CHECK(world.job.status.attempt == 2);
  CHECK(world.condition("Running") == "True");
  CHECK(world.broken.empty());
}

TEST_CASE("late_start: it waits before it is tried again, as long as it did not run",
          "[core][I46][B43]") {
  World world = stuck(2, 10);
  world.settle(seconds{11});
  REQUIRE(world.job.status.attempt == 2);
  world.finish_terminating();
  world.settle(seconds{8});
  CHECK(world.pods.empty());
  world.settle(seconds{4});
  CHECK(world.pods.size() == 2);
}

TEST_CASE("late_start: a node where one did not start and others did is avoided", "[core][I46]") {
  World world = stuck(3);
  SECTION("none has started") {}
  SECTION("one has not") {
    start(world, 0);
    start(world, 2);
  }
  const bool are_some_started = world.pod(0).phase == api::PodPhase::kRunning;
  world.settle(seconds{61});
  REQUIRE(world.job.status.attempt == 2);
  const auto& nodes = world.job.status.excluded_nodes;
  if (!are_some_started) {
    CHECK(nodes.empty());
  } else {
    REQUIRE(nodes.size() == 1);
    CHECK(nodes.front().name == "node-1");
    CHECK(nodes.front().cause == "StartTimeout");
    CHECK(nodes.front().message == "a worker did not start there: no such image");
    CHECK(nodes.front().until.has_value());
  }
}

TEST_CASE("late_start: a gang that has begun, or has no limit, is left alone", "[core][I46]") {
  SECTION("it has formed") {
    World world = stuck(2);
    world.report(0);
    world.settle(seconds{3600});
    CHECK(world.job.status.attempt == 1);
  }
  SECTION("all are ready") {
    World world = stuck(2);
    for (int slot = 0; slot < 2; ++slot) {
      start(world, slot);
      world.pod(slot).is_ready = true;
    }
    world.settle(seconds{3600});
    CHECK(world.job.status.attempt == 1);
  }
  SECTION("no limit") {
    World world = stuck(2);
    world.job.spec.scheduling->start_timeout_seconds.reset();
    world.settle(seconds{3600});
    CHECK(world.job.status.attempt == 1);
  }
}
