// What a job asks the line for: its gang, as its template and the cluster's classes have it.
#include "operator/controller/placer_gang.h"

#include <algorithm>
#include <utility>

#include "common/api/children.h"
#include "common/api/contract.h"
#include "common/api/pod_scheduling.h"
#include "common/base/json.h"
#include "operator/controller/placer.h"
#include "operator/controller/queue_limits.h"
#include "operator/core/conditions.h"
#include "operator/core/failures.h"

namespace pawl::controller {
namespace {

using nlohmann::json;

// How long its pods will be there if they are placed now: the time of a first attempt begins then.
std::optional<std::chrono::seconds> run_max(const api::TrainingJob& job, TimePoint now) {
  const api::TrainingJobStatus& status = job.status;
  const bool is_first = !status.start_time || status.attempt_time <= status.start_time;
  const auto end = end_after(job, is_first ? now : status.start_time);
  if (!end) return std::nullopt;
  return std::chrono::ceil<std::chrono::seconds>(std::max(*end, now) - now);
}

// What the scheduler refuses again and again has a reason that is not seen here; and who did not
// begin on the nodes that it had may not do so on those of others.
bool is_refused(const api::TrainingJob& job, int moves_max) {
  if (core::gave_up_start(job.status) && !core::lacked_nodes(job.status)) return true;
  const auto& moves = job.status.restarts.by_cause;
  const auto found = moves.find(core::cause::kUnschedulable);
  return found != moves.end() && found->second >= moves_max;
}

// Of a gang that has begun; nothing: it only grows.
std::optional<TimePoint> lacking_since(const api::TrainingJob& job) {
  const api::Condition* restarting = core::find_condition(job.status, api::condition::kRestarting);
  const bool is_lacking = restarting != nullptr && restarting->status == "True";
  return is_lacking ? restarting->last_transition_time : std::nullopt;
}

}  // namespace

// A minute to end in is more than nearly all templates allow.
std::optional<TimePoint> end_after(const api::TrainingJob& job, std::optional<TimePoint> start) {
  const auto& limit = job.spec.deadlines.active_seconds;
  if (!limit || !start) return std::nullopt;
  return *start + std::chrono::seconds{*limit} + std::chrono::minutes{1};
}

// As if it had no nodes yet: it may have had some.
Result<json> Placer::pod_of(const api::TrainingJob& job, TimePoint now) const {
  api::ChildOptions children = policy_.children;
  children.now = now;
  api::TrainingJob unplaced = job;
  unplaced.status.placement = {};
  return api::worker_pod_of(unplaced, job.status.attempt, 0, 0, children);
}

const PriorityClass* Placer::class_of(const api::TrainingJob& job, const json& pod) const {
  const std::string own = job.spec.scheduling ? job.spec.scheduling->priority_class_name : "";
  const std::string name = own.empty() ? text_at(member_of(pod, "spec"), "priorityClassName") : own;
  const auto found = name.empty()
                         ? std::ranges::find_if(
                               classes_, [](const auto& entry) { return entry.second.is_default; })
                         : classes_.find(name);
  return found == classes_.end() ? nullptr : &found->second;
}

Result<std::int64_t> Placer::priority_of(const api::TrainingJob& job, const json& pod) const {
  if (const PriorityClass* named = class_of(job, pod)) return named->value;
  const std::string own = job.spec.scheduling ? job.spec.scheduling->priority_class_name : "";
  if (own.empty()) return 0;  // of the template's the API server says what is wrong with it
  return fail(Code::kInvalid, "spec.scheduling.priorityClassName: there is no PriorityClass \"" +
                                  own + "\": create it, or name another one");
}

bool Placer::preempts(const api::TrainingJob& job, const json& pod) const {
  const PriorityClass* named = class_of(job, pod);
  return named == nullptr || named->preempts;
}

Result<int> Placer::depth_of(const std::string& field, const std::string& level) const {
  if (level.empty()) return 0;
  if (const auto depth = levels_.depth_of(level)) return *depth;
  std::string known = api::kHostLevel;
  for (int depth = levels_.host_depth() - 1; depth > 0; --depth)
    known += ", " + levels_.name_at(depth);
  return fail(Code::kInvalid, "spec.scheduling." + field + ": this cluster has no level \"" +
                                  level + "\" (it has " + known +
                                  "): name one of these, or have the level added to "
                                  "placement.levels of the chart");
}

Result<placement::Slices> Placer::slices_of(const api::TrainingJob& job) const {
  const auto& scheduling = job.spec.scheduling;
  if (!scheduling || !scheduling->slices) return placement::Slices{};
  PAWL_TRY(depth, depth_of("slices", scheduling->slices->level));
  return placement::Slices{scheduling->slices->size, depth};
}

// What is wrong with its place in line does not hold up a gang that has begun.
Result<admission::Gang> Placer::gang_of(const JobKey& key, const api::TrainingJob& job,
                                        bool is_underway, TimePoint now) const {
  PAWL_TRY(pod, pod_of(job, now));
  const auto priority = priority_of(job, pod);
  if (!priority && !is_underway) return tl::make_unexpected(priority.error());
  const auto depth = depth_of("topology", api::required_level(job.spec.scheduling));
  if (!depth && !is_underway) return tl::make_unexpected(depth.error());
  const auto slices = slices_of(job);
  if (!slices && !is_underway) return tl::make_unexpected(slices.error());
  admission::Gang gang{
      .id = id_of(key),
      .is_underway = is_underway,
      .priority = priority.value_or(0),
      .preempts = preempts(job, pod),
      .is_refused = is_refused(job, policy_.moves_max),
      .since = job.meta.creation_time.value_or(TimePoint{}),
      .waits_since = is_underway ? lacking_since(job) : job.status.attempt_time.value_or(now),
      .run_max = run_max(job, now),
      .shape = {placement::requests_of(pod), placement::Demands::of(member_of(pod, "spec"))},
      .ask = {.units = job.spec.replicas,
              .required_depth = depth.value_or(0),
              .slices = slices.value_or(placement::Slices{})},
      .queue = queue_name(job)};
  gang.charged = charged_as(gang.shape.requests, flavor_of(flavors_, gang.shape.demands),
                            quotas_.find(gang.queue));
  if (!is_underway) PAWL_TRY_VOID(check_queue(gang));
  for (const api::ExcludedNode& node : job.status.excluded_nodes) {
    const bool is_over = node.until && node.cause != api::kCauseInterrupted && now >= *node.until;
    if (api::is_only_avoided(node) && !is_over) gang.avoided.push_back(node.name);
  }
  return gang;
}

}  // namespace pawl::controller
