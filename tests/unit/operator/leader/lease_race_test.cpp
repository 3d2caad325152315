// Random lives of two and three candidates: at no instant do two of them lead (the world checks
// it), and when the faults end one of them does.
#include <catch2/catch_test_macros.hpp>

#include "tests/unit/operator/leader/lease_world.h"

using namespace pawl;
using namespace pawl::test;

namespace {

// How bad this life is; drawn once, some faults are absent in some lives.
struct Weather {
  std::uint64_t lost, refused, slow, stop, kill, watch, release, clock;

  explicit Weather(Random& random) {
    const auto rate = [&](std::uint64_t most) { return random.one_in(3) ? 0 : random.below(most); };
    lost = rate(40);
    refused = rate(40);
    slow = rate(60);
    stop = rate(12);
    kill = rate(8);
    watch = rate(20);
    release = rate(8);
    clock = rate(20);
  }
};

bool happens(Random& random, std::uint64_t percent) { return random.below(100) < percent; }

Passage draw_passage(Random& random, const Weather& weather) {
  Passage way;
  way.there = milliseconds{1 + random.below(30)};
  way.back = milliseconds{1 + random.below(30)};
  way.is_refused = happens(random, weather.refused);
  way.is_lost_back = happens(random, weather.lost);
  way.is_lost_there = happens(random, weather.lost);
  // Up to far beyond the time-out: applied when its sender has long given up.
  if (happens(random, weather.slow)) way.there = milliseconds{random.below(20'000)};
  return way;
}

void disturb(LeaseWorld& world, Random& random, const Weather& weather) {
  for (std::size_t i = 0; i < world.candidates.size(); ++i) {
    auto& candidate = *world.candidates[i];
    if (happens(random, weather.stop)) {
      candidate.stopped_until = world.clock.steady_now() + milliseconds{random.below(25'000)};
    }
    if (happens(random, weather.watch)) candidate.is_watching = !candidate.is_watching;
    if (happens(random, weather.clock)) {
      candidate.wall_offset = seconds{static_cast<int>(random.below(100'000)) - 50'000};
    }
    const bool goes = happens(random, weather.release);
    if (goes) candidate.machine->release("1/2/3");
    const bool is_gone = candidate.machine->is_released() || happens(random, weather.kill);
    if (!is_gone) continue;
    world.kill(i);
    world.add();
  }
}

}  // namespace

TEST_CASE("lease: never two leaders, whatever happens, and one in the end", "[leader][B21][O9]") {
  int terms = 0;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    INFO("seed " << seed);
    Random random{seed};
    const Weather weather(random);
    LeaseWorld world(random.one_in(2) ? 2 : 3, seed);
    world.passage = [&](const LeaseWorld::Candidate&, const kube::HttpRequest&) {
      return draw_passage(random, weather);
    };
    for (int i = 0; i < 60; ++i) {
      disturb(world, random, weather);
      world.run(milliseconds{2'000}, milliseconds{20});
    }
    world.passage = nullptr;
    for (const auto& candidate : world.candidates) {
      candidate->stopped_until = SteadyPoint::min();
      candidate->is_watching = true;
    }
    // Whoever is leaving may take the lease once more before it is gone.
    world.run(seconds{60}, milliseconds{20});
    for (std::size_t i = world.candidates.size(); i-- > 0;) {
      if (world.candidates[i]->machine->is_released()) world.kill(i);
    }
    if (world.candidates.empty()) world.add();
    world.run(seconds{20}, milliseconds{20});
    REQUIRE(world.leader() != nullptr);
    const std::string name = world.leader()->identity;
    world.run(seconds{60}, milliseconds{20});
    REQUIRE(world.leader() != nullptr);
    CHECK(world.leader()->identity == name);
    CHECK(world.lease()["spec"]["holderIdentity"] == name);
    terms += static_cast<int>(world.lease()["spec"]["leaseTransitions"]);
  }
  CHECK(terms > 150);  // the lives were eventful
}
