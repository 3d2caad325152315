#include "common/api/pulse.h"

#include <algorithm>
#include <bit>

namespace pawl::api {

static_assert(offsetof(PulsePage, process) == 0 && offsetof(PulsePage, beats) == 8 &&
              offsetof(PulsePage, phase) == 16 && offsetof(PulsePage, step) == 24 &&
              offsetof(PulsePage, times) == 32 && sizeof(PulsePage) == 1312);

const char* phase_name(Phase phase) {
  constexpr std::array kNames{"other",  "data",      "forward",  "backward",
                              "reduce", "optimizer", "snapshot", "validate"};
  const auto number = static_cast<std::size_t>(phase);
  return kNames[number < kPhases ? number : 0];
}

void count_time(PulsePage& page, Phase phase, std::chrono::nanoseconds time) {
  constexpr std::chrono::minutes kWorkMax{1};
  if (time > kWorkMax && usual_time(page, phase).count() > 0) return;
  const auto micros = static_cast<std::uint64_t>(std::max<std::int64_t>(
      0, std::chrono::duration_cast<std::chrono::microseconds>(time).count()));
  const auto bucket = std::min<std::size_t>(static_cast<std::size_t>(std::bit_width(micros)),
                                            PulsePage::kBuckets - 1);
  page.times[static_cast<std::size_t>(phase)][bucket].fetch_add(1, std::memory_order_relaxed);
}

std::chrono::microseconds usual_time(const PulsePage& page, Phase phase) {
  const auto number = static_cast<std::size_t>(phase);
  if (number >= kPhases) return {};
  std::array<std::uint64_t, PulsePage::kBuckets> counts{};
  std::uint64_t all = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    counts[i] = page.times[number][i].load(std::memory_order_relaxed);
    all += counts[i];
  }
  if (all == 0) return {};
  std::uint64_t below = 0;
  std::size_t bucket = 0;
  for (; bucket + 1 < counts.size(); ++bucket) {
    below += counts[bucket];
    if (below * 100 >= all * 99) break;
  }
  return std::chrono::microseconds{std::int64_t{1} << bucket};
}

}  // namespace pawl::api
