// Deadlines, success and clean-up policies, foreign managers, and pods that do not end.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>

#include "operator/core/pods.h"
#include "tests/unit/operator/world.h"

using namespace pawl;
using namespace pawl::test;
using std::chrono::seconds;

TEST_CASE("deadlines: activeSeconds fails the job then, not before, and over restarts",
          "[core][I27][B4][C5][E6]") {
  World world;
  world.set_spec([](auto& spec) { spec.deadlines.active_seconds = 100; });
  world.settle(seconds{50});
  world.fail(0, 1, "Error");
  world.settle(seconds{49});
  CHECK(world.job.status.phase == "Running");
  world.settle(seconds{2});
  CHECK(world.text() == "Failed attempt 2 counted 1 free 0 ready 0/2 live 0 Error=1");
  CHECK(world.job.status.reason == "DeadlineExceeded");
  CHECK(world.job.status.message ==
        "the job has been active for longer than 100 s (deadlines.activeSeconds)");
}

TEST_CASE("deadlines: suspended time counts for none, and the clock starts again at resume",
          "[core][I27][B4][B42][C5][E6]") {
  World world;
  world.set_spec([](auto& spec) {
    spec.deadlines.active_seconds = 100;
    spec.deadlines.start_seconds = 60;
  });
  world.set_suspended(true);
  world.settle(seconds{1000});
  REQUIRE(world.job.status.phase == "Suspended");
  world.set_suspended(false);
  world.settle(seconds{90});
  REQUIRE(world.job.status.phase == "Running");
  world.set_suspended(true);
  world.settle(seconds{1000});
  world.set_suspended(false);
  world.settle(seconds{90});
  CHECK(world.job.status.phase == "Running");
  world.settle(seconds{11});
  CHECK(world.job.status.reason == "DeadlineExceeded");
}

TEST_CASE("deadlines: a clock that went back fails nothing, and is waited out",
          "[core][I27][B42]") {
  World world;
  world.set_spec([](auto& spec) {
    spec.deadlines.active_seconds = 100;
    spec.deadlines.progress_seconds = 50;
  });
  world.settle();
  world.report(1);
  world.settle(seconds{10});
  world.now -= seconds{3600};
  world.settle(seconds{200});
  CHECK(world.job.status.phase == "Running");
  CHECK(world.status_writes < 10);
}

TEST_CASE("deadlines: startSeconds bounds each attempt's start and says what was in the way",
          "[core][I27][E4]") {
  World world;
  world.set_spec([](auto& spec) { spec.deadlines.start_seconds = 60; });
  world.is_kubelet_on = false;
  world.settle();
  world.pod(1).unschedulable_message = "0/3 nodes are available: 3 Insufficient cpu.";
  world.settle(seconds{59});
  CHECK(world.job.status.phase == "Starting");
  world.settle(seconds{2});
  CHECK(world.condition("FailureTarget") == "True");
  CHECK(world.job.status.reason == "StartDeadlineExceeded");
  CHECK(world.job.status.message ==
        "0/2 workers ready; 1 cannot start: Unschedulable (pod gpt-1-1-0): 0/3 nodes are "
        "available: 3 Insufficient cpu.; attempt 1 had 60 s to start (deadlines.startSeconds)");

  World well;
  well.set_spec([](auto& spec) { spec.deadlines.start_seconds = 60; });
  well.settle(seconds{1000});
  CHECK(well.job.status.phase == "Running");
}

TEST_CASE("hang: a gang that reports no new step is restarted, and it counts", "[core][I28][G6]") {
  World world;
  world.set_spec([](auto& spec) { spec.deadlines.progress_seconds = 50; });
  world.settle();
  for (int step = 1; step <= 5; ++step) {
    world.report(step);
    world.settle(seconds{40});
    REQUIRE(world.job.status.attempt == 1);
  }
  world.settle(seconds{12});
  CHECK(world.text() == "Running attempt 2 counted 1 free 0 ready 2/2 live 2 Hang=1");
  CHECK(world.job.status.last_failure->cause == "Hang");
  CHECK(world.job.status.last_failure->message ==
        "no new step for 50 s (deadlines.progressSeconds); the last was step 5");
}

TEST_CASE("hang: is not believed of a record that has moved on", "[core][I28][B12]") {
  World world;
  world.set_spec([](auto& spec) { spec.deadlines.progress_seconds = 50; });
  world.settle();
  world.report(7);
  world.settle(seconds{5});
  world.now += seconds{51};
  const core::Plan plan = world.plan();
  world.report(8);  // which this plan has not seen
  CHECK_FALSE(world.apply(plan.actions.at(0)));
  world.settle();
  CHECK(world.job.status.attempt == 1);
}

TEST_CASE("hang: a program that never told its progress is left alone; Native is not",
          "[core][I28]") {
  for (const auto kind : {api::RuntimeKind::kCustom, api::RuntimeKind::kNative}) {
    World world(2, kind);
    world.set_spec([](auto& spec) { spec.deadlines.progress_seconds = 50; });
    world.settle(seconds{60});
    CHECK(world.job.status.attempt == (kind == api::RuntimeKind::kNative ? 2 : 1));
  }
}

TEST_CASE("hang: no anchor is lost in a crash", "[core][I28][B42]") {
  World world;
  world.set_spec([](auto& spec) { spec.deadlines.progress_seconds = 50; });
  world.settle();
  world.report(7);
  world.settle(seconds{30});
  world.status_written_at.reset();  // another process
  world.settle(seconds{19});
  CHECK(world.job.status.attempt == 1);
  world.settle(seconds{5});
  CHECK(world.job.status.attempt == 2);
}

TEST_CASE("clean_pods: Running, All and None after success and failure",
          "[core][I29][C3][F2][B27][A27]") {
  struct Case {
    api::CleanPodPolicy policy;
    bool is_success;
    std::size_t kept;  // of two
  };
  using enum api::CleanPodPolicy;
  for (const Case& each : std::vector<Case>{{kRunning, true, 2},
                                            {kRunning, false, 1},
                                            {kAll, true, 0},
                                            {kAll, false, 0},
                                            {kNone, true, 2},
                                            {kNone, false, 2}}) {
    INFO("policy " << static_cast<int>(each.policy) << ", success " << each.is_success);
    World world(2);
    world.set_spec([&](auto& spec) { spec.clean_pod_policy = each.policy; });
    world.settle();
    if (each.is_success) {
      world.succeed_all();
    } else {
      world.fail(0, 93);
      if (each.policy == kNone) {
        world.settle();
        CHECK(world.group->spec.is_stopping);
        CHECK(world.condition("Failed") == "");
        world.fail(1, 86);  // it was told to stop, and did
      }
    }
    world.settle(seconds{60});
    CHECK(world.job.status.phase == (each.is_success ? "Complete" : "Failed"));
    CHECK(world.pods.size() == each.kept);
    CHECK(world.live_pods() == 0);
    CHECK(world.plan().actions.empty());
  }
}

TEST_CASE("clean_pods: None does not let a worker that ignores the request hold its node",
          "[core][I29][B27]") {
  World world(2);
  world.set_spec([](auto& spec) { spec.clean_pod_policy = api::CleanPodPolicy::kNone; });
  world.settle();
  world.fail(0, 93);
  world.settle(seconds{29});
  CHECK(world.live_pods() == 1);
  world.settle(seconds{2});
  CHECK(world.live_pods() == 0);
  CHECK(world.job.status.phase == "Failed");
}

TEST_CASE("managed_by: of somebody else's job nothing is made and nothing written",
          "[core][I30][A33][B3][H11]") {
  for (const bool is_suspended : {false, true}) {
    World world;
    world.set_spec([&](auto& spec) {
      spec.managed_by = "kueue.x-k8s.io/multikueue";
      spec.is_suspended = is_suspended;
    });
    world.job.status.phase = "Running";  // written by the other one
    world.settle(seconds{60});
    CHECK(world.status_writes == 0);
    CHECK(world.children.empty());
    CHECK(world.events.empty());
    CHECK_FALSE(world.plan().wake_up);
  }
  World ours;
  ours.set_spec([](auto& spec) { spec.managed_by = "pawl.dev/operator"; });
  ours.settle(seconds{60});
  CHECK(ours.job.status.phase == "Running");
}

TEST_CASE("ttl: 0 deletes at once, absent never, and it may be changed after the end",
          "[core][I11][A34][C6][B31]") {
  World zero(1);
  zero.set_spec([](auto& spec) { spec.ttl_seconds_after_finished = 0; });
  zero.settle();
  zero.succeed_all();
  zero.settle();
  CHECK(zero.is_job_gone);

  World never(1);
  never.settle();
  never.succeed_all();
  never.settle(seconds{1'000'000});
  CHECK_FALSE(never.is_job_gone);
  CHECK_FALSE(never.plan().wake_up);
  never.set_spec([](auto& spec) { spec.ttl_seconds_after_finished = 10; });
  never.settle();
  CHECK(never.is_job_gone);
}

TEST_CASE("ttl: a completion time that somebody took away is written again, and counts",
          "[core][I10][I11][B10]") {
  World world(1);
  world.set_spec([](auto& spec) { spec.ttl_seconds_after_finished = 100; });
  world.settle();
  world.succeed_all();
  world.settle();
  const auto ended = world.job.status.completion_time;
  REQUIRE(ended.has_value());
  world.job.status.completion_time.reset();
  world.settle();
  CHECK(world.job.status.completion_time == ended);
  world.settle(seconds{120});
  CHECK(world.is_job_gone);
}

TEST_CASE("termination: a pod that does not end is given up after its time-out",
          "[core][I31][B28][H5]") {
  World world(2);
  world.settle();
  world.is_kubelet_on = false;  // the node is dead: nobody ends the pod
  world.delete_pod(1);
  world.settle();
  REQUIRE(world.job.status.attempt == 2);
  world.pods.erase("gpt-1-0-0");  // the healthy one has ended
  world.settle(seconds{299});
  CHECK(world.job.status.reason == "WaitingForPods");
  CHECK(world.pods.size() == 1);
  world.settle(seconds{2});
  CHECK(world.pods.size() == 3);
  CHECK(world.events.back() == "PodGivenUp");
  // The new gang runs and completes beside it; the record says the new attempt.
  CHECK(world.group->spec.attempt == 2);
  for (const int slot : {0, 1}) {
    world.pod(slot).phase = api::PodPhase::kRunning;
    world.pod(slot).is_ready = true;
  }
  world.settle(seconds{60});
  CHECK(world.text() == "Running attempt 2 counted 0 free 1 ready 2/2 live 3 Deleted=1");
  world.succeed_all();
  world.settle(seconds{60});
  CHECK(world.job.status.phase == "Complete");
  CHECK(world.plan().actions.empty());
  CHECK(world.broken.empty());
}

TEST_CASE("termination: a pod that is given up holds up neither suspension nor the end",
          "[core][I31][B28]") {
  World world(2);
  world.set_spec([](auto& spec) { spec.pod_termination_timeout_seconds = 60; });
  world.settle();
  world.is_kubelet_on = false;
  world.set_suspended(true);
  world.settle(seconds{31});  // they do not save; now they are being deleted
  REQUIRE(world.pod(0).meta.deletion_time.has_value());
  world.settle(seconds{30 + 58});  // its own grace, and then the time-out
  CHECK(world.condition("Suspended") == "False");
  world.settle(seconds{3});
  CHECK(world.job.status.phase == "Suspended");
  CHECK(world.job.status.replicas == 0);
}

TEST_CASE("termination: the late return of a pod that was given up changes nothing",
          "[core][I31][B29][B40]") {
  World world(1);
  world.settle();
  world.is_kubelet_on = false;
  world.delete_pod(0);
  world.settle(seconds{310});
  world.pod(0).phase = api::PodPhase::kRunning;
  world.pod(0).is_ready = true;
  world.settle(seconds{60});
  REQUIRE(world.job.status.attempt == 2);
  const std::string before = world.text();
  // Its node is back: its launcher's report is of attempt 1, the kubelet ends it.
  world.group->status.attempt = 1;
  world.group->status.generation = 1;
  world.group->status.progress = api::Progress{.step = 99};
  world.group->status.is_finished = true;
  world.pods.at("gpt-1-0-0").phase = api::PodPhase::kFailed;
  world.pods.at("gpt-1-0-0").exit_code = 1;
  world.settle(seconds{60});
  CHECK(world.job.status.restarts.counted == 0);
  CHECK_FALSE(world.job.status.progress);
  CHECK(world.text().substr(0, 40) == before.substr(0, 40));
  CHECK(world.pods.contains("gpt-2-0-0"));
}

TEST_CASE("checkpoints: a run of failures is told once, and so is the recovery", "[core][I32]") {
  World world(1, api::RuntimeKind::kNative);
  world.settle();
  world.report(10, 10);
  world.settle(seconds{60});
  CHECK(world.condition("CheckpointHealthy") == "True");
  const int writes = world.status_writes;
  world.group->status.checkpoint_failures = {1, "step 20: no space left on device", world.now};
  world.settle(seconds{60});
  CHECK(world.condition("CheckpointHealthy") == "True");
  CHECK(world.status_writes == writes);
  for (int count = 2; count <= 5; ++count) {
    world.group->status.checkpoint_failures.count = count;
    world.settle(seconds{60});
  }
  CHECK(world.condition("CheckpointHealthy") == "False");
  const auto told = std::ranges::count(world.events, std::string("CheckpointFailed"));
  CHECK(told == 1);
  const auto found =
      std::ranges::find(world.job.status.conditions, "CheckpointHealthy", &api::Condition::type);
  CHECK(found->message ==
        "5 checkpoints in a row could not be saved; the last: step 20: no space left on device");
  world.group->status.checkpoint_failures = {};
  world.settle(seconds{60});
  CHECK(world.condition("CheckpointHealthy") == "True");
}
