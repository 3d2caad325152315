// The ProvisioningRequests of each job, as they are seen, and what this process has itself made or
// deleted since, which is not seen yet: so that nothing is asked for twice while a view is behind.
// Owner thread of the controller only.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/api/provisioning.h"
#include "operator/controller/cache.h"
#include "operator/controller/inbox.h"
#include "operator/core/actions.h"

namespace pawl::controller {

class NodeRequestBook {
 public:
  // The jobs that it is news for.
  std::vector<JobKey> receive(Mail& mail);
  bool is_listed() const { return is_listed_; }
  // All of this plan's actions have been carried out.
  void note(const JobKey& key, const core::Plan& plan, const std::string& job_uid, TimePoint now);
  // Good until something changes.
  std::vector<const api::NodeRequest*> of(const JobKey& key, TimePoint now) const;

 private:
  // What was made, and is not seen by then, is gone already.
  static constexpr std::chrono::seconds kUnseenMax{60};
  struct Known {
    std::optional<api::NodeRequest> seen, made;
    TimePoint made_until{};
    bool is_deleted = false;  // by us, and not seen to be gone
  };
  using Requests = std::map<std::string, Known>;  // by name
  std::map<JobKey, Requests> jobs_;
  std::map<std::string, JobKey> owners_;  // by "namespace/name" of the request
  bool is_listed_ = false;
};

}  // namespace pawl::controller
