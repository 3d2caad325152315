// Nodes for a gang, as whoever decides on them would give them.
#pragma once

#include <catch2/catch_test_macros.hpp>
#include <functional>
#include <initializer_list>

#include "tests/unit/operator/world.h"

namespace pawl::test {

// All workers on one node, named after the attempt.
inline core::Seating offer_of(const core::Observed& seen) {
  const std::int64_t attempt = seen.job->status.attempt;
  return {.offer = api::PlacementStatus{
              attempt, "rack-1", {{"node-" + std::to_string(attempt), seen.job->spec.replicas}}}};
}

// In the next few plans, of which no time passes.
inline void act_until(World& world, const std::function<bool()>& is_done) {
  for (int plans = 0; plans < 10 && !is_done(); ++plans) {
    for (const core::Action& action : world.plan().actions) world.apply(action);
  }
  REQUIRE(is_done());
}

// For how many workers the next attempt has quota, when these have failed and none has ended.
inline int kept_after_failure(World& world, std::initializer_list<int> slots) {
  world.is_kubelet_on = false;
  for (const int slot : slots) world.fail(slot, 1);
  world.settle();
  REQUIRE(world.job.status.attempt == 2);
  return core::staff_of(world.observed(), world.now).kept;
}

}  // namespace pawl::test
