// `pawl-launch --install DIR`: copies the launcher with its loader and libraries out of its own
// image, for the init container of a pod whose image has none of them.
#pragma once

#include <string>

#include "common/base/result.h"

namespace pawl::launcher {

// `from`/bin and `from`/lib to `to`/bin and `to`/lib. Each folder appears whole, by a rename: an
// init container that is started again finds either all of it or nothing.
Status install(const std::string& from, const std::string& to);

}  // namespace pawl::launcher
