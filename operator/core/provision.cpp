// Where an autoscaler adds nodes for whole gangs (ProvisioningRequests, autoscaling.x-k8s.io): a
// gang that waits for room asks it, once it has waited for a while, and again after a back-off.
// What is asked is an object in the cluster: all that is remembered stands in that. SPEC I49.
#include <algorithm>
#include <chrono>
#include <string>

#include "common/api/json_fields.h"
#include "common/api/provisioning.h"
#include "operator/core/conditions.h"
#include "operator/core/node_steps.h"
#include "operator/core/steps.h"
#include "operator/core/stop_steps.h"

namespace pawl::core {

using namespace api;

namespace {

constexpr std::size_t kReasonBytesMax = 300;  // of the autoscaler's sentence

bool is_ours(const Pass& pass, const NodeRequest& request) {
  return request.job_uid == pass.job.meta.uid;
}

// The last one of this attempt, for the job as it is; of whichever class.
const NodeRequest* newest_request(const Pass& pass) {
  const NodeRequest* newest = nullptr;
  for (const NodeRequest* request : pass.seen.node_requests) {
    const bool is_of_now = is_ours(pass, *request) && !request->is_terminating &&
                           request->attempt == pass.job.status.attempt &&
                           request->generation == pass.job.meta.generation;
    if (is_of_now && (newest == nullptr || newest->number < request->number)) newest = request;
  }
  return newest;
}

// The template first, which the request names: that is answered.
std::string make_request(Pass& pass, int number) {
  const std::int64_t attempt = pass.job.status.attempt;
  std::string name = node_request_name(pass.job, attempt, number);
  for (const ObjectKind kind : {ObjectKind::kPodTemplate, ObjectKind::kProvisioningRequest}) {
    pass.acts.emplace_back(
        CreateChild{.kind = kind, .least = pass.seats_least, .attempt = attempt, .name = name});
  }
  return name;
}

std::string request_nodes(Pass& pass, int number) {
  const std::string name = make_request(pass, number);
  pass.emit(false, "NodesRequested",
            "asked the autoscaler for nodes for " + std::to_string(pass.seats_least) +
                " workers (ProvisioningRequest " + name + ")",
            name);
  pass.is_status_due = true;
  return "the autoscaler is asked for nodes (request " + name + ")";
}

// How it stands is written when it changes, and not with the next numbers. True if it does.
bool is_news(Pass& pass, const std::string& text) {
  const bool is_told = pass.job.status.message.find(text) != std::string::npos;
  pass.is_status_due = pass.is_status_due || !is_told;
  return !is_told;
}

std::string say_over(Pass& pass, const NodeRequest& request, TimePoint again_at) {
  const std::string why = clip_front(request.message, kReasonBytesMax);
  const std::string text =
      "the autoscaler cannot add nodes: " + why + "; asked again at " + format_time(again_at);
  pass.wake(again_at);
  if (is_news(pass, text)) pass.emit(true, "NodesRefused", text, request.name);
  return text;
}

// It goes on trying by itself.
std::string say_under_way(Pass& pass, const NodeRequest& request) {
  std::string text = "the autoscaler ";
  if (request.stage == ProvisioningStage::kProvisioned) {
    text += "has nodes for it (request " + request.name + ")";
  } else if (!request.message.empty()) {
    text += "has found none so far (request " + request.name +
            "): " + clip_front(request.message, kReasonBytesMax);
  } else {
    const bool is_accepted = request.stage == ProvisioningStage::kAccepted;
    text += std::string(is_accepted ? "adds nodes for it" : "is asked for nodes") + " (request " +
            request.name + ")";
  }
  is_news(pass, text);
  return text;
}

// What the API server refuses is asked for again and again, and said once: the status tells of no
// request that is not there.
std::string ask_anew(Pass& pass, int before) {
  if (!pass.seen.refusal || !is_of_node_request(*pass.seen.refusal))
    return request_nodes(pass, before + 1);
  const Refusal& refusal = *pass.seen.refusal;
  if (pass.now_exact < refusal.retry_at) {
    pass.wake(refusal.retry_at);
  } else {
    make_request(pass, before + 1);
  }
  const std::string text = refusal.action +
                           " was refused, so that the autoscaler is not asked for nodes: " +
                           clip_front(refusal.message, kReasonBytesMax);
  is_news(pass, text);
  return text;
}

std::string ask_first(Pass& pass, TimePoint since) {
  const TimePoint due = since + pass.policy.provisioning_after;
  if (pass.now_exact >= due) return ask_anew(pass, 0);
  pass.wake(due);
  return "";
}

// Another autoscaler may be asked by now; what was made just now is not seen yet.
bool is_of_class(const Pass& pass, const NodeRequest& request) {
  const std::string& wanted = pass.policy.children.provisioning_class;
  return request.class_name.empty() || request.class_name == wanted;
}

// Half a sentence; "": nothing is asked for.
std::string sentence_of(Pass& pass, const Seating& seating) {
  const Policy& policy = pass.policy;
  const auto& since = seating.lacks_nodes_since;
  if (policy.asks_by_pods) {
    wake_to_ask(pass, seating);
    return "";
  }
  if (since && policy.provisioning == OptionalApi::kMissing)
    return "the cluster serves no ProvisioningRequests (autoscaling.x-k8s.io/v1), so that no "
           "autoscaler is asked for nodes";
  if (policy.provisioning != OptionalApi::kServed) return "";
  const NodeRequest* newest = newest_request(pass);
  if (newest == nullptr) return since ? ask_first(pass, *since) : "";
  if (!is_of_class(pass, *newest)) return since ? ask_anew(pass, newest->number) : "";
  if (newest->stage != ProvisioningStage::kOver) return say_under_way(pass, *newest);
  const TimePoint again_at =
      newest->since.value_or(pass.now) +
      doubled(policy.provisioning_first, policy.provisioning_max, newest->number);
  if (pass.now_exact < again_at) return say_over(pass, *newest, again_at);
  return since ? ask_anew(pass, newest->number) : "";
}

// It has its nodes, or wants none.
bool needs_no_nodes(const Pass& pass) {
  const TrainingJobStatus& next = pass.next;
  const Condition* suspended = find_condition(next, condition::kSuspended);
  const bool stops =
      suspended != nullptr && (suspended->status == "True" || suspended->reason == kSuspending);
  return stops || pass.job.spec.is_suspended || is_true(next, condition::kRunning) ||
         is_true(next, condition::kComplete) || is_true(next, condition::kFailed) ||
         is_true(next, condition::kFailureTarget) ||
         is_true(next, condition::kSuccessCriteriaMet) || is_left_to_scheduler(pass);
}

}  // namespace

bool is_of_node_request(const Refusal& refusal) {
  return refusal.action == describe(CreateChild{ObjectKind::kPodTemplate}) ||
         refusal.action == describe(CreateChild{ObjectKind::kProvisioningRequest});
}

std::chrono::seconds asks_by_pods_after(const TrainingJobStatus& status, const Policy& policy) {
  if (!lacked_nodes(status)) return policy.provisioning_after;
  const auto times = status.restarts.by_cause.find(cause::kNodesTimeout);
  const bool is_known = times != status.restarts.by_cause.end();
  return doubled(policy.provisioning_first, policy.provisioning_max,
                 is_known ? static_cast<std::ptrdiff_t>(times->second) : 1);
}

// Whoever decides on nodes lets it go by then.
void wake_to_ask(Pass& pass, const Seating& seating) {
  const auto& since = seating.lacks_nodes_since;
  if (!since || !pass.policy.asks_by_pods) return;
  const TimePoint due = *since + asks_by_pods_after(pass.job.status, pass.policy);
  if (pass.now_exact < due) pass.wake(due);
}

std::string ask_for_nodes(Pass& pass, const Seating& seating) {
  const std::string sentence = sentence_of(pass, seating);
  return sentence.empty() ? "" : "; " + sentence;
}

// Of what is over, has another one after it, or is asked for no more.
void drop_node_requests(Pass& pass) {
  if (pass.is_new_attempt || pass.seen.node_requests.empty()) return;
  const NodeRequest* newest = newest_request(pass);
  const bool is_wanted = !needs_no_nodes(pass);
  for (const NodeRequest* request : pass.seen.node_requests) {
    if (!is_ours(pass, *request) || request->is_terminating) continue;
    if (is_wanted && request == newest) continue;
    // Of a later attempt, or spec, than this view knows of: not judged by it.
    if (request->attempt > pass.job.status.attempt ||
        request->generation > pass.job.meta.generation)
      continue;
    for (const ObjectKind kind : {ObjectKind::kPodTemplate, ObjectKind::kProvisioningRequest})
      pass.acts.push_back(DeleteChild{kind, request->name});
  }
}

std::string consumed_request(const Pass& pass) {
  const NodeRequest* newest = newest_request(pass);
  const bool is_kept =
      newest != nullptr && is_of_class(pass, *newest) && newest->stage != ProvisioningStage::kOver;
  return is_kept ? newest->name : "";
}

}  // namespace pawl::core
