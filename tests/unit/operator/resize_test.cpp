// Another size of a gang that runs: pods more or less in the same attempt.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include "tests/unit/operator/world.h"

using namespace pawl;
using namespace pawl::test;
using std::chrono::seconds;

namespace {

void scale(World& world, int replicas) {
  world.set_spec([replicas](auto& spec) { spec.replicas = replicas; });
}

std::vector<std::string> pods(const World& world) {
  std::vector<std::string> names;
  for (const auto& [name, pod] : world.pods) names.push_back(name);
  return names;
}

}  // namespace

TEST_CASE("resize: a running gang gets pods more in the same attempt",
          "[core][I17][I34][A37][A38]") {
  World world = World::training(2);
  scale(world, 4);
  world.is_kubelet_on = false;
  world.settle();
  CHECK(world.job.status.attempt == 1);
  CHECK(pods(world) ==
        std::vector<std::string>{"gpt-1-0-0", "gpt-1-1-0", "gpt-1-2-0", "gpt-1-3-0"});
  CHECK(world.group->spec.target_members == 4);
  CHECK(world.group->spec.pods[3].uid == world.pod(3).meta.uid);
  CHECK(world.condition("Running") == "True");
  CHECK(world.job.status.ready == "2/4");
  CHECK(std::ranges::count(world.events, "Resizing") == 1);
  world.is_kubelet_on = true;
  world.settle();
  world.commit_next(12);
  world.settle(seconds{60});
  CHECK(world.text() == "Running attempt 1 counted 0 free 0 ready 4/4 live 4");
  const int writes = world.status_writes, group_writes = world.group_writes;
  world.settle(seconds{600});
  CHECK(world.status_writes == writes);
  CHECK(world.group_writes == group_writes);
  for (int slot = 0; slot < 4; ++slot) world.succeed(slot);
  world.settle();
  CHECK(world.condition("Complete") == "True");
  CHECK(world.broken.empty());
}

TEST_CASE("resize: a pod leaves when its gang has gone on without it, and not before",
          "[core][I17][I34][A37][A38]") {
  World world = World::training(3);
  scale(world, 2);
  world.settle(seconds{60});
  CHECK(world.group->spec.target_members == 2);
  CHECK(world.group->spec.pods[2].uid == world.pod(2).meta.uid);
  CHECK_FALSE(world.pod(2).meta.deletion_time.has_value());
  CHECK(world.job.status.ready == "2/2");
  SECTION("it is left out") {
    world.commit_next(12);
    world.settle(seconds{60});
    CHECK_FALSE(world.pod(2).meta.deletion_time.has_value());  // nobody has made a step without it
    world.report(13);
  }
  SECTION("it has ended by itself") { world.fail(2, 75, "Victim"); }
  SECTION("it is gone") { world.remove_pod(2); }
  world.settle();
  world.finish_terminating();
  world.settle(seconds{60});
  CHECK(pods(world) == std::vector<std::string>{"gpt-1-0-0", "gpt-1-1-0"});
  CHECK(world.group->spec.pods[2].uid.empty());
  CHECK(world.text() == "Running attempt 1 counted 0 free 0 ready 2/2 live 2");

  // And back again: the slot's second pod has a name of its own.
  world.commit_next(12);
  scale(world, 3);
  world.settle();
  world.commit_next(14);
  world.settle(seconds{60});
  CHECK(pods(world) == std::vector<std::string>{"gpt-1-0-0", "gpt-1-1-0", "gpt-1-2-1"});
  CHECK(world.text() == "Running attempt 1 counted 0 free 0 ready 3/3 live 3");
  CHECK(world.broken.empty());
}

TEST_CASE("resize: taken back before anything came of it", "[core][I34]") {
  World world = World::training(2);
  scale(world, 3);
  world.is_kubelet_on = false;
  world.settle();
  REQUIRE(world.pods.size() == 3);
  scale(world, 2);
  world.settle();
  world.finish_terminating();
  world.settle(seconds{60});
  CHECK(world.pods.size() == 2);
  CHECK(world.text() == "Running attempt 1 counted 0 free 0 ready 2/2 live 2");
  CHECK(world.broken.empty());
}

TEST_CASE("resize: what keeps a pod more from starting is told; the gang runs on", "[core][I34]") {
  World world = World::training(2);
  world.is_kubelet_on = false;
  scale(world, 3);
  world.settle();
  world.pod(2).unschedulable_message = "0/2 nodes are available: 2 Insufficient nvidia.com/gpu.";
  world.settle(seconds{60});
  CHECK(world.job.status.phase == "Running");
  CHECK(world.job.status.message ==
        "2/3 workers ready in attempt 1; 1 cannot start: Unschedulable (pod gpt-1-2-0): 0/2 nodes "
        "are available: 2 Insufficient nvidia.com/gpu.");
}

TEST_CASE("resize: a member that is lost meanwhile is replaced", "[core][I33][I34]") {
  World world = World::training(3);
  scale(world, 2);
  world.settle();
  world.remove_pod(0);
  world.settle();
  CHECK(world.job.status.attempt == 1);
  CHECK(world.pod(0).meta.name == "gpt-1-0-1");
  world.commit_next(12);
  world.report(13);
  world.settle();
  world.finish_terminating();
  world.settle(seconds{60});
  CHECK(pods(world) == std::vector<std::string>{"gpt-1-0-1", "gpt-1-1-0"});
}

TEST_CASE("resize: a member is replaced though no pod more can be had", "[core][I33][I34]") {
  World world = World::training(2);
  world.set_spec([](auto& spec) { spec.deadlines.start_seconds = 60; });
  world.is_kubelet_on = false;
  scale(world, 4);
  world.settle();
  SECTION("they cannot be scheduled") {}
  SECTION("they cannot be made") {
    world.remove_pod(3);
    world.refusal = core::Refusal{.action = "create Pod gpt-1-3-0",
                                  .message = "exceeded quota",
                                  .reason = "Forbidden",
                                  .retry_at = world.now + seconds{3600},
                                  .generation = world.job.meta.generation};
    for (api::EligiblePod& pod : world.group->spec.pods) {
      if (pod.slot == 3) pod.uid.clear();
    }
  }
  world.remove_pod(1);
  world.settle();
  if (world.refusal) world.refusal->retry_at = world.now;
  world.settle();
  REQUIRE(world.pod(1).meta.name == "gpt-1-1-1");
  CHECK(world.group->spec.pods[1].uid == world.pod(1).meta.uid);
  world.pod(1).is_ready = true;
  world.pod(1).phase = api::PodPhase::kRunning;
  world.commit_next(12);
  std::erase_if(world.group->status.members, [](const auto& member) { return member.slot > 1; });
  world.settle(seconds{300});
  CHECK(world.condition("Running") == "True");
  CHECK(world.job.status.ready == "2/4");
  CHECK(world.job.status.attempt == 1);
  CHECK(world.condition("FailureTarget") == "");
}

TEST_CASE("resize: who was to come in and gave up is replaced, and the gang does not notice",
          "[core][I33][I34]") {
  World world = World::training(2);
  scale(world, 3);
  world.settle();
  world.fail(2, 75, "Victim");
  world.settle(seconds{60});
  CHECK(world.job.status.attempt == 1);
  CHECK(world.pod(2).meta.name == "gpt-1-2-1");
  CHECK(world.condition("Running") == "True");
  CHECK(world.condition("Restarting") != "True");
}

TEST_CASE("resize: a job that ends or is suspended meanwhile leaves no pod behind",
          "[core][I19][I34]") {
  World world = World::training(3);
  scale(world, 2);
  world.settle();
  SECTION("suspended") { world.set_suspended(true); }
  SECTION("complete") {
    world.group->status.is_finished = true;
    for (int slot = 0; slot < 2; ++slot) world.succeed(slot);
  }
  world.settle(seconds{60});
  world.finish_terminating();
  world.settle(seconds{60});
  CHECK(world.live_pods() == 0);
}

TEST_CASE("resize: a gang that has trained to the end waits for nobody more", "[core][I9][I34]") {
  World world = World::training(2);
  SECTION("who was to come has a pod") {
    scale(world, 3);
    world.settle();
    REQUIRE(world.pods.size() == 3);
  }
  world.group->status.is_finished = true;
  scale(world, 3);
  for (int slot = 0; slot < 2; ++slot) world.succeed(slot);
  world.settle(seconds{60});
  world.finish_terminating();
  world.settle(seconds{60});
  CHECK(world.condition("Complete") == "True");
  CHECK(world.job.status.attempt == 1);
  CHECK(world.live_pods() == 0);
}

// Its launcher starts another one, so that no gang ends by it: a schedule stood still for ever.
TEST_CASE("resize: whose process was killed frees a place that is no more", "[core][I34]") {
  World world = World::training(3);
  scale(world, 2);
  world.settle();
  REQUIRE(world.group->spec.is_in_place);
  const api::PodView& pod = world.pod(2);
  world.group->status.failures.push_back({.rank = 2,
                                          .pod = pod.meta.name,
                                          .pod_uid = pod.meta.uid,
                                          .cause = "Signal",
                                          .attempt = 1,
                                          .generation = world.group->status.generation,
                                          .time = world.now});
  SECTION("it is let go") { world.fail(2, 86); }
  SECTION("its pod is killed, too") { world.fail(2, 137); }
  world.settle(seconds{60});
  CHECK(world.group->spec.pods[2].uid.empty());
  CHECK(world.group->spec.pods[2].n == 1);
  CHECK(world.job.status.attempt == 1);
}

TEST_CASE("resize: a gang that cannot go on from memory begins again", "[core][I17]") {
  World world = World::training(2);
  SECTION("before its first generation") { world.group->status.generation = 0; }
  SECTION("its strategy says so") {
    world.set_spec([](auto& spec) { spec.strategy = api::Strategy::kRecreateAll; });
    world.settle();
  }
  SECTION("nobody is left of it") {
    world.delete_pod(0);
    world.delete_pod(1);
    world.finish_terminating();
  }
  scale(world, 3);
  world.settle(seconds{60});
  CHECK(world.text() == "Running attempt 2 counted 0 free 1 ready 3/3 live 3 Resized=1");
}

TEST_CASE("resize: pods and record are taken away: another attempt, whatever the status says",
          "[core][I34]") {
  World world = World::training(2);
  world.pods.clear();
  world.group.reset();
  world.job.status.replicas = world.job.status.ready_replicas = 0;
  world.settle(seconds{60});
  CHECK(world.job.status.attempt == 2);
}

// Its record may be gone as well: a status that counts none of them would not tell of the attempt.
TEST_CASE("resize: a gang of which nobody is waited for any more begins again", "[core][I4][I34]") {
  World world = World::training(1);
  world.is_kubelet_on = false;
  world.delete_pod(0);
  world.pod(0).meta.deletion_time = world.now - seconds{3'600};
  scale(world, 3);
  const core::Plan plan = world.plan();
  REQUIRE_FALSE(plan.actions.empty());
  const auto* status = std::get_if<core::PatchStatus>(&plan.actions.front());
  REQUIRE(status != nullptr);
  CHECK(status->after.attempt == 2);
  CHECK(status->after.restarts.counted == 0);
}

TEST_CASE("resize: a member that fell silent and is not wanted any more is no loss",
          "[core][I34][B26]") {
  World world = World::training(3);
  world.lose_touch(2);
  world.settle(seconds{2});
  scale(world, 2);
  SECTION("its gang goes on") {
    world.settle(seconds{60});
    CHECK(world.job.status.attempt == 1);
    CHECK(world.group->spec.target_members == 2);
  }
  SECTION("its gang has ended") {
    world.settle();
    world.fail(0, 75, "Victim");
    world.fail(1, 75, "Victim");
    world.settle(seconds{60});
    CHECK(world.job.status.attempt == 2);
    CHECK(world.job.status.last_failure->cause == "NodeLost");
    CHECK(world.job.status.restarts.free == 1);
  }
  CHECK(world.job.status.restarts.counted == 0);
  CHECK(world.broken.empty());
}

TEST_CASE("resize: a drain has to leave all but one of the size that is wanted", "[core][I2]") {
  World world = World::training(3);
  world.settle();
  CHECK(world.least == 2);
  scale(world, 5);
  // A crash between the two leaves a record that asks for both again.
  const core::Plan plan = world.plan();
  const auto first = [&](auto kind) {
    return std::ranges::find_if(plan.actions, [&](const core::Action& action) {
      return action.index() == core::Action{kind}.index();
    });
  };
  CHECK(first(core::CreateChild{}) < first(core::PatchGroup{}));
  world.actions_until_crash = GENERATE(0, 1, 2, 3);
  world.settle();
  CHECK(world.group->spec.target_members == 5);
  CHECK(world.least == 4);
  scale(world, 1);
  world.settle();
  CHECK(world.least == 0);  // none may go
  CHECK(world.broken.empty());
}

TEST_CASE("resize: a budget that was refused is asked for no more", "[core][I2]") {
  World world = World::training(3);
  world.settle();
  world.refusal = core::Refusal{.action = "create PodDisruptionBudget", .message = "quota"};
  scale(world, 5);
  world.settle();
  CHECK(world.group->spec.target_members == 5);
  CHECK(world.least == 2);
}
