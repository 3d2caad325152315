#include "operator/controller/node_request_book.h"

#include <utility>

namespace pawl::controller {

std::vector<JobKey> NodeRequestBook::receive(Mail& mail) {
  is_listed_ = is_listed_ || mail.are_node_requests_listed;
  std::vector<JobKey> keys;
  for (auto& [id, seen] : mail.node_requests) {
    const auto slash = id.find('/');
    const std::string name = id.substr(slash + 1);
    if (seen) {
      const JobKey key{id.substr(0, slash), seen->job};
      Known& known = jobs_[key][name];
      known.seen = std::move(seen->request);
      known.made.reset();
      owners_[id] = key;
      keys.push_back(key);
    } else if (const auto owner = owners_.find(id); owner != owners_.end()) {
      const JobKey key = owner->second;
      owners_.erase(owner);
      Requests& requests = jobs_[key];
      requests.erase(name);
      if (requests.empty()) jobs_.erase(key);
      keys.push_back(key);
    }
  }
  return keys;
}

void NodeRequestBook::note(const JobKey& key, const core::Plan& plan, const std::string& job_uid,
                           TimePoint now) {
  for (const core::Action& action : plan.actions) {
    const auto* made = std::get_if<core::CreateChild>(&action);
    const auto* dropped = std::get_if<core::DeleteChild>(&action);
    if (made != nullptr && made->kind == core::ObjectKind::kProvisioningRequest) {
      auto request = api::named_node_request(made->name);
      if (!request) continue;
      request->job_uid = job_uid;
      request->since = now;
      Known& known = jobs_[key][made->name];
      known.made = std::move(*request);
      known.made_until = now + kUnseenMax;
      known.is_deleted = false;
    } else if (dropped != nullptr && dropped->kind == core::ObjectKind::kProvisioningRequest) {
      const auto job = jobs_.find(key);
      if (job == jobs_.end()) continue;
      const auto known = job->second.find(dropped->name);
      if (known == job->second.end()) continue;
      known->second.is_deleted = true;
      known->second.made.reset();
    }
  }
}

std::vector<const api::NodeRequest*> NodeRequestBook::of(const JobKey& key, TimePoint now) const {
  std::vector<const api::NodeRequest*> requests;
  const auto job = jobs_.find(key);
  if (job == jobs_.end()) return requests;
  for (const auto& [name, known] : job->second) {
    if (known.is_deleted) continue;
    if (known.seen) {
      requests.push_back(&*known.seen);
    } else if (known.made && now < known.made_until) {
      requests.push_back(&*known.made);
    }
  }
  return requests;
}

}  // namespace pawl::controller
