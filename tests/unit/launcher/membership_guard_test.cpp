// What a gang may still publish when the record moves on, and whom its leader listens to.
#include <catch2/catch_test_macros.hpp>
#include <chrono>

#include "common/api/contract.h"
#include "gang_world.h"

using namespace pawl;
using namespace pawl::membership;
using namespace pawl::membership::test;
using namespace std::chrono_literals;
namespace channel = pawl::api::channel;

TEST_CASE("membership: a save under way is published although the operator asks for a new attempt",
          "[launcher]") {
  GangWorld world({.launchers = 2, .is_in_place = false});
  world.run_to_training();
  world.report(10);
  world.give(1, TerminationAsked{});
  world.settle();
  const auto next_attempt = [](api::WorkerGroupSpec& spec) {
    spec.attempt = 2;
    for (auto& pod : spec.pods) pod.uid.clear();
  };
  bool is_published = true;
  SECTION("it was asked for while the trainers finish their step") {
    world.edit_spec(next_attempt);
  }
  SECTION("and another gang has begun: what is sealed now is off the lineage") {
    world.record.status.attempt = 2;
    world.edit_spec(next_attempt);
    is_published = false;
  }
  const std::size_t writes = world.writes.size();
  world.report(11);
  world.seal_all(11);
  world.obey_stops();
  world.pass(1s);
  CHECK(world.published ==
        (is_published ? std::vector<std::int64_t>{11} : std::vector<std::int64_t>{}));
  CHECK(world.writes.size() == writes);  // those would be refused
  // Nobody waits for what cannot come.
  CHECK(world.node(0).exit_code == api::kExitRetry);
  CHECK(world.node(1).exit_code == api::kExitDrained);
}

TEST_CASE("membership: a checkpoint that is whole is published by a gang that is told it is void",
          "[launcher]") {
  GangWorld world({.launchers = 2});
  world.run_to_training();
  world.report(10);
  world.is_api_down = true;  // the read before the manifest waits
  world.seal_all(10);
  world.pass(100ms);
  world.edit_spec([](api::WorkerGroupSpec& spec) { spec.attempt = 2; });
  world.is_api_down = false;
  world.pass(100ms);
  world.obey_stops();
  world.pass(1s);
  CHECK(world.published == std::vector<std::int64_t>{10});
  CHECK(world.node(0).exit_code == api::kExitRetry);
}

TEST_CASE("membership: a pod of another job has no say, before the commit and after it",
          "[launcher]") {
  for (const bool is_early : {true, false}) {
    INFO((is_early ? "said before the commit" : "said after it"));
    GangWorld world({.launchers = 2});
    const PeerId stranger = 77;  // its token is good, its UID stands nowhere
    const auto speak = [&](const Message& message) {
      world.give(world.leader(), PeerSaid{stranger, message});
      world.settle();
    };
    const auto attack = [&] {
      speak(Exit{{.rank = 1, .pod = "pod-1", .pod_uid = "uid-1", .exit_code = 93, .attempt = 1}});
      speak(Leaving{});
      speak(ShardFailed{.rank = 1, .generation = 1, .step = 10, .why = "no"});
      speak(ShardDone{.rank = 1, .generation = 1, .step = 10, .file = "theirs"});
      speak(Progress{{.step = 10, .total_steps = 100}});
      speak(Finished{});
    };
    world.nodes[1].is_frozen = true;  // the gang waits for it, and lets everybody join
    world.settle();
    speak(Join{.version = api::kContractVersion,
               .self = {"uid-of-another-job", "s"},
               .attempt = 1,
               .slot = 1,
               .pod = "pod-1"});
    if (is_early) attack();
    world.nodes[1].is_frozen = false;
    world.run_to_training();
    attack();
    world.give(world.leader(), PeerDown{stranger, "closed"});
    world.settle();
    CHECK(world.status().failures.empty());
    CHECK_FALSE(world.node(0).was_stopped);
    CHECK_FALSE(world.node(1).was_stopped);
    CHECK(world.published.empty());
    world.report(10);
    world.seal_all(10);
    world.pass(200ms);
    CHECK(world.published == std::vector<std::int64_t>{10});
  }
}

TEST_CASE("membership: a member speaks of its own ranks only", "[launcher]") {
  GangWorld world({.launchers = 2, .processes = 2});
  world.run_to_training();
  const PeerId follower = world.node(1).links.at(kLeaderPeer).second;
  const auto speak = [&](const Message& message) {
    world.give(0, PeerSaid{follower, message});
    world.settle();
  };
  world.report(10);
  speak(ShardFailed{.rank = 1, .generation = 1, .step = 10, .why = "no"});
  for (int rank = 0; rank < 4; ++rank)
    speak(ShardDone{.rank = rank, .generation = 1, .step = 10, .file = "f"});
  world.pass(200ms);
  CHECK(world.published.empty());  // two of the four were not its own
  for (const int local : {0, 1})
    world.say(0, channel::Sealed{.step = 10, .bytes = 8, .manifest_json = "{}"}, local);
  CHECK(world.published == std::vector<std::int64_t>{10});
  speak(Exit{{.rank = 0, .pod = "pod-0", .pod_uid = "uid-0", .exit_code = 1, .attempt = 7}});
  world.obey_stops();
  world.pass(2s);
  REQUIRE(world.status().failures.size() == 1);
  const api::Failure& failure = world.status().failures[0];
  CHECK(failure.pod == "pod-1");
  CHECK(failure.pod_uid == "uid-1");
  CHECK(failure.rank == 2);
  CHECK(failure.attempt == 1);
}

TEST_CASE("membership: a lost save is removed when nobody writes to it any more; the next is whole",
          "[launcher]") {
  GangWorld world({.launchers = 2});
  world.run_to_training();
  CHECK(world.cleaned_up == std::vector<std::int64_t>{1});  // by the leader alone, at the commit
  world.report(10);
  world.failing_writes = Timings{}.save_tries;
  world.say(0, channel::Sealed{.step = 10, .bytes = 8, .manifest_json = "{}"});
  world.pass(30s);
  CHECK(world.discarded.empty());
  world.say(1, channel::Sealed{.step = 10, .bytes = 8});
  CHECK(world.discarded == std::vector<std::int64_t>{10});
  CHECK(world.published.empty());
  world.report(20);
  world.seal_all(20);
  world.pass(200ms);
  CHECK(world.published == std::vector<std::int64_t>{20});
  CHECK(world.discarded.size() == 1);
}

TEST_CASE("membership: what storage refuses for a moment is tried again", "[launcher]") {
  GangWorld world({.launchers = 2});
  world.run_to_training();
  world.report(10);
  SECTION("a shard: its buffer is kept meanwhile") {
    world.failing_writes = 2;
    world.seal_all(10);
    CHECK(world.told<channel::Released>(0) == nullptr);
    CHECK(world.published.empty());
  }
  SECTION("the manifest") {
    world.failing_publications = 2;
    world.seal_all(10);
  }
  world.pass(3s);
  CHECK(world.published == std::vector<std::int64_t>{10});
  CHECK(world.told<channel::Released>(0) != nullptr);
  CHECK(world.told<channel::Released>(1) != nullptr);
  CHECK(world.discarded.empty());
}

TEST_CASE("membership: a newer checkpoint takes the place of one that cannot be published",
          "[launcher]") {
  GangWorld world({.launchers = 2});
  world.run_to_training();
  world.report(20);
  world.failing_publications = 1;
  world.seal_all(10);
  world.seal_all(20);
  world.pass(5s);
  CHECK(world.published == std::vector<std::int64_t>{20});
}

TEST_CASE("membership: a run whose last checkpoint is not stored has not succeeded", "[launcher]") {
  for (const bool is_shard : {true, false}) {
    INFO((is_shard ? "a shard" : "the manifest"));
    GangWorld world({.launchers = 2});
    world.run_to_training();
    world.report(90);
    world.seal_all(90);
    (is_shard ? world.failing_writes : world.failing_publications) = 100;
    world.report(100);
    world.seal_all(100);
    world.say(0, channel::Done{.step = 100});
    world.exit_process(0, 0);
    world.exit_process(1, 0);
    world.pass(8s);
    CHECK_FALSE(world.status().is_finished);
    REQUIRE(world.status().failures.size() == 1);
    CHECK(world.status().failures[0].message ==
          "the checkpoint of step 100, the last one, could not be stored: disk full");
    CHECK(world.status().failures[0].pod.starts_with("pod-"));
    CHECK(world.status().checkpoint->step == 90);
    CHECK(world.node(0).exit_code == api::kExitRetry);
    CHECK(world.node(1).exit_code == api::kExitRetry);
  }
}

TEST_CASE("membership: a save that failed on the way does not spoil the end", "[launcher]") {
  GangWorld world({.launchers = 2});
  world.run_to_training();
  world.report(90);
  world.failing_writes = 2 * Timings{}.save_tries;
  world.seal_all(90);
  world.pass(10s);
  world.report(100);
  world.seal_all(100);
  world.exit_process(0, 0);
  world.exit_process(1, 0);
  world.pass(1s);
  CHECK(world.published == std::vector<std::int64_t>{100});
  CHECK(world.status().is_finished);
  CHECK(world.node(1).exit_code == 0);
}

TEST_CASE("membership: a sealed checkpoint that waits for another try is not passed over",
          "[launcher]") {
  GangWorld world({.launchers = 1});
  world.run_to_training();
  world.failing_publications = 1;
  world.seal_all(20);
  world.report(20);
  world.settle();
  REQUIRE(world.published.empty());
  world.exit_process(0, 137, 9);  // nobody holds it
  world.settle();
  CHECK(world.status().generation == 1);
  world.come_up(0);
  world.pass(2s);
  CHECK(world.status().checkpoint->step == 20);
  CHECK(world.status().generation == 2);
}

TEST_CASE("membership: checkpoints that fail in a row are counted in the record, once a step",
          "[launcher][I32]") {
  GangWorld world({.launchers = 2});
  world.run_to_training();
  world.failing_publications = 1000;
  for (const std::int64_t step : {10, 20}) {
    world.seal_all(step);
    world.report(step);
    world.pass(30s);
  }
  CHECK(world.status().checkpoint_failures.count == 2);
  CHECK(world.status().checkpoint_failures.message == "step 20: disk full");
  CHECK(world.status().checkpoint_failures.time.has_value());
  CHECK_FALSE(world.status().checkpoint.has_value());
  world.failing_publications = 0;
  world.seal_all(30);
  world.report(30);
  world.pass(1s);
  CHECK(world.status().checkpoint->step == 30);
  CHECK(world.status().checkpoint_failures == api::CheckpointFailures{});
}
