#include "common/base/log.h"

#include <catch2/catch_test_macros.hpp>

using namespace pawl;

TEST_CASE("log: a line is one JSON object whatever the text holds", "[base]") {
  FakeClock clock;
  std::string out;
  Log log{clock, [&](std::string_view line) { out += line; }};
  log.info("job_started", {{"job", "a\"b\nc"}, {"attempt", 3}});
  CHECK(out.ends_with("\"event\":\"job_started\",\"job\":\"a\\\"b\\nc\",\"attempt\":3}\n"));
  out.clear();
  log.debug("hidden");
  CHECK(out.empty());
}

TEST_CASE("log: bytes that are no UTF-8 become the replacement character", "[base]") {
  CHECK(json_quote("a\xff") == "\"a\xef\xbf\xbd\"");
  CHECK(json_quote("\xc3\xa4") == "\"\xc3\xa4\"");
  CHECK(json_quote("\xed\xa0\x80") == "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"");
  CHECK(json_quote(std::string_view{"\x01", 1}) == "\"\\u0001\"");
}
