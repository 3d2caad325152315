#include "operator/controller/cache.h"

#include <algorithm>
#include <utility>

#include "common/base/mutant.h"
#include "common/kube/requests.h"
#include "operator/core/pods.h"

namespace pawl::controller {
namespace {

// A deletion with a UID is of that object only: a successor of the same name stays.
template <typename T>
bool is_about(const Change& change, const std::shared_ptr<const T>& stored) {
  return stored && (change.uid.empty() || change.uid == stored->meta.uid);
}

template <typename T>
void replace(const Change& change, std::shared_ptr<const T>& stored) {
  if (const auto* object = std::get_if<std::shared_ptr<const T>>(&change.object)) {
    stored = *object;
  } else if (is_about(change, stored)) {
    stored.reset();
  }
}

bool is_present(const JobEntry& entry, const std::string& uid) {
  const auto lives = [&](const api::ObjectMeta& meta) {
    return meta.uid == uid && !meta.deletion_time;
  };
  if (entry.job && lives(entry.job->meta)) return true;
  if (entry.group && lives(entry.group->meta)) return true;
  return std::ranges::any_of(entry.pods,
                             [&](const auto& item) { return lives(item.second->meta); });
}

bool avoids(const JobEntry& entry, const std::string& node) {
  if (!entry.job) return false;
  const auto& nodes = entry.job->status.excluded_nodes;
  return std::ranges::find(nodes, node, &api::ExcludedNode::name) != nodes.end();
}

// Only for the mutant that waits to see a deleted pod terminate.
bool is_known(const JobEntry& entry, const std::string& uid) {
  return std::ranges::any_of(entry.pods,
                             [&](const auto& item) { return item.second->meta.uid == uid; });
}

}  // namespace

void Cache::count(const api::TrainingJob* job, int by) {
  if (job == nullptr) return;
  const std::string phase = job->status.phase.empty() ? "New" : job->status.phase;
  jobs_by_phase_[phase] += by;
}

std::optional<JobKey> Cache::apply(const Change& change) {
  JobKey key{change.ns, change.name};
  if (change.kind == Kind::kPod) {
    const auto job_name = core::job_of_pod_name(change.name);
    if (!job_name) return std::nullopt;
    key.name = *job_name;
  }
  JobEntry& entry = entries_[key];
  if (change.kind == Kind::kJob) {
    count(entry.job.get(), -1);
    replace(change, entry.job);
    count(entry.job.get(), 1);
  } else if (change.kind == Kind::kGroup) {
    replace(change, entry.group);
  } else {
    auto& pod = entry.pods[change.name];
    replace(change, pod);
    if (!pod) entry.pods.erase(change.name);
  }
  if (entry.is_empty()) entries_.erase(key);
  return key;
}

std::vector<JobKey> Cache::apply_signal(const std::string& node,
                                        std::optional<core::NodeSignal> signal) {
  if (signal) {
    signals_.insert_or_assign(node, std::move(*signal));
  } else {
    signals_.erase(node);
  }
  std::vector<JobKey> keys;
  for (const auto& [key, entry] : entries_) {
    const auto is_there = [&](const auto& item) { return item.second->node == node; };
    if (std::ranges::any_of(entry.pods, is_there) || avoids(entry, node)) keys.push_back(key);
  }
  return keys;
}

std::vector<JobKey> Cache::note_nodes_listed() {
  if (std::exchange(are_nodes_listed_, true)) return {};
  std::vector<JobKey> keys;
  for (const auto& [key, entry] : entries_) {
    const auto is_going = [&](const auto& item) { return signals_.contains(item.second->node); };
    const bool avoids_any = entry.job && !entry.job->status.excluded_nodes.empty();
    if (avoids_any || std::ranges::any_of(entry.pods, is_going)) keys.push_back(key);
  }
  return keys;
}

const JobEntry* Cache::find(const JobKey& key) const {
  const auto found = entries_.find(key);
  return found == entries_.end() ? nullptr : &found->second;
}

std::vector<JobKey> Cache::keys() const {
  std::vector<JobKey> keys;
  keys.reserve(entries_.size());
  for (const auto& [key, entry] : entries_) keys.push_back(key);
  return keys;
}

void WriteGate::wrote(const JobKey& key, Kind kind, const std::string& resource_version) {
  if (resource_version.empty()) return;
  std::string& held = holds_[key].resource_versions[static_cast<std::size_t>(kind)];
  if (held.empty() || kube::is_at_least(resource_version, held)) held = resource_version;
}

void WriteGate::deleted(const JobKey& key, const std::string& uid) {
  holds_[key].deleted_uids.push_back(uid);
}

bool WriteGate::is_open(const JobKey& key, const Cache& cache,
                        const std::array<std::string, kKinds>& view) {
  const auto found = holds_.find(key);
  if (found == holds_.end() || is_mutant(Mutant::kB03NoGate)) return true;
  Hold& hold = found->second;
  for (std::size_t kind = 0; kind < kKinds; ++kind) {
    const std::string& wanted = hold.resource_versions[kind];
    if (!wanted.empty() && !kube::is_at_least(view[kind], wanted)) return false;
  }
  const JobEntry* entry = cache.find(key);
  if (entry != nullptr) {
    const bool is_patient = is_mutant(Mutant::kB05GateStaysShut);
    std::erase_if(hold.deleted_uids, [&](const std::string& uid) {
      return !is_present(*entry, uid) && (!is_patient || is_known(*entry, uid));
    });
    if (!hold.deleted_uids.empty()) return false;
  }
  holds_.erase(found);
  return true;
}

}  // namespace pawl::controller
