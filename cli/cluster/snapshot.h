// Everything that the API server says about one job at one moment: what `pawl status`, `pawl why`
// and `pawl logs` look at. decode_* are pure; take_snapshot() reads, blocking. A part that may not
// be read is named in `unread`.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cli/cluster/connection.h"
#include "common/api/types.h"
#include "common/base/json.h"

namespace pawl::cli {

struct SeenWorker {
  api::PodView pod;
  std::int64_t attempt = 0;  // by the pod's name; 0 if it is no name of ours
  int slot = 0;
  std::vector<std::string> gates;  // spec.schedulingGates that are still there
};

struct SeenEvent {
  bool is_warning = false;
  std::string reason, message, kind, name;  // kind and name of the object that it is about
  TimePoint time{};
};

struct SeenNode {
  bool exists = true, is_ready = true;
};

struct JobSnapshot {
  api::TrainingJob job;
  std::optional<api::WorkerGroup> group;  // this job's own; a foreign one of its name is left out
  std::vector<SeenWorker> workers;        // pods with this job's UID label, by attempt and slot
  std::vector<SeenEvent> events;          // of the job and its pods, oldest first
  std::map<std::string, SeenNode> nodes;  // of pods that are terminating
  std::vector<std::string> unread;
  TimePoint now{};
};

Result<SeenWorker> decode_worker(const std::string& job_name, const nlohmann::json& pod);
SeenEvent decode_event(const nlohmann::json& event);

// The JSON as it came, for `-o json`.
struct RawSnapshot {
  nlohmann::json job, group;
  std::vector<nlohmann::json> pods, events;
};

struct SnapshotParts {
  bool events = false, nodes = false;
};
// NotFound, with a hint where the job may be, if there is none of this name.
Result<JobSnapshot> take_snapshot(Connection& connection, const std::string& job_name,
                                  SnapshotParts parts, TimePoint now, RawSnapshot* raw = nullptr);
// "job", "tj/job" and "trainingjob/job" name the same job.
std::string job_name_of(const std::string& word);

// What commands and pages call the member: "3", "0-7" for several processes; "-" if it has no rank.
std::string ranks_text(const JobSnapshot& snapshot, const api::PodView& pod);
// The member of the committed generation that runs in this pod.
const api::Member* member_of(const JobSnapshot& snapshot, const std::string& pod_uid);

}  // namespace pawl::cli
