// How a ControllerLoop begins to lead, and what it leaves to the next leader.
#include "common/kube/requests.h"
#include "operator/controller/loop.h"

namespace pawl::controller {
namespace {

void raise(std::string& newest, const std::string& resource_version) {
  const bool is_newer = newest.empty() || kube::is_at_least(resource_version, newest);
  if (!resource_version.empty() && is_newer) newest = resource_version;
}

}  // namespace

void ControllerLoop::lead(const Views& at_least) {
  at_least_ = at_least;
  is_leading_ = true;
  are_seats_held_ = false;  // another may have given some away
  for (const JobKey& key : cache_.keys()) {
    mark(key);
    unseen_.insert(key);
  }
}

bool ControllerLoop::is_caught_up() const {
  for (std::size_t kind = 0; kind < kKinds; ++kind) {
    if (!at_least_[kind].empty() && !kube::is_at_least(view_[kind], at_least_[kind])) return false;
  }
  return true;
}

std::size_t ControllerLoop::requests_in_flight() const {
  std::size_t count = 0;
  for (const auto& [id, flight] : flights_) count += flight.sent.size();
  return count;
}

// Only versions that some object has or had: each of them comes by in every view. How far a view
// has come may be a bookmark, which another's view sees a minute later.
Views ControllerLoop::newest() const {
  Views newest = at_least_;
  const auto see = [&](Kind kind, const std::string& resource_version) {
    raise(newest[static_cast<std::size_t>(kind)], resource_version);
  };
  for (const JobKey& key : cache_.keys()) {
    const JobEntry& entry = *cache_.find(key);
    if (entry.job) see(Kind::kJob, entry.job->meta.resource_version);
    if (entry.group) see(Kind::kGroup, entry.group->meta.resource_version);
    for (const auto& [name, pod] : entry.pods) see(Kind::kPod, pod->meta.resource_version);
  }
  for (std::size_t kind = 0; kind < kKinds; ++kind) {
    raise(newest[kind], written_[kind]);
  }
  for (const auto& [id, flight] : flights_) {
    for (const Written& written : flight.run->written()) {
      see(written.kind, written.resource_version);
    }
  }
  return newest;
}

void ControllerLoop::follow(const ControllerLoop& other) {
  next_run_ = other.next_run_;
  metrics_ = other.metrics_;
}

}  // namespace pawl::controller
