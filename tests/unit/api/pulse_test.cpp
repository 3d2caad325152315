#include "common/api/pulse.h"

#include <catch2/catch_test_macros.hpp>
#include <chrono>

using namespace pawl::api;
using namespace std::chrono_literals;

TEST_CASE("pulse: what is usual is what 99 of 100 times stay below, phase by phase", "[api]") {
  PulsePage page{};
  CHECK(usual_time(page, Phase::kForward) == 0us);
  for (int i = 0; i < 99; ++i) count_time(page, Phase::kForward, 1'000us);
  CHECK(usual_time(page, Phase::kForward) == 1'024us);
  count_time(page, Phase::kForward, 3s);  // one in a hundred says nothing
  CHECK(usual_time(page, Phase::kForward) == 1'024us);
  count_time(page, Phase::kForward, 3s);
  CHECK(usual_time(page, Phase::kForward) == 4'194'304us);
  CHECK(usual_time(page, Phase::kBackward) == 0us);
}

TEST_CASE("pulse: times of every length have a place", "[api]") {
  PulsePage page{};
  count_time(page, Phase::kData, -1s);  // a clock that ran back
  CHECK(usual_time(page, Phase::kData) == 1us);
  for (const auto time : {0ns, 999ns, 1'000ns}) count_time(page, Phase::kOptimizer, time);
  CHECK(usual_time(page, Phase::kOptimizer) == 2us);
  count_time(page, Phase::kSnapshot, std::chrono::hours{24 * 365 * 100});
  CHECK(usual_time(page, Phase::kSnapshot) > std::chrono::hours{24});
  for (int i = 0; i < 5; ++i) count_time(page, Phase::kOptimizer, 1h);  // a debugger
  CHECK(usual_time(page, Phase::kOptimizer) == 2us);
  CHECK(usual_time(page, static_cast<Phase>(99)) == 0us);  // of a newer program
  CHECK(phase_name(static_cast<Phase>(99)) == std::string{"other"});
  CHECK(phase_name(Phase::kValidate) == std::string{"validate"});
}
