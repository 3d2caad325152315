// Whether all ranks still hold the same: what unreliable memory, or a bug, has done to one of them
// would otherwise spoil all others step by step. Any thread.
#pragma once

#include <string>
#include <vector>

#include "common/base/result.h"

namespace pawl::parallel {

// `digests` of the parameters, by rank. Corrupt: names the ranks that differ from what most hold,
// or says that no value is most ranks'.
Status compare_digests(const std::vector<std::string>& digests);

}  // namespace pawl::parallel
