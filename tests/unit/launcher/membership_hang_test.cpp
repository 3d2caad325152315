// A process that neither goes on nor ends is found by its pulse, named, killed and replaced; who
// waits for it is not.
#include <catch2/catch_test_macros.hpp>
#include <chrono>

#include "common/api/contract.h"
#include "gang_world.h"

using namespace pawl;
using namespace pawl::membership;
using namespace pawl::membership::test;
using namespace std::chrono_literals;
using api::Phase;

namespace {

constexpr std::chrono::milliseconds kLook{100};

// What a launcher sees of its processes while time passes: with a beat at each look, or without.
struct Watched {
  GangWorld world = GangWorld::training();
  std::uint64_t beats = 1;

  void pass(std::size_t node, ProcessPulse pulse, std::chrono::milliseconds time, bool moves) {
    for (auto end = world.clock.steady_now() + time; world.clock.steady_now() < end;) {
      if (moves) ++beats;
      pulse.beats = beats;
      world.give(node, Tick{{pulse}});
      world.pass(kLook);
    }
  }
};

const std::string& killed_why(const GangWorld& world, std::size_t node) {
  REQUIRE(!world.node(node).terminations.empty());
  return world.node(node).terminations.back().message;
}

}  // namespace

TEST_CASE("hang: a process that does not move is killed and replaced in place, and named",
          "[launcher][G3]") {
  Watched it;
  const ProcessPulse forward{.phase = Phase::kForward, .step = 11, .usual = 20ms};
  it.pass(2, forward, 3s, true);
  CHECK(it.world.node(2).kills == 0);
  it.pass(2, forward, 4'800ms, false);
  CHECK(it.world.node(2).kills == 0);
  it.pass(2, forward, 400ms, false);
  REQUIRE(it.world.node(2).kills == 1);
  it.pass(2, forward, 1s, false);
  CHECK(it.world.node(2).kills == 1);
  it.world.exit_process(2, 137, 9);
  it.world.settle();
  REQUIRE(it.world.status().failures.empty());  // told with the next generation
  CHECK(it.world.node(2).replacements == 1);
  it.world.park(0, 10);
  it.world.park(1, 10);
  it.world.come_up(2);
  it.world.pass(200ms);
  CHECK(it.world.status().generation == 2);
  REQUIRE(it.world.status().failures.size() == 1);
  const api::Failure& failure = it.world.status().failures[0];
  CHECK(failure.cause == "Hang");
  CHECK(failure.rank == 2);
  CHECK(failure.pod == "pod-2");
  CHECK(failure.message ==
        "killed, because it has not moved for 5 s in phase forward of step 11 (99 of 100 times "
        "it does within 0.02 s)");
  CHECK_FALSE(it.world.node(0).was_stopped);
}

TEST_CASE("hang: how long nothing may move depends on the phase", "[launcher]") {
  Watched it;
  SECTION("five times what is usual there") {
    const ProcessPulse slow{.phase = Phase::kBackward, .usual = 2s};
    it.pass(1, slow, 9'800ms, false);
    CHECK(it.world.node(1).kills == 0);
    it.pass(1, slow, 400ms, false);
    CHECK(it.world.node(1).kills == 1);
  }
  SECTION("ten minutes where nothing is known yet") {
    const ProcessPulse first{.phase = Phase::kForward};
    it.pass(1, first, 598s, false);
    CHECK(it.world.node(1).kills == 0);
    it.pass(1, first, 3s, false);
    CHECK(it.world.node(1).kills == 1);
  }
  SECTION("two minutes where storage may hold up all of them") {
    const ProcessPulse data{.phase = Phase::kData, .usual = 1ms};
    it.pass(1, data, 119s, false);
    CHECK(it.world.node(1).kills == 0);
    it.pass(1, data, 2s, false);
    CHECK(it.world.node(1).kills == 1);
  }
  SECTION("for ever while it ends: it may write its core") {
    it.pass(1, {.state = RunState::kEnds, .phase = Phase::kForward, .usual = 1ms}, 1h, false);
    CHECK(it.world.node(1).kills == 0);
  }
  SECTION("for ever while it waits for storage, output or us") {
    it.pass(1, {.phase = Phase::kOther, .usual = 1ms}, 1h, false);
    CHECK(it.world.node(1).kills == 0);
  }
  SECTION("for ever while it waits for others, and beats") {
    it.pass(1, {.phase = Phase::kReduce, .usual = 100ms}, 1h, true);
    CHECK(it.world.node(1).kills == 0);
  }
  SECTION("for ever where the program does not use the page") {
    it.beats = 0;
    it.pass(1, {.phase = Phase::kOther}, 1h, false);
    CHECK(it.world.node(1).kills == 0);
  }
}

TEST_CASE("hang: one that was stopped by a signal is found in every phase, one in a debugger never",
          "[launcher]") {
  Watched it;
  SECTION("stopped") {
    it.beats = 0;
    it.pass(1, {.state = RunState::kStopped}, 1'400ms, false);
    CHECK(it.world.node(1).kills == 0);
    it.pass(1, {.state = RunState::kStopped}, 300ms, false);
    CHECK(it.world.node(1).kills == 1);
  }
  SECTION("stopped again and again for a moment") {
    for (int i = 0; i < 20; ++i) {
      it.pass(1, {.state = RunState::kStopped, .phase = Phase::kForward, .usual = 1s}, 1s, false);
      it.pass(1, {.phase = Phase::kForward, .usual = 1s}, 100ms, true);
    }
    CHECK(it.world.node(1).kills == 0);
  }
  SECTION("in a debugger") {
    it.pass(1, {.state = RunState::kTraced, .phase = Phase::kForward, .usual = 1ms}, 1h, false);
    CHECK(it.world.node(1).kills == 0);
  }
}

TEST_CASE("hang: our own pause is not taken for theirs", "[launcher]") {
  Watched it;
  const ProcessPulse forward{.phase = Phase::kForward, .usual = 20ms};
  it.pass(1, forward, 1s, true);
  it.world.clock.advance(60s);
  it.pass(1, forward, 4'500ms, false);
  CHECK(it.world.node(1).kills == 0);
}

TEST_CASE("hang: where nobody may take its place the attempt ends with the cause Hang",
          "[launcher]") {
  GangWorld world({.launchers = 2, .is_in_place = false});
  world.run_to_training();
  world.report(10);
  const ProcessPulse forward{.beats = 5, .phase = Phase::kForward, .step = 11, .usual = 20ms};
  for (int i = 0; i < 100 && world.node(1).kills == 0; ++i) {
    world.give(1, Tick{{forward}});
    world.pass(kLook);
  }
  REQUIRE(world.node(1).kills == 1);
  world.exit_process(1, 137, 9);
  world.pass(2s);
  CHECK(killed_why(world, 1).find("killed, because it has not moved for") == 0);
  CHECK(world.node(1).terminations.back().cause == "Hang");
  REQUIRE(world.status().failures.size() == 1);
  CHECK(world.status().failures[0].cause == "Hang");
  CHECK(world.node(0).was_stopped);
}

TEST_CASE("hang: what ended in another way just before is told as that", "[launcher]") {
  Watched it;
  it.pass(2, {.phase = Phase::kForward, .usual = 20ms}, 6s, false);
  REQUIRE(it.world.node(2).kills == 1);
  const auto told = [&] {
    for (const Node& node : it.world.nodes) {
      for (const std::string& note : node.notes) {
        if (note.find("process_lost") == 0 || note.find("process_failed") == 0) return note;
      }
    }
    return std::string{};
  };
  SECTION("a crash") {
    it.world.exit_process(2, 139, 11);
    it.world.settle();
    CHECK(told().find("rank 2 was killed by signal 11") != std::string::npos);
  }
  SECTION("out of memory") {
    it.world.give(2, ProcessExited{.exit_code = 137, .signal = 9, .is_out_of_memory = true});
    it.world.pass(2s);
    REQUIRE(it.world.status().failures.size() == 1);
    CHECK(it.world.status().failures[0].cause == "OOM");
  }
}

TEST_CASE("hang: a process that does not even end when it is killed ends the attempt, and is named",
          "[launcher]") {
  Watched it;
  const ProcessPulse forward{.phase = Phase::kForward, .step = 11, .usual = 20ms};
  it.pass(2, forward, 6s, false);
  REQUIRE(it.world.node(2).kills == 1);
  it.pass(2, forward, 6s, false);
  CHECK(it.world.node(2).kills == 1);
  REQUIRE(it.world.status().failures.size() == 1);
  CHECK(it.world.status().failures[0].cause == "Hang");
  CHECK(it.world.status().failures[0].message.find("phase forward of step 11") !=
        std::string::npos);
  CHECK(it.world.status().failures[0].message.find("it does not end") != std::string::npos);
  CHECK(it.world.node(0).was_stopped);
}

TEST_CASE("hang: a process in a debugger is not killed because its gang changes", "[launcher]") {
  Watched it;
  it.pass(2, {.state = RunState::kTraced, .phase = Phase::kForward, .usual = 20ms}, 1s, false);
  it.world.exit_process(1, 137, 9);
  it.world.pass(100s);
  CHECK(it.world.node(2).kills == 0);
}
