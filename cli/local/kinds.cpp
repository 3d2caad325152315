#include "cli/local/kinds.h"

#include <algorithm>

namespace pawl::local {

const std::vector<Kind>& all_kinds() {
  static const std::vector<Kind> kinds = {
      // group, version, plural, name, status, generation, custom, returns deleted
      {"", "v1", "pods", "Pod", true, true, false, true},
      {"", "v1", "events", "Event", false, false, false, false, NameRule::kPathSegment},
      {"events.k8s.io", "v1", "events", "Event", false, false, false, false},
      {"", "v1", "serviceaccounts", "ServiceAccount", false, false, false, true},
      {"", "v1", "services", "Service", true, false, false, true, NameRule::kLabel},
      {"rbac.authorization.k8s.io", "v1", "roles", "Role", false, false, false, false,
       NameRule::kPathSegment},
      {"rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding", false, false, false, false,
       NameRule::kPathSegment},
      {"policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", true, true, false, false,
       NameRule::kPathSegment},
      {"coordination.k8s.io", "v1", "leases", "Lease", false, false, false, false},
      {"pawl.dev", "v1alpha1", "trainingjobs", "TrainingJob", true, true, true, false},
      {"pawl.dev", "v1alpha1", "workergroups", "WorkerGroup", true, true, true, false},
  };
  return kinds;
}

const Kind* find_kind(std::string_view group, std::string_view version, std::string_view plural) {
  const auto& kinds = all_kinds();
  const auto found = std::find_if(kinds.begin(), kinds.end(), [&](const Kind& kind) {
    return kind.group == group && kind.version == version && kind.plural == plural;
  });
  return found == kinds.end() ? nullptr : &*found;
}

const Kind* find_kind_of(std::string_view api_version_text, std::string_view name) {
  for (const Kind& kind : all_kinds()) {
    if (kind.name == name && api_version(kind) == api_version_text) return &kind;
  }
  return nullptr;
}

bool is_collected(std::string_view plural) { return plural != "events"; }

std::string qualified_plural(const Kind& kind) {
  std::string text{kind.plural};
  if (!kind.group.empty()) text.append(".").append(kind.group);
  return text;
}

std::string qualified_name(const Kind& kind) {
  std::string text{kind.name};
  if (!kind.group.empty()) text.append(".").append(kind.group);
  return text;
}

std::string api_version(const Kind& kind) {
  if (kind.group.empty()) return std::string{kind.version};
  return std::string{kind.group}.append("/").append(kind.version);
}

}  // namespace pawl::local
