// Spot machines of the simulated cluster: what a pod's affinity says of them, and how they go.
#include <algorithm>

#include "tests/sim/nodes.h"

namespace pawl::sim {

using nlohmann::json;

namespace {

// Of an expression over labels; other keys are on no node here.
bool is_met(const json& expression, bool is_spot) {
  const bool is_named =
      expression.at("key") == kSpotLabel &&
      std::ranges::find(expression.at("values"), is_spot ? "spot" : "on-demand") !=
          expression.at("values").end();
  return (expression.at("operator") == "In") == is_named;
}

bool is_met_by(const json& term, bool is_spot) {
  return std::ranges::all_of(term.value("matchExpressions", json::array()),
                             [&](const json& one) { return is_met(one, is_spot); });
}

const json* node_affinity(const json& pod, const char* list) {
  const json::json_pointer at(std::string("/spec/affinity/nodeAffinity/") + list);
  return pod.contains(at) ? &pod.at(at) : nullptr;
}

}  // namespace

bool may_run(const json& pod, bool is_spot) {
  const json* terms =
      node_affinity(pod, "requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms");
  return terms == nullptr ||
         std::ranges::any_of(*terms, [&](const json& term) { return is_met_by(term, is_spot); });
}

std::string bound_for(const json& pod) {
  const json* terms =
      node_affinity(pod, "requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms");
  if (terms == nullptr) return "";
  for (const json& field : terms->front().value("matchFields", json::array())) {
    if (field.at("operator") == "In") return field.at("values").front();
  }
  return "";
}

int liking(const json& pod, bool is_spot) {
  const json* terms = node_affinity(pod, "preferredDuringSchedulingIgnoredDuringExecution");
  if (terms == nullptr) return 0;
  int sum = 0;
  for (const json& term : *terms) {
    const json& preference = term.at("preference");
    if (preference.contains("matchExpressions") && is_met_by(preference, is_spot))
      sum += term.at("weight").get<int>();
  }
  return sum;
}

bool tolerates_spot(const json& pod) {
  const json::json_pointer at("/spec/tolerations");
  return pod.contains(at) && std::ranges::any_of(pod.at(at), [](const json& one) {
           return one.at("key") == kSpotLabel && one.at("operator") == "Exists";
         });
}

void Nodes::reclaim_spot() {
  const bool is_storm = place_.engine.random().one_in(3);
  for (const auto& each : nodes_) {
    Node& node = *each;
    if (!node.is_spot || !is_reachable(node) || node.is_announced) continue;
    if (!is_storm && !place_.engine.random().one_in(2)) continue;
    const milliseconds time = place_.engine.between(milliseconds{0}, milliseconds{4'000});
    const milliseconds notice = place_.engine.between(milliseconds{5'000}, milliseconds{30'000});
    const bool is_silent = place_.engine.random().one_in(3);
    const auto told = static_cast<Told>(place_.engine.random().below(3));
    place_.engine.after(time, [this, &node, notice, is_silent, told] {
      if (!may_fail || !is_reachable(node) || node.is_announced) return;
      if (!is_silent) return announce(node, notice, told);
      place_.api.count_fault("spot reclaimed");
      lose(node);
    });
    // The cloud takes its object away at once, and another machine comes.
    place_.engine.after(time + notice + place_.engine.between(seconds{5}, seconds{30}),
                        [this, &node] {
                          if (!node.is_alive) collect(node);
                        });
    if (!is_storm) return;
  }
}

}  // namespace pawl::sim
