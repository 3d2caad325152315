// A gang that has its nodes and does not begin gives them back (scheduling.startTimeoutSeconds).
#include <algorithm>
#include <catch2/catch_test_macros.hpp>

#include "tests/unit/operator/seats.h"

using namespace pawl;
using namespace pawl::test;
using std::chrono::seconds;

namespace {

// On its nodes, and none of its pods has started.
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
    pod.bound_time = world.now;
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
  const auto begun = world.job.status.start_time;
  world.settle(seconds{59});
  CHECK(world.job.status.attempt == 1);
  REQUIRE(api::workers_of(world.job.status.placement) == 2);
  world.settle(seconds{2});
  CHECK(world.job.status.attempt == 2);
  CHECK(world.job.status.placement == api::PlacementStatus{});
  CHECK(core::staff_of(world.observed(), world.now).kept == 0);
  CHECK(core::staff_of(world.observed(), world.now).pods == 2);  // until they are gone
  CHECK(world.job.status.restarts.counted == 0);
  CHECK(world.job.status.restarts.by_cause.at("StartTimeout") == 1);
  CHECK(world.job.status.message.find("ImagePullBackOff (pod gpt-1-0-0): no such image") !=
        std::string::npos);
  CHECK(world.job.status.message.find("the gang had 60 s to start") != std::string::npos);
  CHECK(world.job.status.start_time == begun);
  world.finish_terminating();
  world.settle(seconds{2});
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

TEST_CASE("late_start: to be tried again and again moves no deadline", "[core][I46][E4]") {
  World world(2, api::RuntimeKind::kNative);
  world.job.spec.scheduling = api::Scheduling{.start_timeout_seconds = 60};
  world.seats = offer_of;
  world.is_kubelet_on = false;
  std::string expected;
  SECTION("startSeconds") {
    world.job.spec.deadlines.start_seconds = 600;
    expected = "StartDeadlineExceeded";
  }
  SECTION("activeSeconds") {
    world.job.spec.deadlines.active_seconds = 600;
    expected = "DeadlineExceeded";
  }
  for (int i = 0; i < 70; ++i) {
    world.settle(seconds{10});
    for (auto& [name, pod] : world.pods) {
      if (pod.node.empty()) pod.bound_time = world.now;
      pod.node = "node";
    }
    world.finish_terminating();
  }
  CHECK(world.job.status.restarts.by_cause.at("StartTimeout") >= 4);
  CHECK(world.condition("Failed") == "True");
  CHECK(world.job.status.reason == expected);
}

TEST_CASE("late_start: a resume begins the deadline anew, also for one that does not begin",
          "[core][I46][E4]") {
  World world = stuck(2);
  world.job.spec.deadlines.start_seconds = 600;
  world.set_suspended(true);
  world.settle(seconds{60});
  world.finish_terminating();
  world.settle(seconds{3600});
  world.set_suspended(false);
  world.settle(seconds{1});
  REQUIRE(world.pods.size() == 2);
  for (auto& [name, pod] : world.pods) {
    pod.node = "node";
    pod.bound_time = world.now;
  }
  world.settle(seconds{70});
  CHECK(world.job.status.restarts.by_cause.at("StartTimeout") == 1);
  CHECK(world.condition("Failed") != "True");
}

TEST_CASE("late_start: a node where one did not start and most did is avoided, at once",
          "[core][I46][I40]") {
  int size = 3;
  std::vector<int> late;
  SECTION("none has started") { late = {0, 1, 2}; }
  SECTION("few have") { late = {1, 2}; }
  SECTION("so many have not that it is something else") {
    size = 12;
    late = {0, 1, 2, 3, 4};
  }
  SECTION("one has not") { late = {1}; }
  World world = stuck(size);
  for (int slot = 0; slot < size; ++slot) {
    if (std::ranges::find(late, slot) == late.end()) start(world, slot);
  }
  world.settle(seconds{61});
  REQUIRE(world.job.status.attempt == 2);
  const auto& nodes = world.job.status.excluded_nodes;
  CHECK(nodes.empty() == (late.size() > 1));
  if (!nodes.empty()) {
    CHECK(nodes.front().name == "node-1");
    CHECK(nodes.front().cause == "StartTimeout");
    CHECK(nodes.front().message == "a worker did not start there: no such image");
  }
  world.finish_terminating();
  world.settle(seconds{1});
  CHECK(world.pods.empty() == nodes.empty());  // it goes elsewhere while the node is avoided
}

TEST_CASE("late_start: who may begin smaller has the time for that", "[core][I46]") {
  World world = stuck(3);
  world.job.spec.elastic = api::Elastic{.min_replicas = 2, .shortage_seconds = 30};
  world.settle(seconds{85});
  CHECK(world.job.status.attempt == 1);
  world.settle(seconds{6});
  CHECK(world.job.status.attempt == 2);
}

TEST_CASE("late_start: it says which pod was refused", "[core][I46]") {
  World world = stuck(3);
  world.pods.erase("gpt-1-2-0");
  for (int slot = 0; slot < 2; ++slot) start(world, slot);
  world.refusal = core::Refusal{.action = "create Pod gpt-1-2-0",
                                .message = "exceeded quota",
                                .reason = "Forbidden",
                                .retry_at = world.now + seconds{3600},
                                .generation = world.job.meta.generation};
  world.settle(seconds{61});
  CHECK(world.job.status.attempt == 2);
  CHECK(world.job.status.message.find("create Pod gpt-1-2-0 was refused: exceeded quota") !=
        std::string::npos);
}

TEST_CASE("late_start: a gang that has begun, holds nothing, or has no limit is left alone",
          "[core][I46]") {
  World world = stuck(2);
  SECTION("it has formed") { world.report(0); }
  SECTION("all are ready") {
    for (int slot = 0; slot < 2; ++slot) {
      start(world, slot);
      world.pod(slot).is_ready = true;
    }
  }
  SECTION("its pods have no nodes yet") {
    for (int slot = 0; slot < 2; ++slot) {
      api::PodView& pod = world.pod(slot);
      pod.node.clear();
      pod.bound_time.reset();
      pod.is_gated = true;
    }
  }
  SECTION("no limit") { world.job.spec.scheduling->start_timeout_seconds.reset(); }
  world.settle(seconds{3600});
  CHECK(world.job.status.attempt == 1);
}
