// A cluster with a queue, as the tests of quotas see it.
#pragma once

#include <string>

#include "tests/unit/operator/placed_world.h"

namespace pawl::test {

inline const nlohmann::json kTeam = {{"queueName", "team-a"}};

// Four machines with 8 GPUs each, and a queue that may use 8 of them.
struct Queued : PlacedWorld {
  explicit Queued(int quota = 8) : PlacedWorld({"node-a", "node-b", "node-c", "node-d"}) {
    cluster.set_queue("team-a", quota);
  }
  void create(const std::string& name, int replicas, const nlohmann::json& scheduling = kTeam,
              const std::string& kind = "Custom") {
    cluster.clock.advance(std::chrono::seconds{1});
    cluster.create_job(name, replicas, kind, 4, scheduling);
  }
  int pods() {
    int count = 0;
    for (const nlohmann::json& pod : cluster.all(kube::resources::kPods))
      count += placement::booking_of(pod) ? 1 : 0;
    return count;
  }
};

}  // namespace pawl::test
