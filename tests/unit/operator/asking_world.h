// A gang that waits for room on a cluster with an autoscaler, which the test plays.
#pragma once

#include <string>
#include <utility>

#include "tests/unit/operator/seats.h"

namespace pawl::test {

class AskingWorld : public World {
 public:
  explicit AskingWorld(int replicas) : AskingWorld(World(replicas)) {}
  explicit AskingWorld(World world) : World(std::move(world)) {
    policy.provisioning = core::OptionalApi::kServed;
    seats = [this](const core::Observed& seen) { return seating(seen); };
  }
  AskingWorld(const AskingWorld&) = delete;  // its seats point to it
  AskingWorld& operator=(const AskingWorld&) = delete;

  bool has_room = false, lacks_nodes = true;

  // The one that was asked last.
  api::NodeRequest& newest() {
    api::NodeRequest* found = nullptr;
    for (auto& [name, request] : node_requests) {
      if (found == nullptr || found->number < request.number) found = &request;
    }
    REQUIRE(found != nullptr);
    return *found;
  }
  std::string name() { return newest().name; }
  void answer(api::ProvisioningStage stage, const std::string& message = "") {
    api::NodeRequest& request = newest();
    request.stage = stage;
    request.message = message;
    request.since = now;
  }

 private:
  core::Seating seating(const core::Observed& seen) {
    if (has_room) return offer_of(seen);
    if (!lacks_nodes) since_.reset();
    if (lacks_nodes && !since_) since_ = now;
    return {.obstacle = "no room", .lacks_nodes_since = since_};
  }
  std::optional<TimePoint> since_;
};

}  // namespace pawl::test
