// Gangs of other frameworks' programs: after a loss all of them are started again, in the pods that
// stay, and nobody is blamed for what the loss of a peer did to it.
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <chrono>
#include <csignal>

#include "common/api/contract.h"
#include "gang_world.h"

using namespace pawl;
using namespace pawl::membership;
using namespace pawl::membership::test;
using namespace std::chrono_literals;

namespace {

constexpr int kTerm = 128 + SIGTERM;

GangWorld running(int launchers = 3, int processes = 1) {
  GangWorld world({.launchers = launchers,
                   .processes = processes,
                   .runtime = api::RuntimeKind::kTorch,
                   .has_checkpoints = false});
  world.run_to_training();
  return world;
}

void kill(GangWorld& world, std::size_t node) { world.exit_process(node, 128 + SIGKILL, SIGKILL); }

bool has_ended(const GangWorld& world, std::size_t node) {
  return world.node(node).exit_code.has_value();
}

}  // namespace

TEST_CASE("foreign: one is killed, all are started again in the same attempt", "[launcher]") {
  GangWorld world = running();
  CHECK(world.node(1).starts == 1);
  kill(world, 2);
  CHECK(world.node(0).was_stopped);
  CHECK(world.node(1).was_stopped);
  CHECK(world.node(1).stop_grace == 5s);
  CHECK(world.status().generation == 1);  // not beside those that are still there
  world.obey_stops(kTerm);
  world.pass(100ms);
  CHECK(world.status().generation == 2);
  CHECK(world.status().attempt == 1);
  CHECK(world.members() == std::vector<std::string>{"uid-0", "uid-1", "uid-2"});
  for (std::size_t i = 0; i < 3; ++i) {
    INFO("member " << i);
    CHECK(world.node(i).starts == 2);
    CHECK(world.node(i).replacements == 0);
    REQUIRE(world.node(i).placement.has_value());
    CHECK(world.node(i).placement->generation == 2);
    CHECK_FALSE(has_ended(world, i));
  }
  REQUIRE(world.status().failures.size() == 1);
  CHECK(world.status().failures[0].cause == "Signal");
  CHECK(world.status().failures[0].generation == 1);
}

TEST_CASE("foreign: what the loss of a peer does to the others is no failure of theirs",
          "[launcher]") {
  GangWorld world = running();
  SECTION("told before the loss itself") {
    world.exit_process(0, 1);
    world.exit_process(1, 1);
    world.pass(300ms);
    kill(world, 2);
  }
  SECTION("told after it") {
    kill(world, 2);
    world.exit_process(0, 1);
    world.exit_process(1, 128 + SIGABRT, SIGABRT);
  }
  world.obey_stops(kTerm);
  world.pass(2s);
  CHECK(world.status().generation == 2);
  REQUIRE(world.status().failures.size() == 1);
  CHECK(world.status().failures[0].pod == "pod-2");
  CHECK_FALSE(has_ended(world, 0));
}

TEST_CASE("foreign: a silent machine explains what its peers made of it", "[launcher]") {
  GangWorld world = running();
  world.nodes[2].is_frozen = true;
  world.exit_process(1, 1);  // its time-out is shorter than ours
  world.obey_stops(kTerm);
  world.pass(2s);
  CHECK_FALSE(has_ended(world, 1));
  world.pass(2s);
  const std::size_t next = world.replace_pod(2);
  world.pass(500ms);
  CHECK(world.status().generation == 2);
  CHECK(world.node(next).starts == 1);
  CHECK(world.node(1).starts == 2);
}

TEST_CASE("foreign: a program that fails by itself ends the attempt", "[launcher]") {
  GangWorld world = running();
  SECTION("with a code") { world.exit_process(1, 3); }
  SECTION("by crashing") { world.exit_process(1, 128 + SIGSEGV, SIGSEGV); }
  world.exit_process(2, 1);
  world.obey_stops(kTerm);
  world.pass(500ms);
  CHECK_FALSE(has_ended(world, 1));  // a loss may yet be heard of
  world.pass(2s);
  CHECK(world.status().generation == 1);
  REQUIRE(world.status().failures.size() == 2);
  CHECK(world.status().failures[0].pod == "pod-1");
  CHECK((world.node(1).exit_code == 3 || world.node(1).exit_code == 128 + SIGSEGV));
  CHECK(world.node(2).exit_code == 1);
  CHECK(world.node(0).exit_code == api::kExitRetry);
  REQUIRE(world.node(1).terminations.size() == 1);
  CHECK(world.node(1).terminations[0].log_tail == "last words of 1");
}

TEST_CASE("foreign: of a single process nobody else can be to blame", "[launcher]") {
  GangWorld world = running(1);
  world.exit_process(0, 3);
  world.settle();
  CHECK(world.node(0).exit_code == 3);
}

TEST_CASE("foreign: what ends an attempt at once still does", "[launcher]") {
  GangWorld world = running();
  SECTION("never restart") {
    world.exit_process(1, api::kExitFatal);
    CHECK(world.status().failures[0].exit_code == api::kExitFatal);
  }
  SECTION("out of memory") {
    world.give(1, ProcessExited{.exit_code = 137, .signal = SIGKILL, .is_out_of_memory = true});
    world.settle();
    CHECK(world.status().failures[0].cause == "OOM");
  }
  SECTION("a policy that wants it so") {
    world.edit_spec([](api::WorkerGroupSpec& spec) { spec.is_in_place = false; });
    kill(world, 1);
    CHECK(world.status().failures[0].cause == "Signal");
  }
  world.obey_stops(kTerm);
  world.pass(2s);
  CHECK(has_ended(world, 0));
  CHECK(world.status().generation == 1);
}

TEST_CASE("foreign: a lost pod is replaced, and the others wait without their programs",
          "[launcher][A14]") {
  GangWorld world = running();
  SECTION("of a member") { world.kill_launcher(2); }
  SECTION("of the leader") {
    world.kill_launcher(0);
    world.pass(2s);
    CHECK(world.leader() == 1);
  }
  world.obey_stops(kTerm);
  world.pass(60s);
  CHECK(world.status().generation == 1);
  CHECK_FALSE(has_ended(world, 1));
  const std::size_t next = world.replace_pod(world.node(0).is_alive ? 2 : 0);
  world.pass(500ms);
  CHECK(world.status().generation == 2);
  CHECK(world.status().attempt == 1);
  CHECK(world.node(next).starts == 1);
  CHECK(world.node(1).starts == 2);
}

TEST_CASE("foreign: who is told to leave is waited for by all programs, which may save",
          "[launcher]") {
  GangWorld world = running();
  world.give(1, TerminationAsked{});
  world.settle();
  for (std::size_t i = 0; i < 3; ++i) CHECK(world.node(i).stop_grace == 20s);
  world.obey_stops(0);  // having saved, they say that all is well
  world.pass(200ms);
  CHECK(world.node(1).exit_code == api::kExitDrained);
  const std::size_t next = world.replace_pod(1);
  world.pass(500ms);
  CHECK(world.status().generation == 2);
  CHECK(world.node(next).starts == 1);
  CHECK(world.node(0).starts == 2);
  CHECK_FALSE(has_ended(world, 0));
}

TEST_CASE("foreign: another size, once the programs run", "[launcher]") {
  GangWorld world = running(3);
  SECTION("more") {
    const std::size_t next = world.resize(4);
    world.pass(5s);
    CHECK(world.node(0).starts == 1);  // they have hardly begun
    world.pass(6s);
    world.obey_stops(kTerm);
    world.pass(200ms);
    CHECK(world.status().members.size() == 4);
    CHECK(world.node(next).starts == 1);
  }
  SECTION("fewer") {
    world.resize(2);
    world.pass(11s);
    world.obey_stops(kTerm);
    world.pass(200ms);
    CHECK(world.status().members.size() == 2);
    CHECK(has_ended(world, 2));
  }
  CHECK(world.status().generation == 2);
  CHECK(world.node(0).starts == 2);
  CHECK(world.node(0).placement->members == static_cast<int>(world.status().members.size()));
}

TEST_CASE("foreign: a gang that is killed again and again begins anew", "[launcher]") {
  GangWorld world = running();
  const bool is_slow = GENERATE(false, true);
  for (int i = 0; i < 4; ++i) {
    if (is_slow) world.pass(61s);
    kill(world, 2);
    world.obey_stops(kTerm);
    world.pass(200ms);
  }
  world.pass(2s);
  CHECK(has_ended(world, 0) != is_slow);
  CHECK(world.status().generation == (is_slow ? 5 : 4));
}

TEST_CASE("foreign: all processes of a worker are started again with the one that was killed",
          "[launcher]") {
  GangWorld world = running(2, 2);
  world.exit_process(1, 128 + SIGKILL, SIGKILL, 1);
  world.exit_process(1, 1, 0, 0);
  for (int local = 0; local < 2; ++local)
    world.give(0, ProcessExited{.local_rank = local, .exit_code = kTerm, .was_told = true});
  world.pass(2s);
  CHECK(world.status().generation == 2);
  CHECK(world.node(1).starts == 2);
  CHECK(world.status().failures[0].rank == 3);
}

TEST_CASE("foreign: exit 75 blames nobody", "[launcher]") {
  GangWorld world = running();
  world.exit_process(1, api::kExitRetry);
  world.obey_stops(kTerm);
  world.pass(200ms);
  CHECK(world.status().generation == 2);
  CHECK_FALSE(has_ended(world, 1));
}

TEST_CASE("foreign: exit 75 beside a killed program is not named, whichever came first",
          "[launcher][I37]") {
  GangWorld world = running();
  SECTION("before it") {
    world.exit_process(0, api::kExitRetry);
    world.exit_process(1, 128 + SIGKILL);  // a shell says so
  }
  SECTION("after it") {
    world.exit_process(1, 128 + SIGKILL);
    world.exit_process(0, api::kExitRetry);
  }
  world.obey_stops(kTerm);
  world.pass(2s);
  CHECK(world.status().generation == 2);
  REQUIRE(world.status().failures.size() == 1);
  CHECK(world.status().failures[0].rank == 1);
}

TEST_CASE("foreign: exit 75 explains nobody's failure", "[launcher][I8]") {
  GangWorld world = running();
  SECTION("before it") {
    world.exit_process(0, api::kExitRetry);
    world.exit_process(1, 41);
  }
  SECTION("after it") {
    world.exit_process(1, 41);
    world.exit_process(0, api::kExitRetry);
  }
  world.obey_stops(kTerm);
  world.pass(2s);
  CHECK(world.status().generation == 1);
  CHECK(world.node(1).exit_code == 41);
  CHECK(world.node(0).exit_code == api::kExitRetry);
}

TEST_CASE("foreign: one that was killed, and was told before it was gone, explains its peers",
          "[launcher]") {
  GangWorld world = running();
  world.exit_process(0, 1);
  world.give(
      2, ProcessExited{.exit_code = 137, .signal = SIGKILL, .was_told = true, .was_killed = true});
  world.nodes[2].was_stopped = false;
  world.obey_stops(kTerm);
  world.pass(2s);
  CHECK(world.status().generation == 2);
  CHECK_FALSE(has_ended(world, 0));
}

TEST_CASE("foreign: a shell that tells of a killed child was not to blame", "[launcher]") {
  GangWorld world = running();
  world.exit_process(2, 128 + SIGKILL);
  world.exit_process(0, 1);
  world.obey_stops(kTerm);
  world.pass(2s);
  CHECK(world.status().generation == 2);
}

TEST_CASE("foreign: where the gang ends for another's sake, its victims say so", "[launcher][I8]") {
  GangWorld world = running();
  for (int i = 0; i < 4; ++i) {
    if (i == 3) world.exit_process(0, 1);
    kill(world, 2);
    world.obey_stops(kTerm);
    world.pass(200ms);
  }
  world.pass(2s);
  CHECK(world.node(0).exit_code == api::kExitRetry);
  CHECK(world.node(0).terminations.back().cause == "Victim");
  CHECK(world.node(2).exit_code == 128 + SIGKILL);
  CHECK(world.status().failures.back().cause == "Signal");
}

TEST_CASE("foreign: changes that break nothing may be many", "[launcher]") {
  GangWorld world = running(2);
  for (int i = 0; i < 6; ++i) {
    world.resize(i % 2 == 0 ? 3 : 2);
    world.pass(11s);
    world.obey_stops(kTerm);
    world.pass(500ms);
    if (i % 2 != 0) world.edit_spec([](api::WorkerGroupSpec& spec) { spec.pods.pop_back(); });
  }
  CHECK(world.status().generation == 7);
  CHECK_FALSE(has_ended(world, 0));
}

TEST_CASE("foreign: with rank 0 the others end, if one is enough", "[launcher]") {
  GangWorld world = running();
  world.edit_spec([](api::WorkerGroupSpec& spec) { spec.is_rank0_enough = true; });
  world.exit_process(0, 0);
  world.pass(200ms);
  CHECK(world.node(0).exit_code == api::kExitDone);
  CHECK(world.node(1).was_stopped);
  world.obey_stops(kTerm);
  world.pass(200ms);
  CHECK(world.node(1).exit_code == api::kExitRetry);
}

TEST_CASE("foreign: who is told to leave tells its program at once, heard or not", "[launcher]") {
  GangWorld world = running();
  world.nodes[0].is_frozen = true;
  world.give(1, TerminationAsked{});
  world.settle();
  CHECK(world.node(1).was_stopped);
  CHECK(world.node(1).stop_grace == 20s);
  CHECK_FALSE(world.node(2).was_stopped);
}

TEST_CASE("foreign: who hears no leader ends its programs before others may run in their places",
          "[launcher]") {
  GangWorld world = running();
  world.is_api_down = true;
  world.kill_launcher(0);
  world.pass(4s);
  CHECK_FALSE(world.node(1).was_stopped);
  world.pass(2s);
  CHECK(world.node(1).was_stopped);
  world.obey_stops(kTerm);
  world.pass(1s);
  CHECK_FALSE(has_ended(world, 1));
  world.is_api_down = false;
  world.replace_pod(0);
  world.pass(5s);
  CHECK(world.status().generation == 2);
  CHECK(world.node(1).starts == 2);
}

TEST_CASE("foreign: a gang at rest that is to stop starts nothing any more", "[launcher]") {
  GangWorld world = running();
  world.kill_launcher(2);
  world.obey_stops(kTerm);
  world.pass(1s);
  world.edit_spec([](api::WorkerGroupSpec& spec) { spec.is_stopping = true; });
  world.pass(2s);
  CHECK(world.status().generation == 1);
  CHECK(world.node(0).exit_code == api::kExitDrained);
  CHECK(world.node(1).starts == 1);
}
