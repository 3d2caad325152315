// How an autoscaler is asked for the nodes of a whole gang: a ProvisioningRequest
// (autoscaling.x-k8s.io), and the PodTemplate that it refers to. Pure; values.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "common/api/children.h"
#include "common/api/types.h"

namespace pawl::api {

// kOver: refused, or what it had is no longer kept for it.
enum class ProvisioningStage { kAsked, kAccepted, kProvisioned, kOver };

inline constexpr std::int64_t kNodeRequestsMax = 1'000'000;  // of one attempt

// What is seen of one.
struct NodeRequest {
  std::string name, job_uid;  // of its owner
  std::string class_name;     // provisioningClassName; "" where the object was not read
  std::int64_t attempt = 0, generation = 0;
  int number = 0;  // of those of this attempt and generation, from 1
  ProvisioningStage stage = ProvisioningStage::kAsked;
  std::string message;             // why it is over; as long as it is not, why there is nothing yet
  std::optional<TimePoint> since;  // when it was; made, as long as it is not
  bool is_terminating = false;
  bool operator==(const NodeRequest&) const = default;
};

// Of both objects. Deterministic, and never used for anything else: another spec of the job has
// another generation.
std::string node_request_name(const TrainingJob& job, std::int64_t attempt, int number);
// The pod that a worker would be, with no node yet.
Result<nlohmann::json> pod_template_of(const TrainingJob& job, const std::string& name,
                                       std::int64_t attempt, const ChildOptions& options);
nlohmann::json provisioning_request_of(const TrainingJob& job, const std::string& name, int pods,
                                       const ChildOptions& options);
// What its name says; Invalid: it is none of ours.
Result<NodeRequest> named_node_request(const std::string& name);
Result<NodeRequest> decode_node_request(const nlohmann::json& object);

}  // namespace pawl::api
