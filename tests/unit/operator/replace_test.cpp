// A member is lost and its gang lives on: another pod in its slot, in the same attempt.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>

#include "operator/core/failures.h"
#include "tests/unit/operator/world.h"

using namespace pawl;
using namespace pawl::test;
using std::chrono::seconds;

namespace {

api::PodView& kill(World& world, int slot) {
  api::PodView& pod = world.pod(slot);
  pod.phase = api::PodPhase::kFailed;
  pod.is_ready = false;
  pod.exit_code = 137;
  return pod;
}

int count(const World& world, const std::string& event) {
  return static_cast<int>(std::ranges::count(world.events, event));
}

}  // namespace

TEST_CASE("replace: a lost member gets another pod in the same attempt",
          "[core][I33][G3][A14][A15]") {
  World world = World::training();
  const std::string before = world.pod(2).meta.name;
  SECTION("deleted") { world.remove_pod(2); }
  SECTION("evicted") {
    api::PodView& pod = kill(world, 2);
    pod.reason = "Evicted";
  }
  SECTION("killed with its launcher") { kill(world, 2); }
  world.is_kubelet_on = false;
  world.settle(seconds{6});
  CHECK(world.job.status.attempt == 1);
  CHECK(world.pod(2).meta.name == "gpt-1-2-1");
  CHECK(world.group->spec.pods[2].uid == world.pod(2).meta.uid);
  CHECK(world.condition("Running") == "False");
  CHECK(world.condition("Restarting") == "True");
  CHECK(world.job.status.phase == "Restarting");
  CHECK(world.job.status.message.find("gpt-1-2-1 takes its place") != std::string::npos);
  CHECK(count(world, "MemberReplaced") == 1);

  world.is_kubelet_on = true;
  world.settle();
  world.commit_next(12);
  world.settle(seconds{60});
  CHECK(world.condition("Running") == "True");
  CHECK(world.condition("Restarting") == "False");
  CHECK(count(world, "RecoveredInPlace") == 1);
  CHECK(count(world, "Running") == 1);
  CHECK(world.job.status.restarts.counted == 0);
  CHECK(world.job.status.restarts.free == 0);
  CHECK(world.job.status.last_failure->rank == 2);
  CHECK(world.job.status.last_failure->pod == before);
  const int writes = world.status_writes;
  world.settle(seconds{600});
  CHECK(world.status_writes == writes);
  CHECK(world.broken.empty());

  // And again: the third pod of the slot.
  kill(world, 2);
  world.settle();
  CHECK(world.pod(2).meta.name == "gpt-1-2-2");
  world.commit_next(12);
  world.settle(seconds{60});
  CHECK(world.condition("Running") == "True");
  for (int slot = 0; slot < 3; ++slot) world.succeed(slot);
  world.settle();
  CHECK(world.condition("Complete") == "True");
  CHECK(world.broken.empty());
}

TEST_CASE("replace: the leader's place is another's too; the others lead on", "[core][I33]") {
  World world = World::training();
  world.remove_pod(0);
  world.settle();
  CHECK(world.job.status.attempt == 1);
  CHECK(world.pod(0).meta.name == "gpt-1-0-1");
}

TEST_CASE("replace: several members that are lost at once are replaced in one write",
          "[core][I33]") {
  World world = World::training(4);
  kill(world, 1);
  world.remove_pod(3);
  world.settle();
  CHECK(world.job.status.attempt == 1);
  CHECK(world.pod(1).meta.name == "gpt-1-1-1");
  CHECK(world.pod(3).meta.name == "gpt-1-3-1");
  CHECK(world.group_writes == 4);  // made, and its UIDs; the places, and theirs
  CHECK(world.broken.empty());
}

TEST_CASE("replace: not where the gang cannot go on, or the failure policy speaks", "[core][I33]") {
  World world = World::training();
  int counted = 0;
  std::string cause = "Deleted";
  SECTION("nobody is left who holds the state") {
    for (int slot = 0; slot < 3; ++slot) world.delete_pod(slot);
    world.finish_terminating();
  }
  SECTION("the member ended with a code of its own") {
    world.fail(2, 1, "Error");
    counted = 1;
    cause = "Error";
  }
  SECTION("the gang ends beside it") {
    world.fail(1, 75, "Victim");
    world.remove_pod(2);
  }
  SECTION("a rule names the cause") {
    world.set_spec([](auto& spec) {
      spec.failure_rules = {
          {.name = "r", .action = api::RuleAction::kRestart, .causes = {"Deleted"}}};
    });
    world.remove_pod(2);
    counted = 1;
  }
  SECTION("it was killed before it was let in") {
    kill(world, 2);
    world.settle();
    REQUIRE(world.job.status.attempt == 1);
    kill(world, 2);
    counted = 1;
    cause = "Signal";
  }
  SECTION("the processes of this gang cannot be reconfigured") {
    world.group->spec.has_successors = false;
    world.remove_pod(2);
  }
  world.settle(seconds{60});
  CHECK(world.job.status.attempt == 2);
  CHECK(world.job.status.restarts.counted == counted);
  CHECK(world.job.status.last_failure->cause == cause);
  CHECK(world.broken.empty());
}

TEST_CASE("replace: a member that leaves is waited for, then replaced", "[core][I6b][I33]") {
  World world = World::training();
  world.is_kubelet_on = false;
  world.pod(2).meta.deletion_time = world.now + seconds{30};
  world.settle(seconds{10});
  CHECK(world.job.status.reason == "MemberLeaving");
  CHECK(world.group->spec.pods[2].n == 0);
  kill(world, 2).exit_code = 75;
  world.settle();
  CHECK(world.group->spec.pods[2].n == 1);
  CHECK(world.job.status.attempt == 1);
}

TEST_CASE("replace: where all leave, the first to be gone does not cut the others short",
          "[core][I6b][I36]") {
  World world = World::training();
  world.is_kubelet_on = false;
  for (int slot = 0; slot < 3; ++slot) world.pod(slot).meta.deletion_time = world.now + seconds{30};
  kill(world, 0).exit_code = 86;
  world.settle(seconds{5});
  CHECK(world.job.status.attempt == 1);
  CHECK(world.job.status.reason == "MemberLeaving");
  kill(world, 2).exit_code = 86;
  world.settle(seconds{5});
  CHECK(world.job.status.attempt == 1);
  kill(world, 1).exit_code = 86;
  world.settle(seconds{5});
  CHECK(world.job.status.attempt == 2);
  CHECK(world.job.status.restarts.counted == 0);
}

TEST_CASE("replace: while one member leaves another's place is filled", "[core][I6b][I33]") {
  World world = World::training(4);
  world.pod(3).meta.deletion_time = world.now + seconds{30};
  kill(world, 2);
  world.is_kubelet_on = false;
  world.settle(seconds{5});
  CHECK(world.pods.contains("gpt-1-2-1"));
  CHECK(world.group->spec.pods[2].uid == world.pod(2).meta.uid);
  CHECK(world.group->spec.pods[3].n == 0);
  kill(world, 3);
  world.settle(seconds{5});
  CHECK(world.group->spec.pods[3].n == 1);
  CHECK(world.job.status.attempt == 1);
  CHECK(world.broken.empty());
}

TEST_CASE("replace: a member that its gang has lost touch with is replaced unless it is back",
          "[core][I33]") {
  World world = World::training();
  world.lose_touch(2);
  world.settle(seconds{2});
  CHECK(world.group->spec.pods[2].n == 0);
  SECTION("it is back") {
    world.commit_next(12);
    world.settle(seconds{60});
    CHECK(world.group->spec.pods[2].n == 0);
    CHECK(count(world, "RecoveredInPlace") == 1);
  }
  SECTION("it stays away: the old pod is told to go") {
    world.settle(seconds{10});
    CHECK(world.group->spec.pods[2].n == 1);
    CHECK(world.pods.count("gpt-1-2-0") == 0);
    CHECK(world.job.status.last_failure->cause == "NodeLost");
    world.commit_next(12);
    world.settle(seconds{60});
    CHECK(count(world, "RecoveredInPlace") == 1);
  }
  CHECK(world.condition("Running") == "True");
  CHECK(world.job.status.attempt == 1);
  CHECK(world.broken.empty());
}

TEST_CASE("replace: pods that the cluster takes away before they run back off", "[core][I33][I5]") {
  World world = World::training();
  kill(world, 2);
  world.settle();
  world.is_kubelet_on = false;
  const int before = world.pods_created;
  for (int i = 0; i < 20; ++i) {
    const std::string name = "gpt-1-2-" + std::to_string(world.group->spec.pods[2].n);
    if (world.pods.contains(name)) {
      world.pods[name].phase = api::PodPhase::kFailed;
      world.pods[name].reason = "Evicted";
    }
    world.settle(seconds{30});
  }
  CHECK(world.pods_created - before < 14);  // of 20
  CHECK(world.job.status.attempt == 1);
  CHECK(world.broken.empty());
}

TEST_CASE("replace: a deadline to start holds for a gang that is to be whole again",
          "[core][I27]") {
  World world = World::training();
  world.set_spec([](auto& spec) { spec.deadlines.start_seconds = 100; });
  world.settle(seconds{1000});
  world.is_kubelet_on = false;
  kill(world, 2);
  world.settle(seconds{90});
  CHECK(world.condition("FailureTarget").empty());
  world.settle(seconds{20});
  CHECK(world.condition("FailureTarget") == "True");
}

TEST_CASE("replace: a crash between status and record moves no deadline", "[core][I27][I33]") {
  World world = World::training();
  world.set_spec([](auto& spec) { spec.deadlines.start_seconds = 100; });
  world.settle(seconds{1000});
  kill(world, 2);
  world.actions_until_crash = world.actions_done + 3;  // two reads, and the status
  world.settle(seconds{10});
  CHECK_FALSE(world.actions_until_crash.has_value());
  CHECK(world.condition("FailureTarget").empty());
  CHECK(world.group->spec.pods[2].n == 1);
  CHECK(world.job.status.attempt == 1);
}

TEST_CASE("replace: a suspension while a place is empty leaves time to save", "[core][I19]") {
  World world = World::training();
  world.is_kubelet_on = false;
  kill(world, 2);
  world.settle(seconds{5});
  world.set_suspended(true);
  world.settle(seconds{20});
  CHECK(world.group->spec.is_stopping);
  CHECK_FALSE(world.pod(0).meta.deletion_time.has_value());
  world.settle(seconds{20});
  CHECK(world.pod(0).meta.deletion_time.has_value());
}

TEST_CASE("replace: what was replaced is not blamed again", "[core][I8][I33]") {
  World world = World::training(4);
  world.lose_touch(3);
  world.settle(seconds{10});
  REQUIRE(world.group->spec.pods[3].n == 1);
  SECTION("by the culprit's own word") {
    world.fail(1, 1, "Error");
    world.settle(seconds{60});
    CHECK(world.job.status.last_failure->rank == 1);
    CHECK(world.job.status.restarts.counted == 1);
  }
  SECTION("nor does it shorten the wait for the next culprit") {
    world.fail(1, 75, "Victim");
    world.settle(seconds{2});
    CHECK(world.job.status.attempt == 1);
  }
}

TEST_CASE("replace: a view of the record behind that of its pods decides nothing", "[core][I33]") {
  World world = World::training();
  const api::WorkerGroup old = *world.group;
  kill(world, 2);
  world.settle();
  const api::WorkerGroup newer = *world.group;
  world.group = old;
  const core::Plan plan = world.plan();
  world.group = newer;
  REQUIRE_FALSE(plan.actions.empty());
  CHECK_FALSE(world.apply(plan.actions.front()));
}

TEST_CASE("replace: suspended, nothing of the slots before is left", "[core][I19]") {
  World world = World::training();
  world.is_kubelet_on = false;
  world.lose_touch(2);
  world.settle(seconds{10});
  REQUIRE(world.group->spec.pods[2].n == 1);
  REQUIRE(world.pods.contains("gpt-1-2-0"));  // terminating
  world.set_suspended(true);
  world.settle(seconds{40});
  CHECK(world.condition("Suspended") == "False");
  world.is_kubelet_on = true;
  world.settle(seconds{40});
  CHECK(world.condition("Suspended") == "True");
  CHECK(world.live_pods() == 0);
}

TEST_CASE("replace: pods get successors unless the failure policy or a queue speaks of them",
          "[core][I33]") {
  const auto has_successors = [](const auto& change) {
    World world(2, api::RuntimeKind::kNative);
    change(world);
    world.settle();
    REQUIRE(world.group.has_value());
    return world.group->spec.has_successors;
  };
  CHECK(has_successors([](World&) {}));
  CHECK_FALSE(has_successors(
      [](World& world) { world.job.meta.labels["kueue.x-k8s.io/queue-name"] = "research"; }));
  CHECK_FALSE(has_successors([](World& world) {
    world.job.spec.failure_rules = {
        {.name = "r", .action = api::RuleAction::kRestart, .causes = {"Evicted"}}};
  }));
  CHECK(has_successors([](World& world) {
    world.job.spec.failure_rules = {
        {.name = "r", .action = api::RuleAction::kFail, .exit_codes = {3}}};
  }));
}

TEST_CASE("replace: a successor is made of what the others were made of", "[core][I33]") {
  World world = World::training();
  world.set_spec([](auto& spec) { spec.runtime_config_json = R"({"steps":99})"; });
  world.settle();
  world.remove_pod(2);
  world.settle(seconds{60});
  CHECK(world.job.status.attempt == 2);
  CHECK(world.job.status.restarts.counted == 0);
}

TEST_CASE("replace: a gang that nobody leads any more begins again", "[core][I33]") {
  World world = World::training();
  world.remove_pod(0);
  world.settle(seconds{100});
  CHECK(world.job.status.attempt == 1);
  SECTION("nobody has taken over") {
    world.settle(seconds{60});
    CHECK(world.job.status.attempt == 2);
    CHECK(world.job.status.restarts.counted == 0);
  }
  SECTION("another member leads") {
    world.group->status.leader->ref = world.group->status.members[1].ref;
    world.group->meta.resource_version += "1";
    world.settle(seconds{600});
    CHECK(world.job.status.attempt == 1);
  }
}

TEST_CASE("replace: a killed process is blamed once its gang ends, however late its pod does",
          "[core][I8]") {
  World world = World::training();
  api::Failure failure{.rank = 0,
                       .pod = world.pod(0).meta.name,
                       .pod_uid = world.pod(0).meta.uid,
                       .exit_code = 137,
                       .signal = 9,
                       .cause = core::cause::kSignal,
                       .attempt = 1,
                       .generation = 1,
                       .time = world.now};
  world.group->status.failures.push_back(failure);
  world.group->meta.resource_version += "1";
  world.fail(1, 75, "Victim");
  world.fail(2, 75, "Victim");
  world.settle(seconds{60});
  CHECK(world.job.status.attempt == 2);
  CHECK(world.job.status.restarts.counted == 1);
  CHECK(world.job.status.last_failure->rank == 0);
}
