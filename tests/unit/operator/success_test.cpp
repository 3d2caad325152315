// When a job has succeeded, and what becomes of its pods then.
#include <catch2/catch_test_macros.hpp>

#include "tests/unit/operator/world.h"

using namespace pawl;
using namespace pawl::test;
using std::chrono::seconds;

TEST_CASE("success: Complete only when every member succeeded", "[core][I9][A2]") {
  World world(2);
  world.settle();
  world.succeed(0);
  world.settle(std::chrono::seconds{60});
  CHECK(world.condition("Complete") == "");
  world.succeed(1);
  world.settle();
  CHECK(world.condition("SuccessCriteriaMet") == "True");
  CHECK(world.condition("Complete") == "True");
  CHECK(world.job.status.phase == "Complete");
  CHECK(world.job.status.completion_time.has_value());
  CHECK(world.condition("Running") == "False");
  CHECK(world.plan().actions.empty());
}

TEST_CASE("success: a pod tidied away after the closing barrier changes nothing", "[core][I9]") {
  World world(2);
  world.settle();
  world.report(1000);
  world.group->status.is_finished = true;
  world.succeed_all();
  world.pods.erase("gpt-1-0-0");
  world.settle();
  CHECK(world.job.status.phase == "Complete");
}

TEST_CASE("success: so do all of them, while the operator was away", "[core][I9]") {
  World world(2);
  world.settle();
  world.report(1000);
  world.group->status.is_finished = true;
  world.pods.clear();
  world.settle();
  CHECK(world.text() == "Complete attempt 1 counted 0 free 0 ready 0/2 live 0");
}

TEST_CASE("success: what the gang of an earlier attempt said of its end does not count",
          "[core][I21]") {
  World world(2);
  world.settle();
  world.report(1000);
  world.fail(1, 1, "Error");
  world.settle(std::chrono::seconds{60});
  REQUIRE(world.job.status.attempt == 2);
  world.group->status.is_finished = true;
  world.group->status.lineage = {{1, 1, 0}};
  world.group->status.attempt = 2;  // claimed, not committed
  world.pods.clear();
  world.settle();
  CHECK(world.condition("SuccessCriteriaMet") == "");
}

TEST_CASE("success: Rank0 is enough where the user says so, and the others are stopped",
          "[core][I9][A3][H4]") {
  World world(3);
  world.set_spec([](auto& spec) { spec.success_policy = api::SuccessPolicy::kRank0; });
  world.settle();
  CHECK(world.group->spec.is_rank0_enough);
  world.succeed(1);
  world.settle(seconds{60});
  CHECK(world.condition("Complete") == "");
  world.succeed(0);
  world.settle();
  CHECK(world.text() == "Complete attempt 1 counted 0 free 0 ready 0/3 live 0");
  CHECK(world.job.status.message == "the worker of rank 0 succeeded");
  CHECK(world.job.status.reason == "Rank0");
}

TEST_CASE("success: with Rank0 the gang's word is enough, before any pod has ended", "[core][I9]") {
  World world(2);
  world.set_spec([](auto& spec) { spec.success_policy = api::SuccessPolicy::kRank0; });
  world.settle();
  world.report(1000);
  world.group->status.is_finished = true;
  world.settle();
  CHECK(world.condition("SuccessCriteriaMet") == "True");
  world.settle(seconds{10});
  CHECK(world.job.status.phase == "Complete");
}

TEST_CASE(
    "success: with Rank0, and no generation on record, the first in the order of ranks counts",
    "[core][I9][I51]") {
  World world = World::training(3);
  world.set_spec([](auto& spec) { spec.success_policy = api::SuccessPolicy::kRank0; });
  world.settle();
  world.group->status.members.clear();
  world.group->spec.pods[0].rank_order = 2;
  world.group->spec.pods[2].rank_order = 0;
  world.succeed(0);
  world.settle();
  CHECK(world.condition("SuccessCriteriaMet").empty());
  world.succeed(2);
  world.settle();
  CHECK(world.condition("SuccessCriteriaMet") == "True");
}

TEST_CASE("success: a gang that has trained to the end waits for nobody who came too late",
          "[core][I9][I33]") {
  World world = World::training(3);
  world.remove_pod(0);  // it was through, and its gang not yet
  world.settle();
  REQUIRE(world.pod(0).meta.name == "gpt-1-0-1");
  world.remove_pod(1);  // so was this one
  world.group->status.is_finished = true;
  world.succeed(2);
  world.settle(seconds{60});
  world.finish_terminating();
  world.settle(seconds{60});
  CHECK(world.text() == "Complete attempt 1 counted 0 free 0 ready 0/3 live 0");
}

TEST_CASE("success: how a worker ends after its gang has trained to the end changes nothing",
          "[core][I9]") {
  World world = World::training(3);
  world.is_kubelet_on = false;
  world.group->status.is_finished = true;
  world.succeed(1);
  SECTION("its launcher was told to terminate") { world.fail(0, 86, "Victim"); }
  SECTION("its node is lost") {
    world.fail(0, 137);
    world.pod(0).reason = "NodeLost";
  }
  SECTION("nothing is heard of it") {}
  world.settle(seconds{60});
  world.finish_terminating();
  world.settle(seconds{60});
  CHECK(world.text() == "Complete attempt 1 counted 0 free 0 ready 0/3 live 0");
}

TEST_CASE("success: who has trained to the end has time to end by itself", "[core][I9]") {
  World world = World::training(2);
  world.is_kubelet_on = false;
  world.group->status.is_finished = true;
  world.settle(seconds{1});
  CHECK(world.condition("SuccessCriteriaMet") == "True");
  for (int slot = 0; slot < 2; ++slot) CHECK_FALSE(world.pod(slot).meta.deletion_time);
  world.succeed(0);
  world.settle(seconds{10});
  CHECK(world.pod(1).meta.deletion_time);
  CHECK_FALSE(world.pod(0).meta.deletion_time);
}

TEST_CASE("success: with Rank0 rank 0 has time to end by itself, and the others have not",
          "[core][I9]") {
  World world = World::training(2);
  world.set_spec([](auto& spec) { spec.success_policy = api::SuccessPolicy::kRank0; });
  world.is_kubelet_on = false;
  world.group->status.is_finished = true;
  world.settle(seconds{1});
  CHECK_FALSE(world.pod(0).meta.deletion_time);
  CHECK(world.pod(1).meta.deletion_time);
}

TEST_CASE("success: who has trained to the end is not asked to stop meanwhile", "[core][I9][A27]") {
  World world = World::training(2);
  world.set_spec([](auto& spec) { spec.clean_pod_policy = api::CleanPodPolicy::kNone; });
  world.is_kubelet_on = false;
  world.group->status.is_finished = true;
  world.settle(seconds{1});
  REQUIRE(world.condition("SuccessCriteriaMet") == "True");
  CHECK_FALSE(world.group->spec.is_stopping);
  world.settle(seconds{10});
  CHECK(world.group->spec.is_stopping);
}
