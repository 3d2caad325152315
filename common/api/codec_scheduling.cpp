#include <algorithm>

#include "common/api/codec_shared.h"
#include "common/api/json_fields.h"

namespace pawl::api {

using nlohmann::json;

Scheduling read_scheduling(Fields& fields) {
  Scheduling scheduling;
  fields.read("queueName", scheduling.queue_name);
  fields.read("priorityClassName", scheduling.priority_class_name);
  fields.read("spares", scheduling.spares);
  fields.read("startTimeoutSeconds", scheduling.start_timeout_seconds);
  fields.each("topology", [&](Fields& item) {
    TopologyTerm term;
    std::string mode = "Required";
    item.read("level", term.level);
    item.read("mode", mode);
    term.mode = mode == "Preferred" ? TopologyMode::kPreferred : TopologyMode::kRequired;
    if (mode != "Preferred" && mode != "Required")
      item.set_error(item.path_of("mode"), "must be Required or Preferred");
    scheduling.topology.push_back(std::move(term));
  });
  fields.child("slices", [&](Fields& child) {
    SliceTerm slices;
    child.read("size", slices.size);
    child.read("level", slices.level);
    scheduling.slices = std::move(slices);
  });
  return scheduling;
}

json write_scheduling(const Scheduling& scheduling) {
  json object = json::object();
  put(object, "queueName", scheduling.queue_name);
  put(object, "priorityClassName", scheduling.priority_class_name);
  if (scheduling.spares > 0) object["spares"] = scheduling.spares;
  put(object, "startTimeoutSeconds", scheduling.start_timeout_seconds);
  for (const TopologyTerm& term : scheduling.topology) {
    const bool is_required = term.mode == TopologyMode::kRequired;
    object["topology"].push_back(
        {{"level", term.level}, {"mode", is_required ? "Required" : "Preferred"}});
  }
  if (const auto& slices = scheduling.slices)
    object["slices"] = {{"size", slices->size}, {"level", slices->level}};
  return object;
}

std::string required_level(const std::optional<Scheduling>& scheduling) {
  if (!scheduling) return "";
  const auto found =
      std::ranges::find(scheduling->topology, TopologyMode::kRequired, &TopologyTerm::mode);
  return found == scheduling->topology.end() ? "" : found->level;
}

}  // namespace pawl::api
