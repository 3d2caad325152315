// Kinds of nodes that have quotas of their own (the chart's placement.flavors): by name, with the
// labels that their nodes have. A job belongs to the flavor whose labels its template demands. What
// it uses is charged as RESOURCE@FLAVOR where its queue lists that. Pure; values.
#pragma once

#include <map>
#include <string>

#include "common/api/training_queue.h"
#include "common/base/result.h"
#include "operator/admission/quotas.h"
#include "operator/placement/host.h"

namespace pawl::controller {

using Flavors = std::map<std::string, std::map<std::string, std::string>>;  // labels, by name

// {"h100": {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}}; Invalid: what is wrong with it.
Result<Flavors> parse_flavors(const std::string& text);
// Of those of which all labels are demanded the one with the most, by name the first; "": none.
std::string flavor_of(const Flavors& flavors, const placement::Demands& demands);
// "nvidia.com/gpu@h100"; "nvidia.com/gpu" for all nodes.
std::string quota_name(const std::string& resource, const std::string& flavor);
inline std::string quota_name(const api::ResourceQuota& quota) {
  return quota_name(quota.resource, quota.flavor);
}
// By the names under which they are counted; null: no such queue.
placement::Resources charged_as(const placement::Resources& requests, const std::string& flavor,
                                const admission::Queue* queue);
placement::Resources plain_names(const placement::Resources& charged);
// What of that has a quota on nodes of some flavors alone, and not on those of this one: half a
// sentence that says so, and what to write into the template; "": nothing.
std::string flavor_lacking(const placement::Resources& requests, const std::string& flavor,
                           const api::TrainingQueue& queue, const Flavors& flavors);

}  // namespace pawl::controller
