// What really happened to each gang, as only the simulator can know it: the oracles compare what
// the operator counts and says with it.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

namespace pawl::sim {

struct AttemptTruth {
  int faults = 0;       // a process of the job failed by itself
  int at_start = 0;     // … of them, before it trained: its gang may have begun without it
  int fatal = 0;        // … with the code that says "never restart"
  int retries = 0;      // … with the code that blames nobody
  int disruptions = 0;  // the cluster or a person took a pod or a node away
  int records = 0;      // somebody deleted the record, or a status
  int noise = 0;        // networks and clocks: may look like anything
  int sizes = 0;        // the user asked for another size; no cause of a loss by itself
  int kills = 0;        // of the faults, by a signal: what a rank's peers make of it is its doing
  bool is_any() const { return faults + fatal + retries + disruptions + records + noise > 0; }
};

struct JobTruth {
  std::map<std::int64_t, AttemptTruth> attempts;
  std::set<std::string> succeeded;  // UIDs of pods whose processes all exited 0
  int edits = 0;                    // of size, or of what its pods are made from, by the user
  // Steps that were made for the first time, and again.
  std::chrono::milliseconds trained{0}, redone{0};
  std::chrono::milliseconds untold{0};  // of redone: of steps that no record had told of
  std::int64_t highest_step = 0, told_step = 0;
  // Pod and generation in which a program failed because a peer of its was lost.
  std::set<std::pair<std::string, std::int64_t>> victims;
  std::set<std::string> slow;  // UIDs of pods that have held up their gang
  std::optional<std::chrono::milliseconds> capacity_edited;  // spec.capacity, last
  bool was_status_cut = false;                               // somebody wrote to its status
  bool is_trail_lost = false;  // no WorkerGroup tells of what --cascade=orphan left
};

struct Truth {
  std::map<std::string, JobTruth> jobs;  // by UID
  // How long operators may have seen nothing new, all together: those that were told to stand
  // still, or whose streams have frozen.
  std::chrono::milliseconds blind{0};
  // … and launchers may have told nothing, those cut off from the API server, alone or with all of
  // their node; or may have told of what nobody counts on any more, those without a kubelet.
  std::chrono::milliseconds unheard{0};
  std::string overstayed;  // a pod whose launcher knows of a newer attempt and goes on all the same
  // The operator may begin an attempt with the size that it saw before.
  bool is_resized(const std::string& job_uid, std::int64_t attempt) {
    return of(job_uid, attempt).sizes + of(job_uid, attempt - 1).sizes > 0;
  }
  AttemptTruth& of(const std::string& job_uid, std::int64_t attempt) {
    return jobs[job_uid].attempts[attempt];
  }
};

}  // namespace pawl::sim
