// The history of a run as the record keeps it: which generation counts from which step. Pure.
#pragma once

#include <vector>

#include "common/api/types.h"

namespace pawl::membership {

inline constexpr std::size_t kLineageMax = 32;

// `lineage` with `entry` at its end, which goes on from the memory of generation `base` (0: from
// storage). Generations between the two made no step that counts, and entries that began after
// entry.start_step are off the line now; those that confirmed nothing are dropped, so that a crash
// loop does not push out the ones that hold checkpoints; not where they began at `stored`, the
// newest published step, which they may have saved at rest. Of too many, those go first that began
// behind `stored`: nothing of theirs is on storage. Then the oldest go.
std::vector<api::LineageEntry> extend_lineage(std::vector<api::LineageEntry> lineage,
                                              const api::LineageEntry& entry, std::int64_t base = 0,
                                              std::int64_t stored = 0);

}  // namespace pawl::membership
