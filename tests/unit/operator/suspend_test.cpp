#include <catch2/catch_test_macros.hpp>

#include "common/api/children.h"
#include "common/base/json.h"
#include "tests/unit/operator/world.h"

using namespace pawl;
using namespace pawl::test;
using std::chrono::seconds;

TEST_CASE("suspend: a job created suspended makes nothing", "[core][I19][A18]") {
  World world;
  world.set_suspended(true);
  world.settle();
  CHECK(world.text() == "Suspended attempt 0 counted 0 free 0 ready 0/2 live 0");
  CHECK(world.children.empty());
  CHECK_FALSE(world.group);
  CHECK(world.condition("Suspended") == "True");
  world.set_suspended(false);
  world.settle(seconds{60});
  CHECK(world.text() == "Running attempt 1 counted 0 free 0 ready 2/2 live 2");
}

TEST_CASE("suspend: the gang is asked to save, and left alone until it has left",
          "[core][I19][A20][C2]") {
  World world;
  world.settle();
  world.set_suspended(true);
  world.settle();
  CHECK(world.group->spec.is_stopping);
  CHECK(world.live_pods() == 2);
  CHECK(world.job.status.phase == "Running");
  CHECK(world.job.status.reason == "Suspending");
  world.report(50, 50);
  world.fail(0, 86);
  world.fail(1, 86);
  world.settle();
  CHECK(world.text() == "Suspended attempt 1 counted 0 free 0 ready 0/2 live 0");
  CHECK(world.pods.empty());
  CHECK(world.job.status.checkpoint->step == 50);
  CHECK(world.job.status.message.find("saved at step 50") != std::string::npos);
}

TEST_CASE("suspend: who does not leave in time is deleted", "[core][I19]") {
  World world;
  world.settle();
  world.set_suspended(true);
  world.settle(seconds{29});
  CHECK(world.live_pods() == 2);
  world.settle(seconds{2});
  CHECK(world.job.status.phase == "Suspended");
  CHECK(world.pods.empty());
}

TEST_CASE("suspend: a gang that never ran has nothing to save", "[core][I19]") {
  World world;
  world.is_kubelet_on = false;
  world.settle();
  world.set_suspended(true);
  world.settle();
  world.finish_terminating();
  world.settle();
  CHECK(world.job.status.phase == "Suspended");
  CHECK_FALSE(world.group->spec.is_stopping);
}

TEST_CASE("resume: another attempt, never a restart, and the clock starts again",
          "[core][I20][B42][A19][B2][C2][D9][H7]") {
  World world;
  world.settle();
  const auto first_start = world.job.status.start_time;
  world.set_suspended(true);
  world.settle(seconds{40});
  world.now += seconds{1000};
  world.set_suspended(false);
  world.settle(seconds{60});
  CHECK(world.text() == "Running attempt 2 counted 0 free 0 ready 2/2 live 2");
  CHECK(world.job.status.start_time > first_start);
  CHECK_FALSE(world.group->spec.is_stopping);
  CHECK(world.condition("Suspended") == "False");
  CHECK(world.events == std::vector<std::string>{"Running", "Suspended", "Resumed", "Running"});
}

TEST_CASE("suspend: a change of mind in the middle is carried through, then resumed",
          "[core][I19][E3][G7]") {
  World world;
  world.settle();
  world.set_suspended(true);
  world.settle();
  world.set_suspended(false);
  world.settle();
  CHECK(world.job.status.attempt == 1);
  CHECK(world.group->spec.is_stopping);
  world.fail(0, 86);
  world.fail(1, 86);
  world.settle(seconds{60});
  CHECK(world.text() == "Running attempt 2 counted 0 free 0 ready 2/2 live 2");
}

TEST_CASE("suspend: members that finish meanwhile complete the job", "[core][I9]") {
  World world;
  world.settle();
  world.set_suspended(true);
  world.settle();
  world.succeed_all();
  world.settle();
  CHECK(world.job.status.phase == "Complete");
}

TEST_CASE("suspend: during a back-off nothing is left to wait for", "[core][I19][A17]") {
  World world;
  world.settle();
  world.fail(0, 1, "Error");
  world.settle();
  REQUIRE(world.job.status.phase == "Restarting");
  world.set_suspended(true);
  world.settle();
  CHECK(world.job.status.phase == "Suspended");
  CHECK(world.condition("Restarting") == "False");
  world.set_suspended(false);
  world.settle(seconds{60});
  CHECK(world.text() == "Running attempt 3 counted 1 free 0 ready 2/2 live 2 Error=1");
}

TEST_CASE("suspend: a template that was edited meanwhile is the one that runs",
          "[core][I20][A21][A22][D5]") {
  World world;
  world.settle();
  world.set_suspended(true);
  world.settle(seconds{40});
  REQUIRE(world.job.status.phase == "Suspended");
  const std::string edited =
      R"({"spec":{"containers":[{"name":"worker","image":"example/train:2","command":["/train"]}]}})";
  // Edit and resume in one write, which the API server takes.
  world.set_spec([&](auto& spec) {
    spec.template_json = edited;
    spec.replicas = 3;
    spec.is_suspended = false;
  });
  world.settle(seconds{60});
  CHECK(world.text() == "Running attempt 2 counted 0 free 0 ready 3/3 live 3");
  const auto pod = api::worker_pod_of(world.job, 2, 2, 0, world.policy.children);
  CHECK(pod.value()["spec"]["containers"][0]["image"] == "example/train:2");
  CHECK(world.group->spec.target_members == 3);
}

TEST_CASE("scale: a suspended job is resized without a restart", "[core][I17][A37]") {
  World world;
  world.settle();
  world.set_suspended(true);
  world.settle(seconds{40});
  world.set_spec([](auto& spec) { spec.replicas = 5; });
  world.settle(seconds{40});
  CHECK(world.job.status.attempt == 1);
  world.set_suspended(false);
  world.settle(seconds{60});
  CHECK(world.text() == "Running attempt 2 counted 0 free 0 ready 5/5 live 5");
}

// Seed 932705: after a resume the next operator read a list of before, and deleted the new gang.
TEST_CASE("suspend: a view of before the resume stops nothing of the attempt after it",
          "[core][I19]") {
  World world;
  world.settle();
  world.set_suspended(true);
  world.settle(seconds{60});
  const api::TrainingJob before = world.job;
  REQUIRE(world.condition("Suspended") == "True");
  world.set_suspended(false);
  world.settle(seconds{60});
  REQUIRE(world.condition("Running") == "True");
  core::Observed seen = world.observed();
  seen.job = &before;
  const core::Plan plan = core::plan(seen, world.policy, world.now);
  REQUIRE(plan.actions.size() == 1);
  CHECK(std::holds_alternative<core::PatchStatus>(plan.actions[0]));
  // Of a status that somebody cut the same is true, and then it is stopped.
  world.job.status = {};
  world.set_suspended(true);
  world.settle(seconds{60});
  CHECK(world.condition("Suspended") == "True");
  CHECK(world.pods.empty());
}
