// Gangs whose pods are made without nodes, for an autoscaler that adds some.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include "tests/unit/operator/seats.h"

using namespace pawl;
using namespace pawl::test;
using std::chrono::minutes;
using std::chrono::seconds;

namespace {

core::Seating anywhere(const core::Observed& seen) {
  core::Seating seating = offer_of(seen);
  seating.offer->domain.clear();
  seating.offer->nodes.front().name = api::kAnyNode;
  return seating;
}

// Two workers, of which none has a node.
World homeless_gang() {
  World world(2);
  world.seats = anywhere;
  world.is_kubelet_on = false;
  world.settle();
  REQUIRE(world.pods.size() == 2);
  for (int slot = 0; slot < 2; ++slot) {
    world.pod(slot).node.clear();
    world.pod(slot).bound_time.reset();
    world.pod(slot).meta.creation_time = world.now;
    world.pod(slot).unschedulable_message = "0/2 nodes are available";
  }
  return world;
}

}  // namespace

TEST_CASE("seating: pods that may be anywhere wait for their nodes, and nothing is refused",
          "[core][I52]") {
  World world = homeless_gang();
  world.settle(minutes{14});
  CHECK(world.job.status.attempt == 1);
  CHECK(world.job.status.excluded_nodes.empty());
  CHECK(world.job.status.reason == "WaitingForNodes");
  CHECK(world.job.status.message.find("WaitingForNodes (pod gpt-1-0-0): 0/2 nodes") !=
        std::string::npos);
  CHECK(core::held_seats(world.observed()).empty());
  CHECK(core::staff_of(world.observed(), world.now).slots == std::set{0, 1});  // and their quota
  CHECK(world.condition("Stalled") != "True");
  for (int slot = 0; slot < 2; ++slot) {
    world.pod(slot).node = "new-" + std::to_string(slot);
    world.pod(slot).unschedulable_message.clear();
  }
  world.is_kubelet_on = true;
  world.settle(minutes{20});
  CHECK(world.text() == "Running attempt 1 counted 0 free 0 ready 2/2 live 2");
  CHECK(world.broken.empty());
}

TEST_CASE("seating: nobody waits for ever for nodes that are to come", "[core][I52]") {
  World world = homeless_gang();
  world.job.spec.scheduling = api::Scheduling{.start_timeout_seconds = 60};  // from all nodes on
  world.pod(1).node = "new-1";
  world.pod(1).bound_time = world.now + minutes{10};  // it is the first pod that counts
  world.settle(seconds{899});
  CHECK(world.job.status.attempt == 1);
  world.settle(seconds{2});
  CHECK(world.job.status.attempt == 2);
  CHECK(world.job.status.placement == api::PlacementStatus{});
  CHECK(world.job.status.excluded_nodes.empty());
  CHECK(world.job.status.restarts.counted == 0);
  CHECK(world.job.status.restarts.by_cause.at("NodesTimeout") == 1);
  CHECK(world.job.status.message.find("the gang waited for its nodes for 900 s") !=
        std::string::npos);
}

TEST_CASE("seating: the time of a start begins when all nodes have come", "[core][I46][I52]") {
  World world = homeless_gang();
  const bool is_limited = GENERATE(true, false);
  if (is_limited) world.job.spec.scheduling = api::Scheduling{.start_timeout_seconds = 60};
  world.settle(minutes{10});
  for (int slot = 0; slot < 2; ++slot) {
    world.pod(slot).node = "new-" + std::to_string(slot);
    world.pod(slot).bound_time = world.now - minutes{slot};  // the last one counts
    world.pod(slot).unschedulable_message.clear();
  }
  world.settle(seconds{59});
  CHECK(world.job.status.attempt == 1);
  world.settle(seconds{2});
  CHECK(world.job.status.attempt == (is_limited ? 2 : 1));
  world.settle(minutes{10});
  const auto& causes = world.job.status.restarts.by_cause;
  CHECK(causes.contains("StartTimeout") == is_limited);
  CHECK_FALSE(causes.contains("NodesTimeout"));
}
