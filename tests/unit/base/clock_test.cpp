#include "common/base/clock.h"

#include <catch2/catch_test_macros.hpp>

using namespace pawl;

TEST_CASE("clock: times survive formatting and parsing", "[base]") {
  const TimePoint time{std::chrono::milliseconds{1'795'255'445'120}};
  const std::string seconds = format_time(time);
  CHECK(seconds == "2026-11-21T10:04:05Z");
  CHECK(parse_time(seconds).value() == std::chrono::floor<std::chrono::seconds>(time));
  CHECK(parse_time(format_micro_time(time)).value() == time);
}

TEST_CASE("clock: text that is no UTC time is refused", "[base]") {
  for (const char* text :
       {"", "yesterday", "2026-13-01T00:00:00Z", "2026-11-21T10:04:05", "2026-11-21T10:04:05+01:00",
        "2026-11-21T25:04:05Z", "2026-02-30T00:00:00Z"}) {
    INFO(text);
    CHECK_FALSE(parse_time(text).has_value());
  }
}
