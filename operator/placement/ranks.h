// The order in which the members of a gang get their ranks (placement.h says what it is good for).
// Pure; used by placement.cpp alone.
#pragma once

#include <vector>

#include "operator/placement/choice.h"
#include "operator/placement/placement.h"

namespace pawl::placement {

// `shares` by host, all in one domain of this depth.
std::vector<Share> in_order_of_ranks(const Topology& topology, int depth, const Beside& beside,
                                     std::vector<Share> shares);

}  // namespace pawl::placement
