// The market itself: that what it counts and whom it serves is what docs/spot.md says.
#include <catch2/catch_test_macros.hpp>

#include "common/base/json.h"
#include "tests/sim/market.h"

using namespace pawl::sim;
using nlohmann::json;

namespace {

json pod_with(const char* kind, const char* relation) {
  const json term = {{"matchExpressions", json::array({{{"key", kSpotLabel},
                                                        {"operator", relation},
                                                        {"values", json::array({"spot"})}}})}};
  const json terms = std::string(kind) == "required"
                         ? json{{"requiredDuringSchedulingIgnoredDuringExecution",
                                 {{"nodeSelectorTerms", json::array({term})}}}}
                         : json{{"preferredDuringSchedulingIgnoredDuringExecution",
                                 json::array({{{"weight", 40}, {"preference", term}}})}};
  return {{"spec", {{"affinity", {{"nodeAffinity", terms}}}}}};
}

json run(const std::string& text, int days, std::uint64_t seed) {
  MarketRun options;
  REQUIRE(parse_market(text, options));
  options.days = days;
  options.seed = seed;
  const MarketResult result = run_market(options);
  const std::string why =
      result.failure ? result.failure->oracle + ": " + result.failure->message : "";
  CHECK(why == "");
  return pawl::parse_json(result.line);
}

}  // namespace

TEST_CASE("market: a run is named as --market takes it", "[sim]") {
  MarketRun read;
  REQUIRE(parse_market("trace:75:restart-all:fallback", read));
  CHECK(read.on_demand_min() == 4);
  CHECK(read.policy == MarketPolicy::kRestartAll);
  CHECK(read.falls_back);
  REQUIRE(parse_market("hourly:100:elastic", read));
  CHECK(read.on_demand_min() == 1);
  CHECK(!read.falls_back);
  for (const char* wrong : {"", "trace", "trace:75", "trace:80:elastic", "moon:75:elastic",
                            "trace:75:all", "trace:75:elastic:x", "trace:75:elastic:fallback:x"}) {
    INFO(wrong);
    CHECK(!parse_market(wrong, read));
  }
}

TEST_CASE("market: losses come as often as the published figure says", "[sim]") {
  const MarketTerms& hourly = *find_market("hourly");
  CHECK(hourly.minutes_between_losses(0) == 0);
  CHECK(hourly.minutes_between_losses(1) == 600);  // 10 % an hour
  CHECK(find_market("advisor")->minutes_between_losses(1) == 100 * 24 * 60);
  CHECK(find_market("trace")->minutes_between_losses(15) ==
        find_market("trace")->minutes_between_losses(1));
}

TEST_CASE("market: a pod's affinity decides on which machines it may be", "[sim]") {
  const json anchor = pod_with("required", "NotIn");
  CHECK(!may_run(anchor, true));
  CHECK(may_run(anchor, false));
  CHECK(!may_run(pod_with("required", "In"), false));
  const json other = pod_with("preferred", "In");
  CHECK(may_run(other, true));
  CHECK(may_run(other, false));
  CHECK(liking(other, true) == 40);
  CHECK(liking(other, false) == 0);
  CHECK(liking(pod_with("preferred", "NotIn"), false) == 40);
  CHECK(may_run(json::object(), true));
}

TEST_CASE("market: the same seed is the same market", "[sim]") {
  const json first = run("hourly:100:elastic", 1, 7);
  CHECK(first == run("hourly:100:elastic", 1, 7));
  CHECK(first != run("hourly:100:elastic", 1, 8));
}

TEST_CASE("market: nobody is taken where nobody is on spot, and all is paid for", "[sim]") {
  const json calm = run("trace:0:elastic", 1, 1);
  CHECK(calm["is_complete"] == true);
  CHECK(calm["interruptions"] == 0);
  CHECK(calm["spot_hours"] == 0);
  CHECK(calm["on_demand_hours"].get<double>() >= 16 * calm["hours_undisturbed"].get<double>());
  CHECK(calm["machines"] == 16);
}

TEST_CASE("market: a gang outlives what the market takes, on its leader's machine", "[sim]") {
  const json spot = run("hourly:100:elastic", 2, 2);
  CHECK(spot["interruptions"] > 0);
  CHECK(spot["is_complete"] == true);
  CHECK(spot["attempts"] == 1);
  CHECK(spot["counted"] == 0);
  CHECK(spot["on_demand_hours"].get<double>() < 2 * spot["hours"].get<double>());
}
