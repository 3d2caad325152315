// Gangs whose members lie together in slices (Slices in placement.h). Pure; used by placement.cpp,
// which has the part within one domain.
#pragma once

#include <optional>

#include "operator/placement/placement.h"

namespace pawl::placement {

// Of an ask that has slices.
std::optional<Placement> place_slices(const Topology& topology, const Room& room, const Ask& ask);
// In this domain of ask.required_depth, which holds them; the common domain may be a smaller one.
Placement place_within(const Topology& topology, const Room& room, const Ask& ask,
                       const Domain& domain);

}  // namespace pawl::placement
