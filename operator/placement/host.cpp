#include "operator/placement/host.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

#include "common/base/json.h"

namespace pawl::placement {
namespace {

using nlohmann::json;

constexpr char kCordon[] = "node.kubernetes.io/unschedulable", kNoSchedule[] = "NoSchedule",
               kNoExecute[] = "NoExecute", kExists[] = "Exists";

std::map<std::string, std::string> texts_of(const json& object) {
  std::map<std::string, std::string> texts;
  if (!object.is_object()) return texts;
  for (const auto& [key, value] : object.items()) {
    if (value.is_string()) texts[key] = value.get<std::string>();
  }
  return texts;
}

// A cordon, a node that is not ready or under pressure, and one whose network or cloud is yet to be
// set up: whoever put it there takes it away again.
bool passes(const Taint& taint) {
  constexpr std::array kOwn{"node.kubernetes.io/", "node.cloudprovider.kubernetes.io/"};
  return taint.key.ends_with("not-ready") ||
         std::ranges::any_of(kOwn, [&](const char* own) { return taint.key.starts_with(own); });
}

std::optional<std::int64_t> as_number(const std::string& text) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return number;
}

}  // namespace

Host host_of(const json& node) {
  Host host{.name = text_at(member_of(node, "metadata"), "name"),
            .labels = texts_of(member_of(member_of(node, "metadata"), "labels")),
            .allocatable = allocatable_of(node)};
  const json& spec = member_of(node, "spec");
  for (const json& object : member_of(spec, "taints")) {
    Taint taint{text_at(object, "key"), text_at(object, "value"), text_at(object, "effect")};
    if (taint.effect == kNoSchedule || taint.effect == kNoExecute)
      host.taints.push_back(std::move(taint));
  }
  const Taint cordon{kCordon, "", kNoSchedule};
  const bool is_told = std::ranges::find(host.taints, cordon) != host.taints.end();
  if (member_of(spec, "unschedulable") == true && !is_told) host.taints.push_back(cordon);
  for (const json& condition : member_of(member_of(node, "status"), "conditions")) {
    if (text_at(condition, "type") == "Ready")
      host.is_ready = text_at(condition, "status") == "True";
  }
  return host;
}

Demands::Requirement Demands::requirement_of(const json& object) {
  Requirement one{text_at(object, "key"), text_at(object, "operator"), {}};
  for (const json& value : member_of(object, "values")) {
    if (value.is_string()) one.values.push_back(value.get<std::string>());
  }
  return one;
}

Demands Demands::of(const json& pod_spec) {
  Demands demands;
  demands.selector_ = texts_of(member_of(pod_spec, "nodeSelector"));
  const json& required = member_of(member_of(member_of(pod_spec, "affinity"), "nodeAffinity"),
                                   "requiredDuringSchedulingIgnoredDuringExecution");
  demands.has_terms_ = required.is_object();
  for (const json& object : member_of(required, "nodeSelectorTerms")) {
    Term term;
    for (const json& one : member_of(object, "matchExpressions"))
      term.labels.push_back(requirement_of(one));
    for (const json& one : member_of(object, "matchFields"))
      term.fields.push_back(requirement_of(one));
    demands.terms_.push_back(std::move(term));
  }
  for (const json& object : member_of(pod_spec, "tolerations")) {
    demands.tolerations_.push_back({text_at(object, "key"), text_at(object, "operator"),
                                    text_at(object, "value"), text_at(object, "effect")});
  }
  return demands;
}

bool Demands::tolerates(const Taint& taint) const {
  return std::ranges::any_of(tolerations_,
                             [&](const Toleration& one) { return tolerates(one, taint); });
}

bool Demands::allow(const Host& host) const {
  return host.is_ready &&
         std::ranges::all_of(host.taints, [this](const Taint& one) { return tolerates(one); }) &&
         selects(host);
}

bool Demands::allow_one_day(const Host& host) const {
  return std::ranges::all_of(host.taints,
                             [this](const Taint& one) { return passes(one) || tolerates(one); }) &&
         selects(host);
}

bool Demands::selects(const Host& host) const {
  for (const auto& [key, value] : selector_) {
    const auto found = host.labels.find(key);
    if (found == host.labels.end() || found->second != value) return false;
  }
  if (!has_terms_) return true;
  return std::ranges::any_of(terms_, [&](const Term& term) { return matches(term, host); });
}

// `value`: null where there is none.
bool Demands::matches(const Requirement& one, const std::string* value) {
  const bool is_in = value != nullptr && std::ranges::find(one.values, *value) != one.values.end();
  if (one.op == "In") return is_in;
  if (one.op == "NotIn") return !is_in;
  if (one.op == kExists) return value != nullptr;
  if (one.op == "DoesNotExist") return value == nullptr;
  if ((one.op != "Gt" && one.op != "Lt") || value == nullptr || one.values.size() != 1)
    return false;
  const auto number = as_number(*value), limit = as_number(one.values.front());
  if (!number || !limit) return false;
  return one.op == "Gt" ? *number > *limit : *number < *limit;
}

// One that says nothing matches nothing.
bool Demands::matches(const Term& term, const Host& host) {
  if (term.labels.empty() && term.fields.empty()) return false;
  const auto has_label = [&](const Requirement& one) {
    const auto found = host.labels.find(one.key);
    return matches(one, found == host.labels.end() ? nullptr : &found->second);
  };
  const auto has_field = [&](const Requirement& one) {
    return one.key == "metadata.name" && matches(one, &host.name);
  };
  return std::ranges::all_of(term.labels, has_label) && std::ranges::all_of(term.fields, has_field);
}

bool Demands::has_label(const std::string& key, const std::string& value) const {
  const auto found = selector_.find(key);
  if (found != selector_.end()) return found->second == value;
  const auto is_it = [&](const Requirement& one) {
    return one.key == key && one.op == "In" && one.values == std::vector<std::string>{value};
  };
  return !terms_.empty() && std::ranges::all_of(terms_, [&](const Term& term) {
    return std::ranges::any_of(term.labels, is_it);
  });
}

bool Demands::tolerates(const Toleration& one, const Taint& taint) {
  if (!one.effect.empty() && one.effect != taint.effect) return false;
  if (one.key.empty()) return one.op == kExists;
  if (one.key != taint.key) return false;
  if (one.op == kExists) return true;
  if (one.op.empty() || one.op == "Equal") return one.value == taint.value;
  if (one.op != "Gt" && one.op != "Lt") return false;
  const auto number = as_number(taint.value), limit = as_number(one.value);
  if (!number || !limit) return false;
  return one.op == "Gt" ? *number > *limit : *number < *limit;
}

}  // namespace pawl::placement
