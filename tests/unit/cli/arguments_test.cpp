#include "cli/arguments.h"

#include <catch2/catch_test_macros.hpp>

using namespace pawl;
using namespace pawl::cli;

namespace {
const std::vector<Flag> kFlags = {{"--namespace", "-n"}, {"--all", "-A", false}, {"--rank"}};
}

TEST_CASE("arguments: every way to write a flag means the same", "[cli]") {
  for (const std::vector<std::string>& given : {std::vector<std::string>{"job", "-n", "a", "-A"},
                                                {"-na", "--all", "job"},
                                                {"--namespace=a", "job", "-A"},
                                                {"-n=a", "-A", "job"},
                                                {"--namespace", "a", "-A", "--", "job"}}) {
    const auto parsed = Arguments::parse(given, kFlags);
    REQUIRE(parsed);
    CHECK(parsed->words() == std::vector<std::string>{"job"});
    CHECK(parsed->value("--namespace") == "a");
    CHECK(parsed->has("--all"));
    CHECK_FALSE(parsed->has("--rank"));
  }
  CHECK(Arguments::parse({"-"}, kFlags)->words() == std::vector<std::string>{"-"});
}

TEST_CASE("arguments: what is wrong is named", "[cli]") {
  const auto message = [](const std::vector<std::string>& given) {
    const auto parsed = Arguments::parse(given, kFlags);
    return parsed ? "" : parsed.error().message;
  };
  CHECK(message({"--nope"}) == "unknown option --nope");
  CHECK(message({"-x"}) == "unknown option -x");
  CHECK(message({"-Ax"}) == "unknown option -Ax");
  CHECK(message({"-n"}) == "--namespace needs a value");
  CHECK(message({"--namespace="}) == "--namespace needs a value");
  CHECK(message({"-na", "-nb"}) == "--namespace is given twice");
  CHECK(message({"--all=yes"}) == "--all takes no value");

  const auto parsed = Arguments::parse({"--rank", "12"}, kFlags);
  CHECK(parsed->number("--rank", 100).value() == 12);
  CHECK_FALSE(parsed->number("--rank", 11));
  CHECK_FALSE(Arguments::parse({"--rank", "1x"}, kFlags)->number("--rank", 100));
  CHECK_FALSE(Arguments::parse({"--rank=-1"}, kFlags)->number("--rank", 100));
}
