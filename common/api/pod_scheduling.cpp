#include "common/api/pod_scheduling.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "common/api/contract.h"
#include "common/base/json.h"
#include "common/base/mutant.h"

namespace pawl::api {
namespace {

using nlohmann::json;

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

constexpr char kFields[] = "matchFields", kExpressions[] = "matchExpressions";

// `wanted`: members of a node selector term, by its list `list`.
void prefer(const json& wanted, const char* list, int weight, json& pod_spec) {
  list_at(node_affinity_of(pod_spec), "preferredDuringSchedulingIgnoredDuringExecution")
      .push_back({{"weight", weight}, {"preference", {{list, wanted}}}});
}

void require(const json& wanted, const char* list, json& pod_spec) {
  json& required =
      object_at(node_affinity_of(pod_spec), "requiredDuringSchedulingIgnoredDuringExecution");
  json& terms = required["nodeSelectorTerms"];
  if (!terms.is_array() || terms.empty()) {
    terms = json::array({{{list, wanted}}});
    return;
  }
  for (json& term : terms) {
    // An empty term matches no node; with ours in it, it would match nearly all.
    if (is_empty_list(term, kExpressions) && is_empty_list(term, kFields)) continue;
    json& own = list_at(term, list);
    own.insert(own.end(), wanted.begin(), wanted.end());
  }
}

// Where there is no other node, those that were well for longest: what failed before the others may
// be mended. `avoided`: in the order in which they failed. The last one is named by each
// preference, the last two by all but one, then the last four, so that any two that are far apart
// in time differ, in few terms; and all but the first, which may be the only one that is well.
void avoid_the_latest(const json& avoided, int weight, json& pod_spec) {
  const auto most = static_cast<std::ptrdiff_t>(avoided.size()) - 1;
  std::vector<std::ptrdiff_t> counts;
  for (std::ptrdiff_t count = 1; count < most; count *= 2) counts.push_back(count);
  if (most > 0) counts.push_back(most);
  for (const std::ptrdiff_t count : counts) {
    const int share = weight / static_cast<int>(counts.size());
    prefer(json(avoided.end() - count, avoided.end()), kFields, share, pod_spec);
  }
}

json no_spot(const SpotTable& table) {
  json expressions = json::array();
  for (const SpotRow& row : table) {
    expressions.push_back(
        {{"key", row.label}, {"operator", "NotIn"}, {"values", json::array({row.value})}});
  }
  return expressions;
}

void tolerate_spot(const SpotTable& table, json& pod_spec) {
  json& tolerations = list_at(pod_spec, "tolerations");
  for (const SpotRow& row : table) {
    const json toleration = {{"key", row.taint}, {"operator", "Exists"}};
    const bool is_there = std::ranges::find(tolerations, toleration) != tolerations.end();
    if (!row.taint.empty() && !is_there) tolerations.push_back(toleration);
  }
  if (tolerations.empty()) pod_spec.erase("tolerations");
}

bool is_spot_avoided(const TrainingJob& job, std::optional<TimePoint> now) {
  const CapacityStatus& status = job.status.capacity;
  if (is_mutant(Mutant::kI41FallbackUnused)) return false;
  const bool is_over = status.until && now && *now >= *status.until;
  return status.is_spot_avoided && !is_over;
}

}  // namespace

bool is_only_avoided(const ExcludedNode& node) {
  return node.cause == kCauseInterrupted || node.cause == kCauseStraggler || node.until;
}

void avoid_excluded_nodes(const TrainingJob& job, std::optional<TimePoint> now, json& pod_spec) {
  json excluded = json::array(), avoided = json::array();
  for (const ExcludedNode& node : job.status.excluded_nodes) {
    // The operator itself removes one whose machine does not go after all.
    const bool is_in_quarantine = node.until && node.cause != kCauseInterrupted;
    const bool is_over = is_in_quarantine && now && *now >= *node.until;
    if (is_over) continue;
    (is_only_avoided(node) ? avoided : excluded).push_back(not_in(node.name));
  }
  if (!excluded.empty()) require(excluded, kFields, pod_spec);
  constexpr int kWeightMax = 100;
  if (avoided.empty()) return;
  prefer(avoided, kFields, kWeightMax, pod_spec);
  avoid_the_latest(avoided, kWeightMax / 2, pod_spec);
}

bool may_be_on_spot(const TrainingJob& job, int slot) {
  const auto& capacity = job.spec.capacity;
  return capacity && capacity->spot != SpotUse::kNever && slot >= capacity->on_demand_min;
}

void place_by_capacity(const TrainingJob& job, int slot, const ChildOptions& options,
                       json& pod_spec) {
  if (!job.spec.capacity || options.spot.empty()) return;
  // A node that is avoided for itself is the worse one (100 above), also where two rows name it.
  constexpr int kSpotWeight = 40, kOnDemandWeight = 80;
  if (!may_be_on_spot(job, slot)) {
    const bool is_anchor = job.spec.capacity->spot != SpotUse::kNever;
    if (is_anchor && is_mutant(Mutant::kI41AnchorOnSpot))
      return tolerate_spot(options.spot, pod_spec);
    return require(no_spot(options.spot), kExpressions, pod_spec);
  }
  tolerate_spot(options.spot, pod_spec);
  if (is_spot_avoided(job, options.now))
    return prefer(no_spot(options.spot), kExpressions, kOnDemandWeight, pod_spec);
  if (job.spec.capacity->spot != SpotUse::kPrefer) return;
  for (const SpotRow& row : options.spot) {
    const json is_spot = {
        {"key", row.label}, {"operator", "In"}, {"values", json::array({row.value})}};
    prefer(json::array({is_spot}), kExpressions, kSpotWeight, pod_spec);
  }
}

void place_on_node(const TrainingJob& job, std::int64_t attempt, int slot, int n, json& pod_spec) {
  const std::string node = node_of(job.status.placement, attempt, slot, n);
  if (node.empty() || node == kAnyNode) return;
  const json is_node = {
      {"key", "metadata.name"}, {"operator", "In"}, {"values", json::array({node})}};
  require(json::array({is_node}), kFields, pod_spec);
}

// The scheduler lets in the first of them, which has no other to be beside.
void place_near_others(const TrainingJob& job, std::int64_t attempt,
                       const std::vector<LevelLabel>& levels, json& pod_spec) {
  constexpr int kWeight = 50;
  const std::string required = required_level(job.spec.scheduling);
  const auto beside = [&](const std::string& label) -> json {
    return {{"topologyKey", label},
            {"labelSelector",
             {{"matchLabels",
               {{kLabelJobUid, job.meta.uid}, {kLabelAttempt, std::to_string(attempt)}}}}}};
  };
  const auto affinity = [&]() -> json& {
    return object_at(object_at(pod_spec, "affinity"), "podAffinity");
  };
  const auto require_beside = [&](const std::string& label) {
    list_at(affinity(), "requiredDuringSchedulingIgnoredDuringExecution").push_back(beside(label));
  };
  if (required == kHostLevel || required == kLabelHostname) require_beside(kLabelHostname);
  for (const LevelLabel& level : levels) {
    if (required == level.name || required == level.label) {
      require_beside(level.label);
    } else {
      list_at(affinity(), "preferredDuringSchedulingIgnoredDuringExecution")
          .push_back({{"weight", kWeight}, {"podAffinityTerm", beside(level.label)}});
    }
  }
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
