// What the next attempt waits for, and what it follows when nobody failed.
#include <catch2/catch_test_macros.hpp>

#include "operator/core/steps.h"
#include "tests/unit/operator/world.h"

using namespace pawl;
using namespace pawl::test;
using std::chrono::seconds;

TEST_CASE("restart: nothing is created while an older pod may still run",
          "[core][I4][B29][A16][H5]") {
  World world(2);
  world.settle();
  world.is_kubelet_on = false;
  world.fail(0, 1, "Error");
  world.settle(seconds{60});
  CHECK(world.job.status.attempt == 2);
  CHECK(world.pods.size() == 1);  // the old neighbour terminates
  CHECK(world.pods.begin()->second.meta.deletion_time.has_value());
  CHECK(world.job.status.reason == "WaitingForPods");
  CHECK(world.group->spec.attempt == 2);  // so that the old one learns that it is void
  world.finish_terminating();
  world.settle(seconds{60});
  CHECK(world.pods.size() == 2);
  CHECK(world.broken.empty());
}

TEST_CASE("resize: another size is a free restart; before anything ran it is none",
          "[core][I17][A37][A38][C1][F3]") {
  World world(2);
  world.settle();
  world.set_spec([](auto& spec) { spec.replicas = 3; });
  world.settle(seconds{60});
  CHECK(world.text() == "Running attempt 2 counted 0 free 1 ready 3/3 live 3 Resized=1");

  World early(2);
  early.is_kubelet_on = false;
  early.apply(early.plan().actions[0]);
  early.group = api::WorkerGroup{};
  early.group->meta.name = "gpt";
  early.group->meta.resource_version = "7";
  early.group->meta.owners = {{"", "", "", "job-uid", true}};
  early.group->spec.attempt = 1;
  early.group->spec.target_members = 2;
  early.group->spec.pods = {{0, "gpt-1-0-0", "", 0, 0}, {1, "gpt-1-1-0", "", 0, 1}};
  early.set_spec([](auto& spec) { spec.replicas = 1; });
  early.settle();
  CHECK(early.job.status.attempt == 1);
  CHECK(early.group->spec.target_members == 1);
  CHECK(early.pods.size() == 1);
}

TEST_CASE(
    "record: a deleted WorkerGroup or a lost status leads to an attempt above all that was seen",
    "[core][I18][A24]") {
  World world(2);
  world.settle();
  world.group.reset();
  world.settle(seconds{60});
  CHECK(world.text() == "Running attempt 2 counted 0 free 1 ready 2/2 live 2 RecordLost=1");

  World cleared(2);
  cleared.settle();
  cleared.fail(0, 1, "Error");
  cleared.settle(seconds{60});
  REQUIRE(cleared.job.status.attempt == 2);
  cleared.job.status = {};
  cleared.settle(seconds{60});
  CHECK(cleared.job.status.attempt == 3);
  CHECK(cleared.job.status.phase == "Running");
  CHECK(cleared.broken.empty());
}

TEST_CASE("restart: a record that was deleted with all its pods is not begun again in its attempt",
          "[core][I18]") {
  World world(2);
  world.settle(seconds{10});
  REQUIRE(world.job.status.replicas == 2);
  world.group.reset();
  world.pods.clear();
  world.settle(seconds{60});
  CHECK(world.text() == "Running attempt 2 counted 0 free 1 ready 2/2 live 2 RecordLost=1");
}

TEST_CASE("restart: labels that somebody edited change nothing", "[core][B25]") {
  World world(2);
  world.settle();
  world.pod(0).meta.labels.clear();
  world.pod(1).meta.labels = {{"pawl.dev/attempt", "banana"}};
  CHECK(world.plan().actions.empty());
}

TEST_CASE("restart: a gang that saves because a pod terminates is not voided while it may",
          "[core][I6b]") {
  World world(2);
  world.settle();
  world.report(10);
  world.is_kubelet_on = false;
  world.pod(1).meta.deletion_time = world.now + seconds{60};
  world.settle(seconds{20});
  CHECK(world.job.status.attempt == 1);
  CHECK(world.group->spec.attempt == 1);
  CHECK(world.live_pods() == 2);
  CHECK_FALSE(world.pod(0).meta.deletion_time.has_value());
  CHECK(world.job.status.reason == "MemberLeaving");
  CHECK(
      world.job.status.message.starts_with("rank 1 (pod gpt-1-1-0 on node node-a) was deleted; "
                                           "its gang may save until "));
  std::string cause = "Deleted";
  SECTION("it left in time") {
    world.pod(1).phase = api::PodPhase::kFailed;
    world.pod(1).exit_code = 74;
  }
  SECTION("its neighbours left first: no victim is blamed") {
    world.fail(0, 75, "Victim");
    world.settle(seconds{10});
    CHECK(world.job.status.attempt == 1);
    world.pod(1).phase = api::PodPhase::kFailed;
  }
  SECTION("its node is lost: its time runs out") {
    world.pod(1).has_disruption_target = true;
    world.pod(1).disruption_reason = "DeletionByTaintManager";
    world.settle(seconds{60});
    cause = "NodeLost";
  }
  world.settle(seconds{10});
  CHECK(world.job.status.attempt == 2);
  CHECK(world.job.status.restarts.by_cause == std::map<std::string, int>{{cause, 1}});
  CHECK(world.job.status.restarts.counted == 0);
  CHECK(world.broken.empty());
}

TEST_CASE("restart: before its gang has a generation a terminating pod is lost at once",
          "[core][I6b]") {
  World world(2);
  world.settle();
  world.is_kubelet_on = false;
  world.pod(1).meta.deletion_time = world.now + seconds{60};
  world.settle();
  CHECK(world.job.status.attempt == 2);
}

TEST_CASE("restart: exit 93 beside a terminating pod ends the job at once", "[core][I5][I6b]") {
  World world(2);
  world.settle();
  world.report(10);
  world.is_kubelet_on = false;
  world.pod(1).meta.deletion_time = world.now + seconds{60};
  world.fail(0, 93);
  world.settle();
  CHECK(world.condition("FailureTarget") == "True");
}
