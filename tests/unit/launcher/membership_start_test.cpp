#include <catch2/catch_test_macros.hpp>
#include <chrono>

#include "common/api/contract.h"
#include "gang_world.h"

using namespace pawl;
using namespace pawl::membership;
using namespace pawl::membership::test;
using namespace std::chrono_literals;
namespace channel = pawl::api::channel;

TEST_CASE("membership: all join, one commit, every process is welcomed with its rank",
          "[launcher][C7][C8]") {
  GangWorld world({.launchers = 3, .processes = 2});
  world.stored = {.step = 40, .load_uri = "file:///c/step-40"};
  world.run_to_training();
  const auto& status = world.status();
  CHECK(status.attempt == 1);
  CHECK(status.term == 1);
  CHECK(status.start_step == 40);
  REQUIRE(status.members.size() == 3);
  CHECK(status.lineage == std::vector<api::LineageEntry>{{1, 1, 40}});
  CHECK(world.writes.size() == 2);  // the claim and the commit
  for (std::size_t i = 0; i < 3; ++i) {
    INFO("member " << i);
    CHECK(status.members[i].ref.uid == "uid-" + std::to_string(i));
    CHECK(status.members[i].rank == static_cast<int>(i));
    CHECK(world.node(i).is_ready);
    const auto* welcome = world.told<channel::Welcome>(i);
    REQUIRE(welcome != nullptr);
    CHECK(welcome->rank == static_cast<int>(2 * i));
    CHECK(welcome->world_size == 6);
    CHECK(welcome->start_step == 40);
    CHECK(welcome->load_uri == "file:///c/step-40");
    CHECK(welcome->key == "key-0");
    REQUIRE(welcome->peers.size() == (i == 0 ? 2 : 3));  // neighbours in a ring of six, and rank 0
    if (i > 0) CHECK(welcome->peers[2].rank == 0);
    CHECK(welcome->peers[0].rank == static_cast<int>((2 * i + 5) % 6));
    CHECK(welcome->peers[1].rank == static_cast<int>(2 * i + 1));
    const std::string own = std::to_string(i);
    CHECK(welcome->peers[1].address == "10.0.0." + own + ":40" + own + "1");
  }
}

TEST_CASE("membership: native processes start at once, others when their rank is known",
          "[launcher]") {
  GangWorld native({.launchers = 2});
  CHECK(native.node(1).has_processes);
  GangWorld torch({.launchers = 2, .processes = 2, .runtime = api::RuntimeKind::kTorch});
  CHECK_FALSE(torch.node(1).has_processes);
  torch.run_to_training();
  REQUIRE(torch.node(1).placement.has_value());
  CHECK(torch.node(1).placement->member_rank == 1);
  CHECK(torch.node(1).placement->members == 2);
  CHECK(torch.node(1).placement->master_address == "10.0.0.0");
  CHECK(torch.node(1).placement->master_port == 29500);
}

TEST_CASE("membership: the operator's order decides who claims, the next one comes if it is absent",
          "[launcher]") {
  GangWorld world({.launchers = 3});
  SECTION("all there") {
    world.settle();
    CHECK(world.leader() == 0);
  }
  SECTION("the first is dead") {
    world.kill_launcher(0);
    world.settle();
    CHECK_FALSE(world.status().leader.has_value());
    world.pass(300ms);
    CHECK(world.leader() == 1);
  }
}

TEST_CASE("membership: of two that claim at once, one leads and the other joins it", "[launcher]") {
  GangWorld world({.launchers = 2});
  world.record.spec.pods[1].order = 0;
  // Both decide on the same view before either write is seen.
  const RecordSeen same_view{world.record, 0};
  world.nodes[0].inbox = {same_view};
  world.nodes[1].inbox = {same_view};
  world.settle();
  CHECK(world.conflicts == 1);
  CHECK(world.status().term == 1);
  world.run_to_training();
  CHECK(world.status().members.size() == 2);
}

TEST_CASE("membership: a claim or commit whose answer is lost is observed, never repeated",
          "[launcher]") {
  GangWorld world({.launchers = 2});
  world.lose_replies = 2;
  world.run_to_training();
  CHECK(world.status().term == 1);
  CHECK(world.status().generation == 1);
  CHECK(world.writes.size() == 2);
  CHECK(world.told<channel::Welcome>(1) != nullptr);
}

TEST_CASE(
    "membership: an operator's edit between reading and committing is a conflict, then a commit",
    "[launcher]") {
  GangWorld world({.launchers = 2});
  world.nodes[1].is_frozen = true;
  world.settle();                      // the leader waits for the second member,
  world.nodes[0].is_watching = false;  // and does not see the edit
  world.edit_spec([](api::WorkerGroupSpec& spec) { spec.report_seconds = 20; });
  world.nodes[1].is_frozen = false;
  world.run_to_training();
  CHECK(world.conflicts == 1);
}

TEST_CASE("membership: who is not in spec.pods waits, and joins when it is", "[launcher]") {
  GangWorld world({.launchers = 2});
  world.record.spec.pods[1].uid = "";
  world.settle();
  world.hello_all();
  world.pass(60s);
  CHECK(world.status().generation == 0);
  CHECK_FALSE(world.node(1).exit_code.has_value());
  world.edit_spec([](api::WorkerGroupSpec& spec) { spec.pods[1].uid = "uid-1"; });
  world.pass(100ms);
  CHECK(world.status().generation == 1);
  CHECK(world.told<channel::Welcome>(1) != nullptr);
}

TEST_CASE("membership: nobody claims who is not eligible", "[launcher]") {
  GangWorld world({.launchers = 1});
  world.record.spec.pods[0].uid = "somebody-else";
  world.nodes[0].inbox.clear();
  world.give(0, RecordSeen{world.record, 0});
  world.pass(30s);
  CHECK(world.writes.empty());
  CHECK_FALSE(world.node(0).exit_code.has_value());
}

TEST_CASE("membership: joins that can never be right are refused for good", "[launcher]") {
  struct Row {
    const char* what;
    std::function<void(Join&)> change;
    bool is_final;
  };
  const Row rows[] = {
      {"another contract", [](Join& join) { join.version = 99; }, true},
      {"an older attempt", [](Join& join) { join.attempt = 0; }, true},
      {"a later attempt", [](Join& join) { join.attempt = 2; }, false},
      {"another slot", [](Join& join) { join.slot = 0; }, true},
      {"another number of processes", [](Join& join) { join.processes = 8; }, true},
  };
  for (const Row& row : rows) {
    INFO(row.what);
    GangWorld world({.launchers = 2});
    world.kill_launcher(1);
    world.settle();
    REQUIRE(world.leader() == 0);
    Join join{.version = api::kContractVersion,
              .self = {"uid-1", "s"},
              .attempt = 1,
              .slot = 1,
              .pod = "pod-1"};
    row.change(join);
    const auto actions = world.nodes[0].membership->step(
        PeerSaid{7, join}, Now{world.clock.steady_now(), world.clock.now()});
    const Refused* refused = nullptr;
    for (const Action& action : actions) {
      const auto* send = std::get_if<Send>(&action);
      if (send != nullptr && send->peer == 7) refused = std::get_if<Refused>(&send->message);
    }
    REQUIRE(refused != nullptr);
    CHECK(refused->is_final == row.is_final);
    world.pass(1s);
    CHECK(world.status().generation == 0);
  }
}

TEST_CASE("membership: a launcher that is refused for good exits with the code for never again",
          "[launcher]") {
  GangWorld world({.launchers = 2});
  world.settle();
  world.give(1, PeerSaid{kLeaderPeer, Refused{"no", true}});
  world.settle();
  world.obey_stops();
  world.pass(100ms);
  CHECK(world.node(1).exit_code == api::kExitFatal);
  REQUIRE(world.node(1).terminations.size() == 1);
  CHECK(world.node(1).terminations[0].cause == "Error");
}

TEST_CASE("membership: a refusal that may pass is retried, and then ends only this attempt",
          "[launcher]") {
  GangWorld world({.launchers = 3});
  world.nodes[2].is_frozen = true;  // so that nothing is committed
  world.settle();
  world.nodes[0].is_frozen = true;  // its answers are the test's
  for (int second = 0; second < 40 && !world.node(1).exit_code; ++second) {
    world.give(1, PeerSaid{kLeaderPeer, Refused{"cannot read the cluster's public keys", false}});
    world.pass(1s);
    if (second == 20) CHECK_FALSE(world.node(1).was_stopped);
    if (second > 20) world.obey_stops();
  }
  CHECK(world.node(1).exit_code == api::kExitRetry);
  REQUIRE(world.node(1).terminations.size() == 1);
  CHECK(world.node(1).terminations[0].cause == "Error");
}

TEST_CASE("membership: an unreachable leader is dialled again, for half a minute", "[launcher]") {
  GangWorld world({.launchers = 2});
  world.record.status.attempt = 1;
  world.record.status.term = 1;
  world.record.status.leader = api::Leader{{"uid-0", "an older start"}, "10.9.9.9:1", "print"};
  world.nodes[0].is_frozen = true;
  world.nodes[1].inbox.clear();
  world.give(1, RecordSeen{world.record, 0});
  world.pass(20s);
  CHECK_FALSE(world.node(1).exit_code.has_value());
  world.pass(15s);
  world.obey_stops();
  world.pass(100ms);
  CHECK(world.node(1).exit_code == api::kExitRetry);
}

TEST_CASE("membership: a member that comes back before the commit counts once", "[launcher]") {
  GangWorld world({.launchers = 3});
  world.nodes[2].is_frozen = true;
  world.settle();
  // Its connection breaks and it dials again while the third is still missing.
  world.give(1, PeerDown{kLeaderPeer, "reset"});
  world.settle();
  world.pass(1s);
  world.nodes[2].is_frozen = false;
  world.run_to_training();
  CHECK(world.status().members.size() == 3);
}

TEST_CASE("membership: a raised attempt ends the old one, and nothing of it is written",
          "[launcher]") {
  GangWorld world({.launchers = 2});
  world.run_to_training();
  const std::size_t writes = world.writes.size();
  world.edit_spec([](api::WorkerGroupSpec& spec) { spec.attempt = 2; });
  world.say(0, channel::Report{.step = 5, .total_steps = 10});
  world.obey_stops();
  world.pass(100ms);
  CHECK(world.node(0).exit_code == api::kExitRetry);
  CHECK(world.node(1).exit_code == api::kExitRetry);
  CHECK(world.writes.size() == writes);
}

TEST_CASE("membership: trainers with different configurations do not train", "[launcher]") {
  GangWorld world({.launchers = 2});
  world.settle();
  world.say(0, channel::Hello{.data_port = 1, .config_hash = "a"});
  world.say(1, channel::Hello{.data_port = 2, .config_hash = "b"});
  CHECK(world.told<channel::Welcome>(0) == nullptr);
  REQUIRE(world.status().failures.size() == 1);
  CHECK(world.status().failures[0].pod == "pod-1");
}
