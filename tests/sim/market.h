// A spot market, and an autoscaler that buys from it for one long training job: machines come some
// minutes after a pod has no place, are taken back when the market says so, and are given back when
// they are empty; each is paid for from its order to its end. Who trains on them is the rest of the
// simulator: the production operator and launchers. docs/spot.md has the model. One thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tests/sim/market_zones.h"
#include "tests/sim/world.h"

namespace pawl::sim {

enum class MarketPolicy { kElastic, kRestartAll };

struct MarketRun {
  const MarketTerms* terms = nullptr;
  int share = 100;  // of the workers that may be on spot; the leader never is
  MarketPolicy policy = MarketPolicy::kElastic;
  bool falls_back = false;  // the autoscaler buys on demand what spot does not have
  int days = 30;            // at most; without a disturbance two thirds of them are enough
  std::uint64_t seed = 1;
  int on_demand_min() const;
};
// "trace:75:elastic", "hourly:100:restart-all:fallback"
bool parse_market(const std::string& text, MarketRun& out);

struct MarketBill {
  milliseconds on_demand{0}, spot{0};  // machine time
  int bought = 0, interrupted = 0;
};

class Market {
 public:
  Market(World& world, const MarketRun& run);
  void begin();
  MarketBill bill() const;  // until now
  int zones_shut() const { return zones_.shut_count(); }

 private:
  enum class Purpose { kAnchor, kSpot, kFallback };
  struct Machine {
    std::string name;
    bool is_spot = false;
    int zone = -1;
    milliseconds from{0};
    std::optional<milliseconds> until;  // it is gone then
    std::optional<milliseconds> empty_since;
    bool was_used = false;
  };
  struct Order {
    Purpose purpose = Purpose::kSpot;
    int zone = -1;
    milliseconds at{0};
  };
  void scan();
  void serve(int anchors, const std::vector<local::Object>& others);
  int unused(bool is_spot) const;
  void give_back_empty();
  bool has_waited(const local::Object& pod);
  int ordered(Purpose purpose) const;
  void buy(Purpose purpose, int zone);
  void deliver(int number);
  void shut(int zone);
  void take_one_by_one();
  void reclaim(int number);
  void end(int number);

  World& world_;
  const MarketRun run_;
  Zones zones_;
  std::map<int, Machine> machines_;  // that are paid for
  MarketBill past_;                  // of the others
  std::map<int, Order> orders_;
  std::map<std::string, milliseconds> waits_since_;  // by pod
  int count_ = 0;
};

struct MarketResult {
  std::optional<Failure> failure;
  std::string line;  // JSON
};
MarketResult run_market(const MarketRun& run);

}  // namespace pawl::sim
