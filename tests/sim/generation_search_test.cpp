// The rules of launcher/membership/generations.h under every order of events, and what breaks
// without each of them. The full bounds run with `pawl-sim --generations` (./dev test --long).
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include "common/base/mutant.h"
#include "tests/sim/generation_search.h"

using namespace pawl;
using namespace pawl::sim;

namespace {

std::string story_of(const SearchResult& result) {
  std::string story = result.violation;
  for (const std::string& event : result.history) story += "\n  " + event;
  return story;
}

}  // namespace

TEST_CASE("generations: no order of events loses a confirmed step", "[sim][B36]") {
  const SearchBounds bounds = GENERATE(
      SearchBounds{.founders = 3, .generations = 2, .launcher_crashes = 1},
      SearchBounds{.founders = 2, .generations = 3, .launcher_crashes = 0},
      SearchBounds{.founders = 2, .generations = 2, .launcher_crashes = 0, .process_crashes = 1});
  const SearchResult result = search_generations(bounds);
  CHECK(story_of(result) == "");
  CHECK(result.is_complete);
  CHECK(result.states > 1'000);
}

TEST_CASE("generations: without any one of the rules a step is lost", "[sim][B36]") {
  const Mutant mutant = GENERATE(Mutant::kB36NoPromise, Mutant::kB36HighestStep,
                                 Mutant::kB36HollowUnproven, Mutant::kB36SilentIsEmpty);
  active_mutant = mutant;
  const SearchResult result = search_generations(
      {.founders = 2, .generations = 3, .launcher_crashes = 0, .process_crashes = 1});
  active_mutant = Mutant::kNone;
  CAPTURE(static_cast<int>(mutant), story_of(result));
  CHECK(result.violation != "");
}
