// What must hold of the simulator itself.
#include <catch2/catch_test_macros.hpp>

#include "common/base/json.h"
#include "tests/sim/mutants.h"
#include "tests/sim/stories.h"
#include "tests/sim/tenants.h"

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

TEST_CASE("sim: a gang and its members get pods without nodes, and do not wait for ever",
          "[sim][I52]") {
  RunResult result = run_experiment({"by-pods", Blow::kNone, 0}, false);
  CHECK(result.faults["gang without nodes"] == 1);
  CHECK(result.faults["member without a node"] == 1);
  result = run_experiment({"by-pods-too-late", Blow::kNone, 0}, false);
  CHECK(result.faults["nodes did not come"] >= 1);
}

namespace {

// How long a gang that needs all machines waits while small jobs come for ever, of which two always
// wait, too; nothing: for ten minutes at least.
std::optional<seconds> wait_beside_stream(seconds reserve_after, std::uint64_t seed) {
  Knobs knobs = calm_knobs();
  knobs.places = true;
  knobs.nodes = 4;
  knobs.pods_per_node = 1;
  knobs.reserve_after = reserve_after;
  World world(seed, knobs, false);
  world.training.fixed = Course{10, 5, seconds{2}};
  std::optional<seconds> waited;
  const auto job = [](int replicas) {
    const nlohmann::json container = {{"name", "worker"}, {"image", "i"}, {"command", {"/train"}}};
    return nlohmann::json{
        {"replicas", replicas},
        {"runtime", {{"kind", "Custom"}}},
        {"template", {{"spec", {{"containers", nlohmann::json::array({container})}}}}}};
  };
  const auto phase = [&](const std::string& name) {
    const auto found = world.api.find(pawl::kube::resources::kTrainingJobs, name);
    return found == nullptr ? "" : text_at_pointer(*found, "/status/phase");
  };
  const RunResult result = world.run([&](World&) {
    std::vector<std::string> waiting;
    for (int second = 0, next = 0; second < 600 && !waited; ++second) {
      std::erase_if(waiting, [&](const auto& name) { return phase(name) == "Running"; });
      for (; waiting.size() < 2; ++next) {
        waiting.push_back("small-" + std::to_string(next));
        world.people.create_job(waiting.back(), job(1));
      }
      if (second == 60) world.people.create_job("large", job(4));
      world.pass(seconds{1});
      if (phase("large") == "Running") waited = seconds{second - 60};
    }
  });
  CHECK_FALSE(result.failure);
  return waited;
}

}  // namespace

TEST_CASE("sim: small jobs that come for ever do not keep a large one waiting", "[sim][I43]") {
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    INFO("seed " << seed);
    const auto waited = wait_beside_stream(seconds{60}, seed);
    REQUIRE(waited);
    CHECK(*waited <=
          seconds{60 + 20 + 15});  // a small one's run, and what it takes to begin and end
    CHECK_FALSE(wait_beside_stream(seconds{100'000}, seed));  // nothing is kept
  }
}

TEST_CASE("sim: a known bug is caught, and the code as it is passes the same seeds", "[sim]") {
  CHECK(hunt(pawl::Mutant::kB04DoubleCount, 1, 200, false).is_killed);
  CHECK(!hunt(pawl::Mutant::kNone, 1, 20, false).is_killed);
}

TEST_CASE("sim: bugs that seeds seldom show are seen in their stories", "[sim][I51][I52][I53]") {
  const std::pair<pawl::Mutant, const char*> known[] = {
      {pawl::Mutant::kI51RanksBySlot, "dealt-anew"},
      {pawl::Mutant::kI52ForEver, "by-pods-too-late"},
      {pawl::Mutant::kI53TornSlice, "torn-slice"}};
  for (const auto& [mutant, story] : known) {
    INFO(story);
    pawl::active_mutant = mutant;
    CHECK(run_experiment({story, Blow::kNone, 0}, false).failure);
    pawl::active_mutant = pawl::Mutant::kNone;
  }
}

namespace {

// The first of these clusters that fails; 0: none does.
std::uint64_t first_unfair(pawl::Mutant mutant, std::uint64_t seeds) {
  pawl::active_mutant = mutant;
  std::uint64_t seed = 1;
  while (seed <= seeds && !run_tenants(seed, false).failure) ++seed;
  pawl::active_mutant = pawl::Mutant::kNone;
  return seed <= seeds ? seed : 0;
}

}  // namespace

TEST_CASE("sim: a queue that does not get what is its own is seen", "[sim][O14]") {
  CHECK(first_unfair(pawl::Mutant::kO14ClaimedByAll, 2'000) > 0);
  CHECK(first_unfair(pawl::Mutant::kNone, 2'000) == 0);
  const RunResult told = run_tenants(7, true);
  CHECK(told.hash == run_tenants(7, false).hash);
  CHECK_FALSE(told.trace.empty());
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
