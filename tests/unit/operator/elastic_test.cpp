// A gang that may be smaller goes on without lost members: the operator fills their places, and
// takes nothing of it for a fault.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>

#include "tests/unit/operator/world.h"

using namespace pawl;
using namespace pawl::test;
using std::chrono::seconds;

namespace {

World elastic(int replicas, int least) {
  World world = World::elastic(replicas, least);
  world.settle();
  world.report(10);
  world.settle();
  return world;
}

// In slot 1; the gang goes on without slot 2.
void outlive_killed_process(World& world) {
  world.group->status.failures.push_back({.rank = 1,
                                          .pod = world.pod(1).meta.name,
                                          .pod_uid = world.pod(1).meta.uid,
                                          .cause = "Signal",
                                          .message = "rank 1 was killed by signal 9",
                                          .attempt = 1,
                                          .generation = world.group->status.generation,
                                          .time = world.now});
  world.commit_next(12, 2);
}

int events_of(const World& world, const std::string& event) {
  return static_cast<int>(std::ranges::count(world.events, event));
}

}  // namespace

TEST_CASE("elastic: the record says how small the gang may be", "[core][I35]") {
  World world = elastic(3, 2);
  CHECK(world.group->spec.min_members == 2);
  CHECK(world.group->spec.target_members == 3);
  CHECK(world.group->spec.stabilization_seconds == 7);
  const int writes = world.group_writes;
  world.set_spec([](api::TrainingJobSpec& spec) { spec.elastic->min_replicas = 1; });
  world.settle();
  CHECK(world.group->spec.min_members == 1);
  CHECK(world.group_writes == writes + 1);
  world.set_spec([](api::TrainingJobSpec& spec) { spec.replicas = 4; });
  world.settle();
  CHECK(world.group->spec.min_members == 1);
  CHECK(world.group->spec.target_members == 4);
  world.set_spec([](api::TrainingJobSpec& spec) { spec.elastic.reset(); });
  world.settle();
  CHECK(world.group->spec.min_members == 4);
  CHECK(world.job.status.attempt == 1);
}

TEST_CASE("elastic: a member that the gang has left out is replaced, and the job runs on",
          "[core][I33][I35][G3]") {
  World world = elastic(3, 2);
  const int writes = world.status_writes;
  world.lose_touch(2);
  world.commit_next(11, 2);
  world.is_kubelet_on = false;
  SECTION("its pod looks well") {
    world.settle(seconds{10});
    CHECK(world.job.status.last_failure->cause == "NodeLost");
  }
  SECTION("it was killed, which is seen late") {
    api::PodView& pod = world.pod(2);
    pod.phase = api::PodPhase::kFailed;
    pod.is_ready = false;
    pod.exit_code = 137;
    world.settle(seconds{6});
    CHECK(world.job.status.last_failure->signal.value_or(0) +
              world.job.status.last_failure->exit_code.value_or(0) ==
          137);
  }
  SECTION("it is gone") {
    world.remove_pod(2);
    world.pods.erase("gpt-1-2-0");
    world.settle(seconds{6});
  }
  CHECK(world.job.status.attempt == 1);
  REQUIRE(world.group->spec.pods[2].n == 1);
  CHECK(world.condition("Running") == "True");
  CHECK(world.condition("Restarting") != "True");
  CHECK(events_of(world, "MemberReplaced") == 1);
  CHECK(world.status_writes <= writes + 4);
  CHECK(world.job.status.restarts.counted + world.job.status.restarts.free == 0);

  world.is_kubelet_on = true;
  world.settle(seconds{6});
  CHECK(world.pod(2).meta.name == "gpt-1-2-1");
  world.commit_next(12);
  world.settle(seconds{60});
  CHECK(world.condition("Running") == "True");
  CHECK(world.job.status.ready == "3/3");
  CHECK(world.broken.empty());
}

TEST_CASE("elastic: who is heard again before it was replaced keeps its pod", "[core][I35]") {
  World world = elastic(3, 2);
  world.lose_touch(2);
  world.commit_next(11, 2);
  world.settle(seconds{2});
  CHECK(world.job.status.reason == "MemberLost");
  world.group->status.failures.clear();  // it waits to be let in
  world.commit_next(12);
  world.settle(seconds{60});
  CHECK(world.group->spec.pods[2].n == 0);
  CHECK(world.job.status.reason == "Running");
  CHECK(world.broken.empty());
}

TEST_CASE("elastic: each silence has its own wait", "[core][I35]") {
  World world = elastic(3, 2);
  for (int round = 0; round < 2; ++round) {
    INFO(round);
    world.lose_touch(2);
    world.commit_next(11, 2);
    world.settle(seconds{2});
    CHECK(world.group->spec.pods[2].n == 0);
    world.group->status.failures.clear();
    world.commit_next(12);
    world.settle(seconds{3600});
  }
  CHECK(world.group->spec.pods[2].n == 0);
}

TEST_CASE("elastic: a member that was left out explains no failure after it", "[core][I35]") {
  World world = elastic(3, 2);
  world.lose_touch(2);
  world.commit_next(11, 2);
  world.settle(seconds{1});
  world.fail(1, 3, "Error");
  world.settle(seconds{30});
  CHECK(world.job.status.last_failure->exit_code == 3);
  CHECK(world.job.status.restarts.counted == 1);
}

TEST_CASE("elastic: a process that is replaced while a silent member is waited for is told once",
          "[core][I35]") {
  World world = elastic(4, 2);
  world.lose_touch(2);
  world.commit_next(11, 2);
  world.settle(seconds{1});
  REQUIRE(world.job.status.last_failure->pod == "gpt-1-2-0");
  const int writes = world.status_writes;
  outlive_killed_process(world);
  SECTION("the silent one is replaced") {
    world.settle(seconds{20});
    CHECK(world.group->spec.pods[2].n == 1);
    CHECK(world.job.status.last_failure->pod == "gpt-1-2-0");
  }
  SECTION("it is heard again") {
    world.settle(seconds{1});
    std::erase_if(world.group->status.failures,
                  [](const api::Failure& failure) { return failure.cause == "Unknown"; });
    world.commit_next(13);
    world.settle(seconds{20});
    CHECK(world.group->spec.pods[2].n == 0);
    CHECK(world.job.status.last_failure->pod == "gpt-1-1-0");
  }
  CHECK(events_of(world, "RecoveredInPlace") == 1);
  CHECK(world.status_writes <= writes + 5);
  CHECK(world.job.status.restarts.counted == 0);
  CHECK(world.broken.empty());
}

TEST_CASE("elastic: what befalls a gang after a member was replaced is told, too", "[core][I35]") {
  World world = elastic(4, 2);
  world.remove_pod(2);
  world.commit_next(11, 2);
  world.settle(seconds{10});
  REQUIRE(world.group->spec.pods[2].n == 1);
  REQUIRE(world.job.status.reason != "MemberLost");
  outlive_killed_process(world);
  world.settle(seconds{20});
  CHECK(world.job.status.last_failure->pod == "gpt-1-1-0");
  CHECK(events_of(world, "RecoveredInPlace") == 1);
}

TEST_CASE("elastic: a successor that is killed before it came in costs nothing", "[core][I35]") {
  World world = elastic(3, 2);
  world.remove_pod(2);
  world.commit_next(11, 2);
  world.settle(seconds{10});
  for (int n = 1; n < 4; ++n) {
    INFO(n);
    REQUIRE(world.group->spec.pods[2].n == n);
    api::PodView& pod = world.pod(2);
    pod.phase = api::PodPhase::kFailed;
    pod.is_ready = false;
    pod.exit_code = 137;
    world.settle(seconds{20});
  }
  CHECK(world.job.status.attempt == 1);
  CHECK(world.condition("Running") == "True");
  CHECK(world.job.status.restarts.counted == 0);
}

TEST_CASE("elastic: where pods get no successors it does nothing", "[core][I35]") {
  World world(3, api::RuntimeKind::kNative);
  world.set_spec([](api::TrainingJobSpec& spec) {
    spec.elastic = api::Elastic{.min_replicas = 1};
    spec.max_restarts = 0;
  });
  world.settle();
  CHECK(world.group->spec.min_members == 3);
  CHECK(world.group->spec.shortage_seconds == 0);
}

TEST_CASE("elastic: a pod that is refused holds nobody up", "[core][I35]") {
  World world(3, api::RuntimeKind::kNative);
  world.set_spec([](api::TrainingJobSpec& spec) {
    spec.elastic = api::Elastic{.min_replicas = 2, .shortage_seconds = 20};
  });
  world.is_kubelet_on = false;
  world.settle();
  CHECK(world.group->spec.shortage_seconds == 20);
  // As if a quota had let two of them through.
  world.pods.erase("gpt-1-2-0");
  for (api::EligiblePod& pod : world.group->spec.pods) pod.uid.clear();
  world.refusal = core::Refusal{.action = "create Pod gpt-1-2-0",
                                .message = "exceeded quota",
                                .reason = "Forbidden",
                                .retry_at = world.now + seconds{3600},
                                .generation = world.job.meta.generation};
  world.settle(seconds{15});
  CHECK(world.job.status.phase == "Stalled");
  CHECK(world.group->spec.pods[0].uid.empty());
  world.settle(seconds{5});
  CHECK_FALSE(world.group->spec.pods[0].uid.empty());
  CHECK_FALSE(world.group->spec.pods[1].uid.empty());
  CHECK(world.group->spec.pods[2].uid.empty());

  world.is_kubelet_on = true;
  world.report(10);
  world.settle(seconds{60});
  CHECK(world.job.status.phase == "Running");
  CHECK(world.condition("Stalled") == "False");
  CHECK(world.job.status.message ==
        "2/3 workers ready in attempt 1; create Pod gpt-1-2-0 was refused: exceeded quota");
  const int writes = world.status_writes;
  world.settle(seconds{600});
  CHECK(world.status_writes == writes);
  CHECK(world.broken.empty());
}

TEST_CASE("elastic: a job whose workers are short for too long fails if it says so",
          "[core][I27][I35][G5]") {
  World world(3, api::RuntimeKind::kNative);
  world.set_spec([](api::TrainingJobSpec& spec) {
    spec.elastic = api::Elastic{
        .min_replicas = 2, .on_shortage = api::OnShortage::kFail, .shortage_seconds = 90};
  });
  world.is_kubelet_on = false;
  world.settle(seconds{80});
  CHECK(world.group->spec.shortage_seconds == 0);
  CHECK(world.condition("FailureTarget") == "");
  world.is_kubelet_on = true;
  SECTION("not if they come in time") {
    world.settle();
    world.report(10);
    world.settle(seconds{600});
    CHECK(world.condition("Running") == "True");
  }
  SECTION("they do not") {
    world.is_kubelet_on = false;
    world.settle(seconds{20});
    CHECK(world.condition("FailureTarget") == "True");
    CHECK(world.job.status.message.find("elastic.shortageSeconds") != std::string::npos);
  }
}

TEST_CASE("elastic: a successor that cannot start holds nobody up", "[core][I35]") {
  World world = elastic(3, 2);
  world.remove_pod(2);
  world.commit_next(11, 2);
  world.is_kubelet_on = false;
  world.settle(seconds{6});
  api::PodView& pod = world.pod(2);
  pod.phase = api::PodPhase::kPending;
  pod.node.clear();
  pod.unschedulable_message = "0/2 nodes are available";
  world.settle(seconds{60});
  CHECK(world.condition("Running") == "True");
  CHECK(world.job.status.message.find("2/3 workers ready") == 0);
  CHECK(world.job.status.message.find("0/2 nodes are available") != std::string::npos);
  const int writes = world.status_writes;
  world.settle(seconds{3600});
  CHECK(world.status_writes == writes);

  world.is_kubelet_on = true;
  world.group->status.is_finished = true;
  world.succeed(0);
  world.succeed(1);
  world.settle(seconds{60});
  CHECK(world.condition("Complete") == "True");
  CHECK(world.live_pods() == 0);
  CHECK(world.broken.empty());
}
