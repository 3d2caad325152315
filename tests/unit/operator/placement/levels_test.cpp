#include <catch2/catch_test_macros.hpp>

#include "operator/placement/levels.h"

using namespace pawl;
using placement::Levels;

TEST_CASE("levels: names, keys and machines have a depth", "[placement]") {
  const Levels levels = Levels::parse("block=example.com/block,example.com/rack").value();
  CHECK(levels.labels() == std::vector<std::string>{"example.com/block", "example.com/rack"});
  CHECK(levels.depth_of("block") == 1);
  CHECK(levels.depth_of("example.com/block") == 1);
  CHECK(levels.depth_of("example.com/rack") == 2);
  CHECK(levels.depth_of("host") == 3);
  CHECK(levels.depth_of("kubernetes.io/hostname") == 3);
  CHECK_FALSE(levels.depth_of("rack"));
  CHECK(levels.name_at(0).empty());
  CHECK(levels.name_at(1) == "block");
  CHECK(levels.name_at(2) == "example.com/rack");
  CHECK(levels.name_at(3) == "host");
}

TEST_CASE("levels: without any there are machines", "[placement]") {
  const Levels levels = Levels::parse("nodes").value();
  CHECK(levels.labels().empty());
  CHECK(levels.depth_of("host") == 1);
}

TEST_CASE("levels: what cannot be meant is refused", "[placement]") {
  for (const char* text : {"", "a b", "rack=", "=key", "a,,b", "a,a", "x=a,x=b", "x=a,a",
                           "host=example.com/host", "kubernetes.io/hostname", "Rack=key"}) {
    INFO(text);
    CHECK_FALSE(Levels::parse(text));
  }
}
