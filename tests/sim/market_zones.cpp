#include "tests/sim/market_zones.h"

#include <algorithm>

namespace pawl::sim {
namespace {

using std::chrono::minutes;

constexpr int kHour = 60, kDay = 24 * kHour;

// Of 16 machines in three zones (docs/spot.md): when at least half of them were there, or not.
constexpr Spells kTracedOpen{5, 10, 15, 25, 65, 205, 335, 1735, 5245};
constexpr Spells kTracedShut{5, 10, 15, 40, 90, 285, 725, 1505, 3610};

constexpr MarketTerms kMarkets[] = {
    // 30 % a month: two thirds one by one, a third with the whole zone.
    {"advisor", 300 * kDay, {}, kTracedShut, 150 * kDay},
    // 10 % an hour: half one by one, half with the whole zone.
    {"hourly", 20 * kHour, {}, kTracedShut, 20 * kHour},
    {"trace", 0, kTracedOpen, kTracedShut, 0},
};

int mean_of(const Spells& spells) {
  int sum = 0;
  for (std::size_t i = 1; i < spells.size(); ++i)
    sum += (kSpellShares[i] - kSpellShares[i - 1]) * (spells[i] + spells[i - 1]) / 2;
  return sum / 1000;
}

}  // namespace

int MarketTerms::minutes_between_losses(int machines) const {
  if (machines == 0) return 0;
  const int open_mean = open_minutes > 0 ? open_minutes : mean_of(open);
  const int one_by_one = life_minutes > 0 ? life_minutes / machines : 0;
  if (one_by_one == 0) return open_mean;
  return static_cast<int>(std::int64_t{open_mean} * one_by_one / (open_mean + one_by_one));
}

const MarketTerms* find_market(const std::string& name) {
  const auto* const found =
      std::ranges::find_if(kMarkets, [&](const MarketTerms& terms) { return terms.name == name; });
  return found == std::end(kMarkets) ? nullptr : found;
}

std::string market_names() {
  std::string names;
  for (const MarketTerms& terms : kMarkets)
    names += std::string(names.empty() ? "" : "|") + terms.name;
  return names;
}

Zones::Zones(Engine& engine, const MarketTerms& terms, std::uint64_t seed)
    : engine_(engine), terms_(terms) {
  for (std::size_t zone = 0; zone < zones_.size(); ++zone)
    zones_[zone].random = Random(mix64(seed * kZones + zone));
}

milliseconds Zones::draw(const Spells& spells, Random& random) {
  const auto at = static_cast<int>(random.below(1000));
  std::size_t i = 1;
  while (kSpellShares[i] <= at) ++i;
  const int part = at - kSpellShares[i - 1], width = kSpellShares[i] - kSpellShares[i - 1];
  const milliseconds first = minutes{spells[i - 1]}, last = minutes{spells[i]};
  return first + (last - first) * part / width;
}

void Zones::begin() {
  for (int zone = 0; zone < kZones; ++zone) open(zone);
}

void Zones::open(int zone) {
  Zone& one = zones_[static_cast<std::size_t>(zone)];
  one.is_open = true;
  one.since = engine_.elapsed();
  milliseconds time{0};
  if (terms_.open_minutes == 0) {
    time = draw(terms_.open, one.random);
  } else {
    do time += minutes{1};
    while (!one.random.one_in(static_cast<std::uint64_t>(terms_.open_minutes)));
  }
  engine_.after(time, [this, zone] { shut(zone); });
}

void Zones::shut(int zone) {
  Zone& one = zones_[static_cast<std::size_t>(zone)];
  one.is_open = false;
  one.since = engine_.elapsed();
  ++shut_count_;
  engine_.trace("zone " + std::to_string(zone) + " has no spot machines any more");
  if (on_shut) on_shut(zone);
  engine_.after(draw(terms_.shut, one.random), [this, zone] { open(zone); });
}

int Zones::best() const {
  int best = -1;
  for (int zone = 0; zone < kZones; ++zone) {
    const Zone& one = zones_[static_cast<std::size_t>(zone)];
    const bool is_better = best < 0 || one.since < zones_[static_cast<std::size_t>(best)].since;
    if (one.is_open && is_better) best = zone;
  }
  return best;
}

}  // namespace pawl::sim
