// One evaluation of plan(): the view, sorted, and the status and actions as they take shape. Steps
// (gang, restart, finish, suspend) read the first half and write the second; seal() in status.cpp
// turns it into a Plan. Pure.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "operator/core/plan.h"
#include "operator/core/pods.h"

namespace pawl::core {

struct Pass {
  Pass(const Observed& seen_now, const Policy& policy_now, TimePoint time);

  // What is seen.
  const Observed& seen;
  const Policy& policy;
  const api::TrainingJob& job;
  const TimePoint now;                    // whole seconds, as the API keeps them
  const TimePoint now_exact;              // for comparing with wake-ups
  const api::WorkerGroup* group;          // ours, else null
  const api::WorkerGroup* current_group;  // the same, if its spec is of this attempt
  const api::WorkerGroupStatus*
      report;  // the gang's, if it is of this attempt and a generation stands on record
  const PodBuckets pods;

  // What is decided.
  api::TrainingJobStatus next;
  std::vector<Action> confirms, acts;
  std::vector<EmitEvent> events;
  std::optional<TimePoint> wake_up;
  bool is_new_attempt = false;  // its intent is written first; acting on it is the next pass's
  bool asks_for_seats = false;
  std::vector<api::PlacedPod> seats_wanted;  // without their nodes
  int seats_least = 0;                       // as in the plan
  int seats_lacking = 0;                     // pods that are not made for want of a node
  std::string seat_obstacle;                 // of a pod that is to come in
  bool lacks_quota = false;                  // is that why
  bool is_status_due = false;  // written before what this pass does, if it has changed at all

  // Of the newest generation of this attempt.
  bool is_member(const std::string& uid) const;
  int size() const;       // pods that this attempt is to have
  int gang_size() const;  // of them at one time members; the others wait (scheduling.spares)
  int ready() const;      // members; who has just left may say so still
  void say(std::string reason, std::string message);  // status.reason and status.message
  void wake(TimePoint time) { wake_up = wake_up ? std::min(*wake_up, time) : time; }
  // `which`: where one attempt may see the same again.
  void emit(bool is_warning, std::string reason, std::string message, std::string which = "");
  void delete_pod(const api::PodView& pod);  // nothing if it is already terminating
  void delete_superseded();                  // of lower attempts, and those with successors
  void delete_all();                         // pods of this attempt and of those before
};

}  // namespace pawl::core
