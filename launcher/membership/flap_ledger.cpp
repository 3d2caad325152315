#include "launcher/membership/flap_ledger.h"

#include <algorithm>

namespace pawl::membership {

void FlapLedger::note(const std::string& node, int weight) {
  if (node.empty()) return;
  Flaps& flaps = flaps_[node];
  if (ctx_.now.steady - flaps.last > ctx_.timings.flap_memory) flaps.count = 0;
  flaps.count += weight;
  flaps.last = ctx_.now.steady;
}

bool FlapLedger::is_held_back(const Joiner& joiner) const {
  constexpr int kDoublingsMax = 6;
  const auto flaps = flaps_.find(joiner.join.node);
  if (flaps == flaps_.end() || flaps->second.count < 2) return false;
  if (ctx_.now.steady - flaps->second.last > ctx_.timings.flap_memory) return false;
  const std::chrono::seconds wait{std::max(ctx_.record->spec.stabilization_seconds, 1)};
  return ctx_.now.steady <
         joiner.prepared_at + wait * (1 << std::min(flaps->second.count - 2, kDoublingsMax));
}

}  // namespace pawl::membership
