#include "cli/text.h"

#include <catch2/catch_test_macros.hpp>

using namespace pawl;
using namespace pawl::cli;

TEST_CASE("text: durations are short", "[cli]") {
  CHECK(format_seconds(-1) == "0s");
  CHECK(format_seconds(59) == "59s");
  CHECK(format_seconds(61) == "1m01s");
  CHECK(format_seconds(4985) == "1h23m");
  CHECK(format_seconds(7260) == "2h01m");
  CHECK(format_seconds(90'000) == "1d01h");
  const TimePoint now{std::chrono::seconds{1000}};
  CHECK(age_text(now - std::chrono::milliseconds{1500}, now) == "1s");
  CHECK(age_text({}, now) == "-");
}

TEST_CASE("text: numbers keep what people read", "[cli]") {
  CHECK(short_number("12345.6") == "12346");
  CHECK(short_number("1.23456") == "1.23");
  CHECK(short_number("fast") == "fast");
  CHECK(loss_text("2.81") == "2.8100");
  CHECK(loss_text("") == "-");
  CHECK(format_bytes(0) == "0 B");
  CHECK(format_bytes(1536) == "1.5 KiB");
  CHECK(format_bytes(5'368'709'120) == "5.0 GiB");
  CHECK(count_text(1, "pod") == "1 pod");
  CHECK(count_text(0, "pod") == "0 pods");
}

TEST_CASE("text: columns stand below each other, also below letters of several bytes", "[cli]") {
  CHECK(format_table({{"NAME", "A"}, {"käse", "1"}, {"x", "2"}}, " ") ==
        " NAME  A\n käse  1\n x     2\n");
  CHECK(format_table({}).empty());
}
