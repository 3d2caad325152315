// The requests that actions of a plan begin with. Pure; any thread.
#pragma once

#include <memory>
#include <string>

#include "common/api/children.h"
#include "common/api/types.h"
#include "common/kube/requests.h"
#include "operator/core/actions.h"

namespace pawl::controller {

struct ExchangeContext {
  std::string ns, job_name;
  std::shared_ptr<const api::TrainingJob> job;  // null for the plan of orphans
  api::ChildOptions children;
  TimePoint now;
};

const kube::Resource& resource_of(core::ObjectKind kind);

// Invalid: the object cannot be made of what the job says.
Result<kube::HttpRequest> first_request(const core::Action& action, const ExchangeContext& context);

// Those of them that are made again for a newer resourceVersion.
kube::HttpRequest patch_status(const ExchangeContext& context, const core::PatchStatus& action,
                               const std::string& resource_version);
kube::HttpRequest change_budget(const ExchangeContext& context, const core::CreateChild& action,
                                const api::ObjectMeta& found);
kube::HttpRequest change_pod_group(const ExchangeContext& context, const core::CreateChild& action,
                                   const api::ObjectMeta& found);
kube::HttpRequest delete_job(const ExchangeContext& context, const std::string& uid,
                             const std::string& resource_version);

}  // namespace pawl::controller
