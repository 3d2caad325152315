// What the controller has seen, by job: the TrainingJob, the WorkerGroup of its name and the pods
// with its names. Typed and compact; snapshots are immutable and shared with the plan that works on
// them. Owner thread only.
#pragma once

#include <array>
#include <compare>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "operator/controller/inbox.h"

namespace pawl::controller {

struct JobKey {
  std::string ns, name;
  auto operator<=>(const JobKey&) const = default;
};
inline std::string id_of(const JobKey& key) { return key.ns + "/" + key.name; }

struct JobEntry {
  std::shared_ptr<const api::TrainingJob> job;
  std::shared_ptr<const api::WorkerGroup> group;
  std::map<std::string, std::shared_ptr<const api::PodView>> pods;
  bool is_empty() const { return !job && !group && pods.empty(); }
};

class Cache {
 public:
  // The job whose plan this change may alter; nothing for an object that is none of ours.
  std::optional<JobKey> apply(const Change& change);
  // The jobs that have pods on this node, or avoid it.
  std::vector<JobKey> apply_signal(const std::string& node, std::optional<core::NodeSignal> signal);
  // The first time: the jobs that what nodes say concerns.
  std::vector<JobKey> note_nodes_listed();
  const core::NodeSignals* signals() const { return are_nodes_listed_ ? &signals_ : nullptr; }
  const JobEntry* find(const JobKey& key) const;
  const std::map<std::string, int>& jobs_by_phase() const { return jobs_by_phase_; }
  std::size_t size() const { return entries_.size(); }
  std::vector<JobKey> keys() const;

 private:
  void count(const api::TrainingJob* job, int by);
  std::map<JobKey, JobEntry> entries_;
  std::map<std::string, int> jobs_by_phase_;
  core::NodeSignals signals_;
  bool are_nodes_listed_ = false;
};

// Holds a job back until its own last writes are in the cache, so that no decision is made twice.
// No time-outs: a view that goes on comes past every resourceVersion, and a deleted object leaves
// the cache or starts to terminate.
class WriteGate {
 public:
  void wrote(const JobKey& key, Kind kind, const std::string& resource_version);
  void deleted(const JobKey& key, const std::string& uid);
  // Forgets what has been seen; true if nothing is left to wait for.
  bool is_open(const JobKey& key, const Cache& cache, const std::array<std::string, kKinds>& view);

 private:
  struct Hold {
    std::array<std::string, kKinds> resource_versions;
    std::vector<std::string> deleted_uids;
  };
  std::map<JobKey, Hold> holds_;
};

}  // namespace pawl::controller
