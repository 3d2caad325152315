// What must hold of the simulator itself.
#include <catch2/catch_test_macros.hpp>

#include "tests/sim/mutants.h"
#include "tests/sim/stories.h"

using namespace pawl::sim;

TEST_CASE("sim: the same seed is the same run", "[sim]") {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    const RunResult first = run_seed(seed, false);
    const RunResult second = run_seed(seed, false);
    CHECK(first.hash == second.hash);
    CHECK(first.events == second.events);
  }
  CHECK(run_seed(1, false).hash != run_seed(2, false).hash);
}

TEST_CASE("sim: a run is the same whether or not its story is kept", "[sim]") {
  const RunResult silent = run_seed(3, false);
  const RunResult told = run_seed(3, true);
  CHECK(silent.hash == told.hash);
  CHECK(silent.trace.empty());
  CHECK(!told.trace.empty());
}

TEST_CASE("sim: every scenario ends well without a fault", "[sim]") {
  for (const Story& story : stories()) {
    INFO(story.name);
    const RunResult result = run_experiment({story.name, Blow::kNone, 0}, false);
    const std::string why =
        result.failure ? result.failure->oracle + ": " + result.failure->message : "";
    CHECK(why == "");
    CHECK(result.operator_writes > 0);
  }
}

TEST_CASE("sim: a known bug is caught, and the code as it is passes the same seeds", "[sim]") {
  CHECK(hunt(pawl::Mutant::kB04DoubleCount, 1, 200, false).is_killed);
  CHECK(!hunt(pawl::Mutant::kNone, 1, 20, false).is_killed);
}

TEST_CASE("sim: an experiment is named as --scenario takes it", "[sim]") {
  Experiment read;
  REQUIRE(parse_experiment("suspend:crash-after:12", read));
  CHECK(read.story == "suspend");
  CHECK(read.blow == Blow::kCrashAfter);
  CHECK(read.at == 12);
  CHECK(read.text() == "suspend:crash-after:12");
  CHECK(!parse_experiment("suspend:nothing:1", read));
}
