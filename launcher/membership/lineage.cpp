#include "launcher/membership/lineage.h"

#include <algorithm>
#include <utility>

namespace pawl::membership {

std::vector<api::LineageEntry> extend_lineage(std::vector<api::LineageEntry> lineage,
                                              const api::LineageEntry& entry, std::int64_t base,
                                              std::int64_t stored) {
  std::erase_if(lineage, [&](const api::LineageEntry& old) {
    return old.start_step > entry.start_step || (base > 0 && old.generation > base);
  });
  lineage.push_back(entry);
  std::vector<api::LineageEntry> kept;
  for (std::size_t i = 0; i < lineage.size(); ++i) {
    const bool is_last = i + 1 == lineage.size();
    // One that made no step may have saved what it began with.
    const bool has_saved = stored > 0 && lineage[i].start_step == stored;
    if (is_last || has_saved || lineage[i + 1].start_step > lineage[i].start_step)
      kept.push_back(lineage[i]);
  }
  while (kept.size() > kLineageMax) {
    // Not the newest, which is the one that counts from now on.
    const auto bare = std::find_if(kept.begin(), kept.end() - 1, [&](const auto& one) {
      return stored > 0 && one.start_step > stored;
    });
    kept.erase(bare == kept.end() - 1 ? kept.begin() : bare);
  }
  return kept;
}

}  // namespace pawl::membership
