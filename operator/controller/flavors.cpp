#include "operator/controller/flavors.h"

#include <algorithm>

#include "common/base/json.h"

namespace pawl::controller {

using nlohmann::json;

Result<Flavors> parse_flavors(const std::string& text) {
  const char* const form = R"(must be {"NAME": {"LABEL": "VALUE"}}, not )";
  if (text.empty()) return Flavors{};
  const json object = parse_json(text);
  if (!object.is_object()) return fail(Code::kInvalid, form + text);
  Flavors flavors;
  for (const auto& [name, labels] : object.items()) {
    if (name.empty() || !labels.is_object() || labels.empty())
      return fail(Code::kInvalid, form + json{{name, labels}}.dump());
    for (const auto& [label, value] : labels.items()) {
      if (!value.is_string()) return fail(Code::kInvalid, form + json{{name, labels}}.dump());
      flavors[name][label] = value.get<std::string>();
    }
  }
  return flavors;
}

std::string flavor_of(const Flavors& flavors, const placement::Demands& demands) {
  std::string best;
  std::size_t most = 0;
  for (const auto& [name, labels] : flavors) {
    const bool is_it = std::ranges::all_of(
        labels, [&](const auto& label) { return demands.has_label(label.first, label.second); });
    if (!is_it || labels.size() <= most) continue;
    best = name;
    most = labels.size();
  }
  return best;
}

std::string quota_name(const std::string& resource, const std::string& flavor) {
  return flavor.empty() ? resource : resource + "@" + flavor;
}

placement::Resources charged_as(const placement::Resources& requests, const std::string& flavor,
                                const admission::Queue* queue) {
  placement::Resources charged;
  for (const auto& [resource, quantity] : requests) {
    const std::string name = quota_name(resource, flavor);
    const bool is_listed = queue != nullptr && queue->quotas.contains(name);
    charged[is_listed ? name : resource] = quantity;
  }
  return charged;
}

placement::Resources plain_names(const placement::Resources& charged) {
  placement::Resources plain;
  for (const auto& [name, quantity] : charged) plain[name.substr(0, name.find('@'))] += quantity;
  return plain;
}

std::string flavor_lacking(const placement::Resources& requests, const std::string& flavor,
                           const api::TrainingQueue& queue, const Flavors& flavors) {
  for (const auto& [resource, quantity] : requests) {
    std::string choices, unknown;
    bool has_quota = false, is_listed = false;
    for (const api::ResourceQuota& quota : queue.quotas) {
      if (quota.resource != resource || quantity == 0) continue;
      is_listed = true;
      has_quota = has_quota || quota.flavor.empty() || quota.flavor == flavor;
      const auto known = flavors.find(quota.flavor);
      std::string& list = known == flavors.end() ? unknown : choices;
      list += (list.empty() ? "" : ", ") + quota.flavor;
      if (known != flavors.end()) list += " " + json(known->second).dump();
    }
    if (!is_listed || has_quota) continue;
    std::string text = "has " + resource + " on nodes of some flavors alone: ";
    if (!choices.empty())
      text +=
          "suspend the job and have its template's nodeSelector name one of " + choices + ", or ";
    if (!unknown.empty())
      text += "have " + unknown + " added to the chart's placement.flavors, or ";
    return text + "have a quota of other nodes added to the queue";
  }
  return "";
}

}  // namespace pawl::controller
