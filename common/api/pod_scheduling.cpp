#include "common/api/pod_scheduling.h"

#include "common/api/contract.h"
#include "common/base/json.h"

namespace pawl::api {
namespace {

using nlohmann::json;

json& object_at(json& parent, const char* key) {
  json& value = parent[key];
  if (!value.is_object()) value = json::object();
  return value;
}

bool is_empty_list(const json& term, const char* key) {
  return !term.contains(key) || !term[key].is_array() || term[key].empty();
}

// The API takes one value in each of them.
json not_in(const std::string& node) {
  return {{"key", "metadata.name"}, {"operator", "NotIn"}, {"values", json::array({node})}};
}

json& node_affinity_of(json& pod_spec) {
  return object_at(object_at(pod_spec, "affinity"), "nodeAffinity");
}

void prefer_others(const json& avoided, int weight, json& pod_spec) {
  json& preferred = node_affinity_of(pod_spec)["preferredDuringSchedulingIgnoredDuringExecution"];
  if (!preferred.is_array()) preferred = json::array();
  preferred.push_back({{"weight", weight}, {"preference", {{"matchFields", avoided}}}});
}

void require_others(const json& avoided, json& pod_spec) {
  json& required =
      object_at(node_affinity_of(pod_spec), "requiredDuringSchedulingIgnoredDuringExecution");
  json& terms = required["nodeSelectorTerms"];
  if (!terms.is_array() || terms.empty()) {
    terms = json::array({{{"matchFields", avoided}}});
    return;
  }
  for (json& term : terms) {
    // An empty term matches no node; with ours in it, it would match nearly all.
    if (is_empty_list(term, "matchExpressions") && is_empty_list(term, "matchFields")) continue;
    json& fields = term["matchFields"];
    if (!fields.is_array()) fields = json::array();
    fields.insert(fields.end(), avoided.begin(), avoided.end());
  }
}

}  // namespace

bool is_only_avoided(const ExcludedNode& node) {
  return node.cause == kCauseInterrupted || node.cause == kCauseStraggler || node.until;
}

void avoid_excluded_nodes(const TrainingJob& job, std::optional<TimePoint> now, json& pod_spec) {
  json excluded = json::array(), avoided = json::array();
  for (const ExcludedNode& node : job.status.excluded_nodes) {
    const bool is_over = node.cause == kCauseGpuFault && node.until && now && *now >= *node.until;
    if (is_over) continue;
    (is_only_avoided(node) ? avoided : excluded).push_back(not_in(node.name));
  }
  if (!excluded.empty()) require_others(excluded, pod_spec);
  constexpr int kWeightMax = 100;
  if (!avoided.empty()) prefer_others(avoided, kWeightMax, pod_spec);
  // Where there is no other, the one that was well for longest: what failed before it may be
  // mended.
  if (avoided.size() > 1) prefer_others(json::array({avoided.back()}), kWeightMax / 2, pod_spec);
}

void mark_for_kueue(const TrainingJob& job, std::int64_t attempt, json& metadata) {
  const std::string prefix = kKueuePrefix;
  json& labels = object_at(metadata, "labels");
  for (const auto& [key, value] : job.meta.labels) {
    if (key.starts_with(prefix) && !labels.contains(key)) labels[key] = value;
  }
  if (!labels.contains(prefix + "queue-name")) return;
  // A group is admitted whole or not at all. Each attempt is a group of its own, so that the quota
  // is free while a job is suspended or waits after a failure, and another size is no conflict. The
  // UID keeps the pods out of the group of a deleted job of this name: Kueue does not admit an
  // ended one.
  labels[prefix + "pod-group-name"] =
      job.meta.name + "-" + job.meta.uid.substr(0, 7) + "-" + std::to_string(attempt);
  json& annotations = object_at(metadata, "annotations");
  annotations[prefix + "pod-group-total-count"] = std::to_string(job.spec.replicas);
  // The group ends with its last pod: nobody will replace one. Otherwise it would stay in the
  // queue, be admitted again without pods, and hold its ended pods by their finalizer.
  annotations[prefix + "retriable-in-group"] = "false";
}

}  // namespace pawl::api
