// What pods ask for and what machines have, as kube-scheduler counts it: what this says fits has to
// fit there too. Pure; values.
//
// Source: k8s.io/component-helpers/resource (PodRequests) and apimachinery's Quantity.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace pawl::placement {

// By name ("cpu" in thousandths, all others in their own unit: bytes, devices, pods); none below 0.
using Resources = std::map<std::string, std::int64_t>;

inline constexpr char kCpu[] = "cpu", kPods[] = "pods";

// "500m", "1.5Gi", "2e3", times `scale`, rounded up; what is below 0 counts as 0, what is too much
// for an int64 as its most. Nothing: this is no quantity.
std::optional<std::int64_t> parse_quantity(std::string_view text, std::int64_t scale);

// Of a node: status.allocatable.
Resources allocatable_of(const nlohmann::json& node);

// Of a pod, or of a pod template: all containers and sidecars together, or what its init containers
// need at one time, whichever is more; spec.resources in place of that; and the overhead. While it
// is resized in place the most of what is asked for and what the kubelet has given. One of "pods".
Resources requests_of(const nlohmann::json& pod);

void add(Resources& sum, const Resources& more);
// What so many pods take, kAmountMax at most: more than any cluster has, and little enough that
// those of all jobs add up.
inline constexpr std::int64_t kAmountMax = std::int64_t{1} << 56;
Resources times(Resources each, int pods);
std::int64_t amount_of(const Resources& resources, const std::string& resource);  // 0: none

// Of members that fit on a host: none below 0, so few that those of a cluster add up to an int.
int bounded_units(std::int64_t units);

}  // namespace pawl::placement
