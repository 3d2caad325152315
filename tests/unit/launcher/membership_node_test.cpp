// A launcher whose machine is found broken: before it joins, and while its processes run.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <chrono>

#include "common/api/contract.h"
#include "gang_world.h"

using namespace pawl;
using namespace pawl::membership;
using namespace pawl::membership::test;
using namespace std::chrono_literals;
namespace channel = pawl::api::channel;

namespace {

const char* const kLost = "GPU 3 fell off the bus (XID 79)";

}  // namespace

TEST_CASE("node: nobody joins before its machine was looked at", "[launcher][gpu]") {
  GangWorld world({.launchers = 2, .is_checked_first = true});
  world.settle();
  world.hello_all();
  world.give(0, NodeChecked{});
  world.pass(1s);
  CHECK(world.status().generation == 0);
  SECTION("it is well") { world.give(1, NodeChecked{}); }
  SECTION("its driver does not even answer") { world.pass(1s); }
  world.pass(200ms);
  CHECK(world.status().generation == 1);
  CHECK(world.welcome(1).generation == 1);
}

TEST_CASE("node: a worker on a broken machine says so and goes, before it is let in",
          "[launcher][gpu][G2]") {
  GangWorld world({.launchers = 3, .is_checked_first = true});
  world.settle();
  world.hello_all();
  const std::size_t which = GENERATE(std::size_t{0}, std::size_t{2});  // the first leads
  for (std::size_t i = 0; i < 3; ++i) world.give(i, NodeChecked{i == which ? kLost : ""});
  world.settle();
  REQUIRE(world.node(which).was_stopped);
  CHECK(world.node(which).stop_grace == 0ms);
  world.obey_stops(137);
  world.pass(1s);
  CHECK(world.node(which).exit_code == api::kExitDrained);
  REQUIRE(world.node(which).terminations.size() == 1);
  const api::Failure& failure = world.node(which).terminations.front();
  CHECK(failure.cause == "GpuFault");
  CHECK(failure.message == kLost);
  CHECK(failure.node == "node-" + std::to_string(which));
  CHECK(world.status().generation == 0);
}

TEST_CASE("node: a GPU fails: the others go on from memory with another pod in that place",
          "[launcher][gpu]") {
  GangWorld world = GangWorld::training();
  const std::size_t which = GENERATE(std::size_t{0}, std::size_t{2});
  world.give(which, NodeFault{kLost});
  world.settle();
  CHECK(world.node(which).was_stopped);
  CHECK(world.node(which).stop_grace == 0ms);
  // Its process may have crashed by itself before it was killed: nobody's program is to blame.
  world.exit_process(which, GENERATE(1, 134));
  world.obey_stops(137);
  world.pass(100ms);
  CHECK(world.node(which).exit_code == api::kExitDrained);
  REQUIRE(!world.node(which).terminations.empty());
  CHECK(world.node(which).terminations.back().cause == "GpuFault");
  CHECK(world.node(which).terminations.back().message == kLost);
  CHECK(world.node(which).terminations.back().rank == static_cast<int>(which));
  world.park_asked(11, 1);
  world.pass(3s);
  world.park_asked(11, 1);
  world.come_up(world.replace_pod(static_cast<int>(which)));
  world.pass(3s);
  CHECK(world.status().generation == 2);
  CHECK(world.status().start_step == 11);
  CHECK(world.status().members.size() == 3);
  // The next leader may have told of a silence, no more.
  for (const api::Failure& failure : world.status().failures) CHECK(api::is_silence(failure));
  for (std::size_t i = 0; i < 3; ++i) {
    if (i != which) CHECK_FALSE(world.node(i).exit_code.has_value());
  }
}

TEST_CASE("node: where nobody may take its place the attempt ends, and the machine is named",
          "[launcher][gpu]") {
  GangWorld world({.launchers = 2, .is_in_place = false});
  world.run_to_training();
  world.give(1, NodeFault{kLost});
  world.settle();
  world.obey_stops(137);
  world.pass(10s);
  world.obey_stops();
  world.pass(1s);
  CHECK(world.node(1).exit_code == api::kExitRetry);
  CHECK(world.node(1).terminations.back().cause == "GpuFault");
  REQUIRE(!world.status().failures.empty());
  CHECK(world.status().failures.front().cause == "GpuFault");
  CHECK(world.status().failures.front().pod == "pod-1");
  CHECK(world.status().failures.front().node == "node-1");
  CHECK(world.node(0).exit_code == api::kExitRetry);
}

TEST_CASE("node: programs of other frameworks are started again in the pods that are well",
          "[launcher][gpu]") {
  GangWorld world({.launchers = 2, .runtime = api::RuntimeKind::kTorch, .has_checkpoints = false});
  world.run_to_training();
  // Its program ends by the fault before the fault is told, its peer's by the loss.
  world.exit_process(1, 1);
  world.give(1, NodeFault{kLost});
  world.settle();
  world.exit_process(0, 1);
  world.pass(1s);
  CHECK(world.node(1).exit_code == api::kExitDrained);
  CHECK(world.node(1).terminations.back().cause == "GpuFault");
  world.replace_pod(1);
  world.pass(3s);
  CHECK(world.status().generation == 2);
  CHECK_FALSE(world.node(0).exit_code.has_value());
  CHECK(world.node(0).starts == 2);
}

TEST_CASE("node: who has trained to the end, or is stopping, has nothing to lose any more",
          "[launcher][gpu]") {
  GangWorld world = GangWorld::training(2);
  world.exit_process(1, 0);
  world.settle();
  world.give(1, NodeFault{kLost});
  world.settle();
  world.exit_process(0, 0);
  world.pass(1s);
  CHECK(world.node(1).terminations.empty());
  CHECK(world.node(1).exit_code == api::kExitDone);
}
