// What the operator reads of a pod, flat. decode_pod in codec.h fills it. Values; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "common/api/meta.h"

namespace pawl::api {

enum class PodPhase { kPending, kRunning, kSucceeded, kFailed, kUnknown };

struct PodView {
  ObjectMeta meta;
  PodPhase phase = PodPhase::kPending;
  std::string node, reason, message, ip;  // reason/message of status, e.g. Evicted
  bool is_ready = false;                  // the Ready condition
  bool has_disruption_target = false;    // DisruptionTarget=True, or Kueue's TerminationTarget=True
  std::string disruption_reason;         // of that condition, e.g. PreemptionByScheduler
  std::string worker_container;          // the container the launcher runs in
  std::optional<int> exit_code, signal;  // of that container, when terminated
  std::string terminated_reason;         // OOMKilled, Error, Completed
  std::string termination_message;       // what the launcher left (termination.h)
  std::string waiting_reason,
      waiting_message;  // ImagePullBackOff, CreateContainerConfigError, of any container
  std::string unschedulable_message;         // condition PodScheduled=False
  std::optional<TimePoint> bound_time = {};  // … or since when it is True
  int grace_seconds = 30;                    // terminationGracePeriodSeconds
  bool is_gated = false;                     // that condition's reason: nobody tries to schedule it
  bool operator==(const PodView&) const = default;
};

}  // namespace pawl::api
