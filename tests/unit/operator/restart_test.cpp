#include <catch2/catch_test_macros.hpp>

#include "operator/core/steps.h"
#include "tests/unit/operator/world.h"

using namespace pawl;
using namespace pawl::test;
using std::chrono::seconds;

TEST_CASE("restart: a failed member restarts the whole gang and spends the budget",
          "[core][I4][I5][A4][A17]") {
  World world(2);
  world.settle();
  world.fail(1, 1, "Error");
  world.settle(seconds{60});
  CHECK(world.text() == "Running attempt 2 counted 1 free 0 ready 2/2 live 2 Error=1");
  CHECK(world.job.status.last_failure->rank == 1);
  CHECK(world.job.status.last_failure->exit_code == 1);
  CHECK(world.job.status.last_failure->log_tail == "last words of 1");
  CHECK(world.job.status.last_failure->pod == "gpt-1-1-0");
  CHECK(world.job.status.last_failure->node == "node-a");
  CHECK(world.condition("Restarting") == "False");
  CHECK(world.broken.empty());
}

TEST_CASE("restart: maxRestarts is spent exactly, then the job fails and keeps no pod running",
          "[core][I5][A6][E1]") {
  World world(2);
  world.set_spec([](auto& spec) { spec.max_restarts = 2; });
  for (int attempt = 1; attempt <= 3; ++attempt) {
    world.settle(seconds{120});
    REQUIRE(world.job.status.attempt == attempt);
    REQUIRE(world.job.status.phase == "Running");
    world.fail(0, 1, "Error");
  }
  world.settle(seconds{120});
  CHECK(world.text() == "Failed attempt 3 counted 2 free 0 ready 0/2 live 0 Error=2");
  CHECK(world.condition("FailureTarget") == "True");
  CHECK(world.job.status.message ==
        "rank 0 (pod gpt-3-0-0 on node node-a) ended with exit code 1; 2 of 2 restarts used");
  CHECK(world.job.status.reason == "MaxRestartsReached");
}

TEST_CASE("restart: preemption, eviction, deletion and lost nodes do not spend the budget",
          "[core][I6][B26][A13]") {
  struct Case {
    std::string cause;
    std::function<void(api::PodView&)> happens;
  };
  const std::vector<Case> cases{
      {"Deleted", [](auto& pod) { pod.meta.deletion_time = TimePoint{}; }},
      {"Preempted",
       [](auto& pod) {
         pod.meta.deletion_time = TimePoint{};
         pod.has_disruption_target = true;
         pod.disruption_reason = "PreemptionByScheduler";
       }},
      {"Preempted",
       [](auto& pod) {
         pod.meta.deletion_time = TimePoint{};
         pod.has_disruption_target = true;
         pod.disruption_reason = "WorkloadEvictedDueToPreempted";
       }},
      {"Evicted",
       [](auto& pod) {
         pod.meta.deletion_time = TimePoint{};
         pod.has_disruption_target = true;
         pod.disruption_reason = "WorkloadEvictedDueToPodsReadyTimeout";
       }},
      {"Evicted",
       [](auto& pod) {
         pod.phase = api::PodPhase::kFailed;
         pod.reason = "Evicted";
         pod.message = "The node was low on resource: memory.";
         pod.exit_code = 137;
       }},
      {"NodeLost",
       [](auto& pod) {
         pod.meta.deletion_time = TimePoint{};
         pod.has_disruption_target = true;
         pod.disruption_reason = "DeletionByTaintManager";
       }},
      {"NodeLost",
       [](auto& pod) {
         pod.phase = api::PodPhase::kFailed;
         pod.reason = "NodeShutdown";
       }},
      {"NodeRefused",
       [](auto& pod) {
         pod.phase = api::PodPhase::kFailed;
         pod.reason = "OutOfcpu";
       }},
  };
  for (const Case& each : cases) {
    INFO(each.cause);
    World world(2);
    world.set_spec([](auto& spec) { spec.max_restarts = 0; });
    world.settle();
    each.happens(world.pod(1));
    world.settle(seconds{60});
    CHECK(world.text() ==
          "Running attempt 2 counted 0 free 1 ready 2/2 live 2 " + each.cause + "=1");
    CHECK(world.broken.empty());
  }
}

TEST_CASE("restart: a pod that vanished is looked for before it is believed lost",
          "[core][I7][B04]") {
  World world(2);
  world.settle();
  const api::PodView pod = world.pod(0);
  world.pods.erase(pod.meta.name);
  const core::Plan plan = world.plan();
  REQUIRE(plan.actions.size() >= 3);
  CHECK(std::get<core::ConfirmGone>(plan.actions[0]) ==
        core::ConfirmGone{core::ObjectKind::kPod, pod.meta.name, pod.meta.uid});
  CHECK(std::get<core::ConfirmRecord>(plan.actions[1]).resource_version ==
        world.group->meta.resource_version);
  CHECK(std::get<core::PatchStatus>(plan.actions[2]).after.attempt == 2);
  // It is still there; the cache was behind: nothing happens.
  world.pods[pod.meta.name] = pod;
  CHECK_FALSE(world.apply(plan.actions[0]));
}

TEST_CASE("restart: an out-of-memory kill counts and is named", "[core][I5]") {
  World world(2);
  world.settle();
  world.fail(0, 137);
  world.pod(0).terminated_reason = "OOMKilled";
  world.settle(seconds{60});
  CHECK(world.job.status.restarts.by_cause.at("OOM") == 1);
  CHECK(world.job.status.restarts.counted == 1);
}

TEST_CASE("restart: victims are never blamed when a culprit is known, whoever is seen first",
          "[core][I8]") {
  World world(3);
  world.settle();
  world.fail(0, 75, "Victim");
  world.settle();
  CHECK(world.job.status.attempt == 1);  // waits for the culprit
  CHECK(world.job.status.reason == "MemberLost");
  world.fail(2, 1, "Error");
  world.settle(seconds{60});
  CHECK(world.job.status.attempt == 2);
  CHECK(world.job.status.last_failure->rank == 2);
  CHECK(world.job.status.restarts.counted == 1);
}

TEST_CASE("restart: the gang's report names the culprit that no pod shows", "[core][I8]") {
  World world(2);
  world.settle();
  world.report(10);
  api::Failure lost;
  lost.rank = 1;
  lost.cause = "NodeLost";
  lost.attempt = 1;
  lost.pod_uid = world.pod(1).meta.uid;
  lost.pod = "gpt-1-1-0";
  world.group->status.failures.push_back(lost);
  world.fail(0, 75, "Victim");
  world.settle(seconds{60});
  CHECK(world.job.status.last_failure->cause == "NodeLost");
  CHECK(world.job.status.restarts.free == 1);
  CHECK(world.job.status.attempt == 2);
}

TEST_CASE("restart: a member that only fell silent is judged by its pod", "[core][I6][I8][B26]") {
  const auto lose_touch = [](World& world) {
    world.settle();
    world.report(10);
    api::Failure lost;
    lost.rank = 1;
    lost.cause = "Unknown";
    lost.message = "nothing heard";
    lost.attempt = 1;
    lost.pod_uid = world.pod(1).meta.uid;
    lost.pod = "gpt-1-1-0";
    world.group->status.failures.push_back(lost);
    world.fail(0, 75, "Victim");
  };
  SECTION("its node died: the pod says nothing, and nobody is blamed") {
    World world(2);
    lose_touch(world);
    world.settle();
    CHECK(world.job.status.reason == "MemberLost");
    world.settle(seconds{60});
    CHECK(world.job.status.last_failure->cause == "NodeLost");
    CHECK(world.job.status.restarts.free == 1);
    CHECK(world.job.status.restarts.counted == 0);
  }
  SECTION("its container was killed: the pod says so soon, and it counts") {
    World world(2);
    lose_touch(world);
    world.settle();
    world.fail(1, 137);
    world.settle(seconds{60});
    CHECK(world.job.status.restarts.counted == 1);
  }
  SECTION("it left as a victim itself") {
    World world(2);
    lose_touch(world);
    world.fail(1, 75, "Victim");
    world.settle(seconds{60});
    CHECK(world.job.status.restarts.by_cause.contains("Retry"));
    CHECK(world.job.status.restarts.counted == 0);
  }
}

TEST_CASE("restart: only victims: free, after a bounded wait", "[core][I8]") {
  World world(2);
  world.settle();
  world.fail(0, 75);
  world.settle(seconds{60});
  CHECK(world.text() == "Running attempt 2 counted 0 free 1 ready 2/2 live 2 Retry=1");
}

TEST_CASE("restart: exit code 93 fails the job at once", "[core][I5][C4]") {
  World world(2);
  world.settle();
  world.fail(0, 93, "Error");
  world.settle(seconds{60});
  CHECK(world.job.status.phase == "Failed");
  CHECK(world.job.status.reason == "FatalExit");
  CHECK(world.job.status.attempt == 1);
  CHECK(world.live_pods() == 0);
}

TEST_CASE("failure: Failed is written when the last pod has ended, not before",
          "[core][I9][H3][B1][F2]") {
  World world(3);
  world.settle();
  world.is_kubelet_on = false;
  world.fail(0, 93);
  world.settle(seconds{60});
  CHECK(world.condition("FailureTarget") == "True");
  CHECK(world.condition("Failed") == "");
  CHECK_FALSE(world.job.status.completion_time);
  CHECK(world.pod(1).meta.deletion_time.has_value());
  world.finish_terminating();
  world.settle(seconds{60});
  CHECK(world.condition("Failed") == "True");
  CHECK(world.pods.size() == 1);  // the culprit's pod stays, for its log
}

TEST_CASE("restart: three attempts in a row without progress end a job that tells its progress",
          "[core][I12]") {
  World world(1, api::RuntimeKind::kNative);
  world.set_spec([](auto& spec) { spec.max_restarts = 100; });
  for (int attempt = 1; attempt <= 3; ++attempt) {
    world.settle(seconds{120});
    REQUIRE(world.job.status.attempt == attempt);
    world.fail(0, 1, "Error");
  }
  world.settle(seconds{120});
  CHECK(world.job.status.phase == "Failed");
  CHECK(world.job.status.reason == "NoProgress");
}

TEST_CASE("restart: a newer checkpoint starts the count again; disruptions do not count",
          "[core][I12]") {
  World world(1, api::RuntimeKind::kNative);
  world.set_spec([](auto& spec) { spec.max_restarts = 100; });
  for (int attempt = 1; attempt <= 12; ++attempt) {
    world.settle(seconds{120});
    REQUIRE(world.job.status.attempt == attempt);
    if (attempt % 2 == 0) world.report(attempt * 10, attempt * 10);
    if (attempt % 3 == 0) {
      world.delete_pod(0);
    } else {
      world.fail(0, 1, "Error");
    }
  }
  world.settle(seconds{120});
  CHECK(world.job.status.phase == "Running");
  CHECK(world.job.status.attempt == 13);
}

TEST_CASE("restart: an image that tells no progress keeps its whole budget", "[core][I12]") {
  World world(1, api::RuntimeKind::kCustom);
  world.set_spec([](auto& spec) { spec.max_restarts = 5; });
  for (int attempt = 1; attempt <= 6; ++attempt) {
    world.settle(seconds{120});
    REQUIRE(world.job.status.attempt == attempt);
    world.fail(0, 1, "Error");
  }
  world.settle(seconds{120});
  CHECK(world.job.status.reason == "MaxRestartsReached");
}

TEST_CASE("restart: counted restarts wait longer each time, by a wake-up", "[core][I5][B43][H6]") {
  core::Policy policy;
  api::Failure failure;
  failure.cause = "Error";
  const std::vector<int> expected{1, 1, 2, 4, 8, 16, 32, 60, 60};
  for (int i = 0; i < static_cast<int>(expected.size()); ++i) {
    CHECK(core::backoff_after(failure, i, policy) ==
          seconds{expected[static_cast<std::size_t>(i)]});
  }
  failure.cause = "Preempted";
  CHECK(core::backoff_after(failure, 5, policy) == seconds{0});

  World world(1);
  world.settle();
  world.fail(0, 1, "Error");
  const TimePoint failed_at = world.now;
  world.settle();  // no time passes
  CHECK(world.pods.empty());
  CHECK(world.job.status.phase == "Restarting");
  CHECK(world.plan().wake_up == failed_at + seconds{1});
}

TEST_CASE("restart: a loss is not judged by a record that has moved on", "[core][B04]") {
  World world(1);
  world.settle();
  world.fail(0, 75, "Victim");
  const core::Plan plan = world.plan();
  world.report(1000, 1000);  // the leader's last words, which this plan has not seen
  CHECK_FALSE(world.apply(plan.actions[0]));
  CHECK(world.job.status.attempt == 1);
}

TEST_CASE("restart: a gang that is taken away before it runs waits longer each time",
          "[core][B43]") {
  World world(1);
  world.settle();
  std::vector<std::int64_t> waits;
  for (int i = 0; i < 10; ++i) {
    world.now += seconds{1};
    world.delete_pod(0);
    world.finish_terminating();
    world.is_kubelet_on = false;  // the next one is not even started
    const TimePoint deleted_at = world.now;
    world.settle();
    for (int wait = 0; wait < 120 && world.pods.empty(); ++wait) {
      world.now += seconds{1};
      world.settle();
    }
    REQUIRE(world.pods.size() == 1);
    waits.push_back((world.now - deleted_at) / seconds{1});
  }
  CHECK(waits == std::vector<std::int64_t>{0, 1, 3, 7, 15, 31, 60, 60, 60, 60});
}

TEST_CASE("restart: the worker's exit counts, not that of a container beside it", "[core][I5]") {
  for (const int code : {0, 1}) {
    INFO("exit code " << code);
    World world(2);
    world.settle();
    // The log shipper runs on: the pod's phase stays Running.
    for (const int slot : {0, 1}) {
      world.pod(slot).exit_code = code;
      world.pod(slot).is_ready = false;
    }
    world.settle();
    // Who has no other container ends by itself at once, and keeps its log.
    if (code == 0) CHECK_FALSE(world.pod(0).meta.deletion_time.has_value());
    world.settle(seconds{60});
    if (code == 0) {
      CHECK(world.job.status.phase == "Complete");
      CHECK(world.live_pods() == 0);
    } else {
      CHECK(world.job.status.restarts.counted == 1);
      CHECK(world.job.status.attempt == 2);
    }
  }
  World world(1);
  world.settle();
  world.pod(0).phase = api::PodPhase::kFailed;  // the sidecar failed, the worker did not
  world.pod(0).exit_code = 0;
  world.settle(seconds{60});
  CHECK(world.text() == "Complete attempt 1 counted 0 free 0 ready 0/1 live 0");
}

TEST_CASE("restart: the culprit of a gang that never ran is known from its report", "[core][I8]") {
  World world(3, api::RuntimeKind::kNative);
  world.settle();
  world.group->status.attempt = 1;  // a claim, and no generation
  world.group->status.failures.push_back({.rank = 0,
                                          .pod = world.pod(0).meta.name,
                                          .pod_uid = world.pod(0).meta.uid,
                                          .exit_code = 1,
                                          .cause = "Error",
                                          .attempt = 1,
                                          .time = world.now});
  world.group->meta.resource_version += "1";
  world.fail(2, 75, "Victim");
  world.settle();
  CHECK(world.job.status.attempt == 2);
  CHECK(world.job.status.restarts.counted == 1);
  CHECK(world.job.status.last_failure->rank == 0);
}
