// What a ControllerLoop is told once, and how far its views have come. Values.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>

#include "operator/controller/flavors.h"
#include "operator/controller/inbox.h"
#include "operator/controller/placer.h"
#include "operator/core/plan.h"

namespace pawl::controller {

struct LoopOptions {
  core::Policy policy;
  std::size_t runs_max = 64;  // plans under way; more keys wait their turn
  std::size_t wave_max = 16;  // requests of one plan under way
  bool is_standby = false;    // takes in what is posted and plans nothing until lead()
  // Of all running gangs together: their reports, and the job statuses that follow from those.
  int writes_per_second_max = 30;
  std::optional<placement::Levels> placement;  // nothing: the cluster's scheduler decides on nodes
  bool reports_queues = true;                  // into their status
  admission::Patience patience;
  Flavors flavors;                // of nodes, with quotas of their own
  bool wants_pod_groups = false;  // for what the scheduler places, where the cluster serves them
};

using Views = std::array<std::string, kKinds>;  // resourceVersions

}  // namespace pawl::controller
