#include "common/api/provisioning.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "common/api/codec.h"
#include "common/api/contract.h"
#include "common/base/json.h"

namespace pawl::api {
namespace {

using nlohmann::json;

constexpr std::size_t kUidChars = 7;

// The last number of a name, which is cut off with its hyphen.
std::optional<std::int64_t> take_number(std::string& name) {
  const auto hyphen = name.rfind('-');
  if (hyphen == std::string::npos) return std::nullopt;
  std::int64_t number = 0;
  const char* const end = name.data() + name.size();
  const auto [at, error] = std::from_chars(name.data() + hyphen + 1, end, number);
  if (error != std::errc{} || at != end || number < 0) return std::nullopt;
  name.resize(hyphen);
  return number;
}

// Null where it is neither.
const json* condition_of(const json& conditions, const char* type, const char* status) {
  const auto found = std::ranges::find_if(conditions, [&](const json& one) {
    return text_at(one, "type") == type && text_at(one, "status") == status;
  });
  return found == conditions.end() ? nullptr : &*found;
}

// The autoscaler leaves conditions of before as they were: the last word counts.
void read_stage(const json& conditions, NodeRequest& request) {
  struct Word {
    const char *type, *meaning;
  };
  constexpr Word kEnds[] = {{"Failed", ""},
                            {"CapacityRevoked", "the nodes are taken away again"},
                            {"BookingExpired", "the nodes came, and are kept for it no longer"}};
  for (const Word& word : kEnds) {
    const json* found = condition_of(conditions, word.type, "True");
    if (found == nullptr) continue;
    request.stage = ProvisioningStage::kOver;
    const std::string said = text_at(*found, "message");
    const bool has_both = *word.meaning != '\0' && !said.empty();
    request.message = word.meaning + std::string(has_both ? ": " : "") + said;
    if (request.message.empty()) request.message = text_at(*found, "reason");
    if (const auto time = parse_time(text_at(*found, "lastTransitionTime"))) request.since = *time;
    return;
  }
  if (condition_of(conditions, "Provisioned", "True") != nullptr) {
    request.stage = ProvisioningStage::kProvisioned;
    return;
  }
  if (condition_of(conditions, "Accepted", "True") != nullptr)
    request.stage = ProvisioningStage::kAccepted;
  if (const json* no = condition_of(conditions, "Provisioned", "False"))
    request.message = text_at(*no, "message");
}

}  // namespace

std::string node_request_name(const TrainingJob& job, std::int64_t attempt, int number) {
  return job.meta.name + "-" + job.meta.uid.substr(0, kUidChars) + "-" + std::to_string(attempt) +
         "-" + std::to_string(job.meta.generation) + "-" + std::to_string(number);
}

Result<json> pod_template_of(const TrainingJob& job, const std::string& name, std::int64_t attempt,
                             const ChildOptions& options) {
  TrainingJob unplaced = job;
  unplaced.status.placement = {};
  PAWL_TRY(pod, worker_pod_of(unplaced, attempt, 0, 0, options));
  json metadata = object_at(pod, "metadata");
  for (const char* own : {"name", "namespace", "ownerReferences"}) metadata.erase(own);
  return json{{"apiVersion", "v1"},
              {"kind", "PodTemplate"},
              {"metadata", metadata_of(job, name)},
              {"template", {{"metadata", std::move(metadata)}, {"spec", std::move(pod["spec"])}}}};
}

json provisioning_request_of(const TrainingJob& job, const std::string& name, int pods,
                             const ChildOptions& options) {
  return {{"apiVersion", "autoscaling.x-k8s.io/v1"},
          {"kind", "ProvisioningRequest"},
          {"metadata", metadata_of(job, name)},
          {"spec",
           {{"provisioningClassName", options.provisioning_class},
            {"podSets", json::array({{{"count", pods}, {"podTemplateRef", {{"name", name}}}}})}}}};
}

Result<NodeRequest> named_node_request(const std::string& name) {
  NodeRequest request{.name = name};
  std::string rest = name;
  const auto number = take_number(rest);
  const auto generation = take_number(rest);
  const auto attempt = take_number(rest);
  if (!number || !generation || !attempt || *number > kNodeRequestsMax)
    return fail(Code::kInvalid, "ProvisioningRequest " + name + " has no name of ours");
  request.attempt = *attempt;
  request.generation = *generation;
  request.number = static_cast<int>(*number);
  return request;
}

Result<NodeRequest> decode_node_request(const json& object) {
  PAWL_TRY(meta, decode_meta(object));
  PAWL_TRY(request, named_node_request(meta.name));
  request.since = meta.creation_time;
  request.is_terminating = meta.deletion_time.has_value();
  request.class_name = text_at(member_of(object, "spec"), "provisioningClassName");
  for (const OwnerReference& owner : meta.owners) {
    if (owner.kind == "TrainingJob") request.job_uid = owner.uid;
  }
  read_stage(member_of(member_of(object, "status"), "conditions"), request);
  return request;
}

}  // namespace pawl::api
