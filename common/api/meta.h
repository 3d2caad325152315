// Metadata that every object of Kubernetes has, as far as Pawl reads it. Values; the JSON codec is
// in codec.h. Included by the headers of the kinds; any thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/base/clock.h"

namespace pawl::api {

struct OwnerReference {
  std::string api_version, kind, name, uid;
  bool is_controller = false;
  bool operator==(const OwnerReference&) const = default;
};

struct ObjectMeta {
  std::string name, ns, uid, resource_version;
  std::int64_t generation = 0;
  std::optional<TimePoint> creation_time, deletion_time;
  std::map<std::string, std::string> labels, annotations;
  std::vector<OwnerReference> owners;
  bool operator==(const ObjectMeta&) const = default;
};

}  // namespace pawl::api
