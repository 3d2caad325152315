// The kinds of object that the embedded API knows: where they live, and how the API server treats
// each. A constant table; any thread. A kind that is not here is answered with 404, as on a server
// without its CRD.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace pawl::local {

// What metadata.name may be.
enum class NameRule { kSubdomain, kLabel, kPathSegment };

struct Kind {
  std::string_view group;  // "" for core
  std::string_view version;
  std::string_view plural;
  std::string_view name;
  bool has_status;       // a status subresource, written apart from the rest
  bool has_generation;   // metadata.generation
  bool is_custom;        // served from a CRD
  bool returns_deleted;  // DELETE answers with the last object, not with a Status
  NameRule name_rule = NameRule::kSubdomain;
  bool operator==(const Kind& other) const {
    return plural == other.plural && group == other.group;
  }
};

const std::vector<Kind>& all_kinds();
// nullptr if it is not served.
const Kind* find_kind(std::string_view group, std::string_view version, std::string_view plural);
// By the apiVersion ("v1", "pawl.dev/v1alpha1") and kind that objects and owner references carry.
const Kind* find_kind_of(std::string_view api_version, std::string_view name);
// Events have no part in garbage collection: their owners mean nothing, and no deletion of theirs
// waits for dependents.
bool is_collected(std::string_view plural);
// "trainingjobs.pawl.dev", "pods": how messages name it.
std::string qualified_plural(const Kind& kind);
// "TrainingJob.pawl.dev", "Pod".
std::string qualified_name(const Kind& kind);
// "pawl.dev/v1alpha1", "v1".
std::string api_version(const Kind& kind);

}  // namespace pawl::local
