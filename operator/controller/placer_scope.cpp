// For which jobs the placer decides: those whose pods it knows all of that matters for their nodes.
// A choice that does not would be refused again and again.
#include <algorithm>
#include <array>
#include <string>

#include "common/api/contract.h"
#include "common/base/json.h"
#include "operator/controller/placer.h"

namespace pawl::controller {
namespace {

using nlohmann::json;

bool is_kueues(const api::TrainingJob& job) {
  return job.meta.labels.contains(std::string(api::kKueuePrefix) + "queue-name");
}

// One pod a machine for each.
bool has_host_ports(const json& pod_spec) {
  const bool is_on_host = member_of(pod_spec, "hostNetwork") == true;
  return std::ranges::any_of(member_of(pod_spec, "containers"), [&](const json& container) {
    return std::ranges::any_of(member_of(container, "ports"), [&](const json& port) {
      return is_on_host || port.contains("hostPort");
    });
  });
}

// Its pods may not be just anywhere beside each other, or beside others.
bool depends_on_pods(const json& pod_spec) {
  constexpr char kRequired[] = "requiredDuringSchedulingIgnoredDuringExecution";
  const json& affinity = member_of(pod_spec, "affinity");
  for (const char* kind : {"podAffinity", "podAntiAffinity"}) {
    const json& terms = member_of(member_of(affinity, kind), kRequired);
    if (terms.is_array() && !terms.empty()) return true;
  }
  return std::ranges::any_of(member_of(pod_spec, "topologySpreadConstraints"), [](const json& one) {
    return text_at(one, "whenUnsatisfiable") != "ScheduleAnyway";
  });
}

// What of it the scheduler alone knows about; "": nothing.
std::string foreign_demand(const std::string& template_json) {
  constexpr std::array kOthers{"nodeName", "resourceClaims", "schedulingGates", "schedulerName"};
  constexpr std::array kWords{"podAffinity", "podAntiAffinity", "topologySpread", "hostPort",
                              "hostNetwork"};
  const auto is_there = [&](const char* word) {
    return template_json.find(word) != std::string::npos;
  };
  if (std::ranges::none_of(kOthers, is_there) && std::ranges::none_of(kWords, is_there))
    return "";  // as nearly always
  const json pod_template = parse_json(template_json);
  const json& spec = member_of(pod_template, "spec");
  for (const char* key : kOthers) {
    if (spec.contains(key)) return key;
  }
  if (has_host_ports(spec)) return "host ports";
  return depends_on_pods(spec) ? "where other pods are" : "";
}

}  // namespace

std::string Placer::left_out(const api::TrainingJob& job) {
  if (is_kueues(job)) return "Kueue decides on its nodes";
  // Which worker is to be on which kind of machine is a matter of the scheduler's preferences.
  const auto& capacity = job.spec.capacity;
  if (capacity && capacity->spot != api::SpotUse::kNever)
    return "spec.capacity leaves its nodes to the scheduler";
  const std::string demand = foreign_demand(job.spec.template_json);
  return demand.empty() ? "" : "the template says " + demand + ", which only the scheduler heeds";
}

std::string Placer::placed_by(const api::TrainingJob& job, const std::string& left_out) {
  if (left_out.empty()) return "Pawl";
  return is_kueues(job) ? "Kueue, whose queue the job's label names"
                        : "kube-scheduler: " + left_out;
}

std::string Placer::defect_of(const api::TrainingJob& job, const std::string& why) {
  const auto& scheduling = job.spec.scheduling;
  if (scheduling && !scheduling->queue_name.empty())
    return "spec.scheduling.queueName cannot be kept, because " + why +
           ": change that, or suspend the job and remove it";
  if (scheduling && scheduling->slices)
    return "spec.scheduling.slices cannot be kept, because " + why + ": change that, or remove it";
  if (api::required_level(scheduling).empty()) return "";
  return "spec.scheduling.topology with mode Required cannot be kept, because " + why +
         ": change that, or make it Preferred";
}

}  // namespace pawl::controller
