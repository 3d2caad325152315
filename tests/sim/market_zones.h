// When spot machines can be had, and when they are taken back: markets by published figures, whose
// sources docs/spot.md names, and the zones of one of them, which open and shut. One thread.
#pragma once

#include <array>
#include <functional>
#include <string>
#include <vector>

#include "tests/sim/engine.h"

namespace pawl::sim {

// Lengths in minutes at these shares of all, in thousandths; between them they lie on lines.
inline constexpr std::array<int, 9> kSpellShares{0, 100, 250, 500, 750, 900, 950, 990, 1000};
using Spells = std::array<int, kSpellShares.size()>;

struct MarketTerms {
  const char* name;
  int open_minutes;  // of a zone, on average, without memory; 0: `open` has the lengths
  Spells open;
  Spells shut;
  int life_minutes;  // of one machine in a zone that stays open, on average; 0: it is not taken
  // Between two losses of a job with so many machines on spot; 0: none.
  int minutes_between_losses(int machines) const;
};
const MarketTerms* find_market(const std::string& name);
std::string market_names();

class Zones {
 public:
  static constexpr int kZones = 3;
  // The same seed is the same market, whoever buys in it.
  Zones(Engine& engine, const MarketTerms& terms, std::uint64_t seed);
  void begin();  // all of them are open
  // The zone that has been open for longest, as a pool with most room is; -1: all are shut.
  int best() const;
  std::function<void(int zone)> on_shut;
  int shut_count() const { return shut_count_; }

 private:
  struct Zone {
    bool is_open = true;
    milliseconds since{0};
    Random random{0};
  };
  void open(int zone);
  void shut(int zone);
  static milliseconds draw(const Spells& spells, Random& random);

  Engine& engine_;
  const MarketTerms& terms_;
  std::array<Zone, kZones> zones_;
  int shut_count_ = 0;
};

}  // namespace pawl::sim
