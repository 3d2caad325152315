// The pods of one job, sorted into named buckets before any policy looks at them. A pod is known by
// its owner's UID and its name (which carries attempt, slot and incarnation); labels can be edited
// and are not trusted. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/api/types.h"

namespace pawl::core {

struct PodIdentity {
  std::int64_t attempt = 0;
  int slot = 0, n = 0;
  bool operator==(const PodIdentity&) const = default;
};
// "<job>-<attempt>-<slot>-<n>" → its numbers; nothing else is a name of ours.
std::optional<PodIdentity> parse_pod_name(const std::string& job_name, const std::string& pod_name);

// "<job>" of such a name, whoever owns the pod; nothing for any other name.
std::optional<std::string> job_of_pod_name(const std::string& pod_name);

struct Worker {
  const api::PodView* pod = nullptr;
  PodIdentity identity;
};

bool is_terminal(
    const api::PodView& pod);  // Succeeded or Failed: its containers have ended for good
// How the worker's part ended. The launcher's exit code is what counts: a container beside it may
// run on (the pod then stays Running), or fail.
enum class Outcome { kNone, kSucceeded, kFailed };
Outcome outcome_of(const api::PodView& pod);
bool is_terminating(
    const api::PodView& pod);  // has a deletion time; counts as present until terminal or gone
bool is_staying(const api::PodView& pod);  // it has not ended, and was not told to
bool is_owned_by(const api::ObjectMeta& meta, const std::string& uid);
// Left of a deleted job of this job's name: the garbage collector, or the orphan plan, takes it
// away.
bool is_leftover(const api::TrainingJob& job, const api::ObjectMeta& meta);
// Of a job of this name that is gone; a pod that somebody else gave such a name is not.
bool is_left_of(const std::string& job_name, const api::ObjectMeta& meta);

// Terminating for so long that nobody waits for it any more; it may be running, on a node that we
// cannot reach. Fenced by its attempt (SPEC.md, "A pod that does not end").
bool is_given_up(const api::TrainingJob& job, const api::PodView& pod, TimePoint now);
// When that will be; nothing if the pod is not terminating, or has ended.
std::optional<TimePoint> give_up_time(const api::TrainingJob& job, const api::PodView& pod);

struct PodBuckets {
  std::vector<Worker> current;   // of the attempt, by slot
  std::vector<Worker> previous;  // of lower attempts, by name
  std::vector<Worker> replaced;  // of the attempt, whose slots have newer pods on record
  std::vector<Worker> leaving;   // of the attempt, in slots that its gang is to go on without
  std::vector<const api::PodView*> foreign;  // our label, but not our child or not our kind of name
  std::int64_t attempt_max = 0;              // the highest attempt of any pod of ours
  // Of a deleted job of the same name.
  std::int64_t leftover_attempt_max = 0;
  int leftover_active = 0;                    // not terminal, not given up
  std::vector<const api::PodView*> given_up;  // current and previous ones that count as gone
  int active = 0;                             // current, not terminal, not given up
  int ready = 0;                              // active and ready
  int succeeded = 0;
  int previous_active = 0;
  int replaced_active = 0;  // with those that are ahead of the record, or leaving
  bool is_ahead = false;    // there is a pod that the record is yet to name

  const api::PodView* at(int slot) const;  // of the current attempt
  bool has_active() const { return active_sum() > 0; }
  int active_sum() const { return active + previous_active + replaced_active; }
};

// `group`: the record of this job, or null.
PodBuckets sort_pods(const api::TrainingJob& job, const api::WorkerGroup* group,
                     const std::vector<const api::PodView*>& pods, TimePoint now);

}  // namespace pawl::core
