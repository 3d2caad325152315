// What a deletion was asked to be. Between the parts of ApiStore.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace pawl::local {

struct DeletePlan {
  std::string uid, resource_version;  // preconditions, "" for none
  std::optional<std::int64_t> grace_seconds;
  std::string propagation;  // "", Background, Foreground, Orphan
};

}  // namespace pawl::local
