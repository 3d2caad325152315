#include <catch2/catch_test_macros.hpp>

#include "tests/unit/operator/world.h"

using namespace pawl;
using namespace pawl::test;

TEST_CASE("start: the attempt is persisted before anything is created", "[core][I1]") {
  World world;
  const core::Plan first = world.plan();
  REQUIRE(first.actions.size() == 1);
  CHECK(std::get<core::PatchStatus>(first.actions[0]).after.attempt == 1);
  CHECK(world.pods.empty());
}

TEST_CASE("start: children, the record, pods, then their UIDs in one write", "[core][I2][I3][A1]") {
  World world(4);
  world.is_kubelet_on = false;
  world.settle();
  CHECK(world.children.size() == 3);  // the budget comes when they run
  CHECK(world.pods.size() == 4);
  CHECK(world.group_writes == 2);  // created, then UIDs
  for (const auto& slot : world.group->spec.pods) CHECK(slot.uid == world.pod(slot.slot).meta.uid);
  CHECK(world.job.status.phase == "Starting");
  CHECK(world.broken.empty());
}

TEST_CASE("start: a complete gang is Running, and nothing is written any more", "[core][I15]") {
  World world(2);
  world.settle(std::chrono::seconds{60});
  CHECK(world.text() == "Running attempt 1 counted 0 free 0 ready 2/2 live 2");
  CHECK(world.condition("Running") == "True");
  CHECK(world.children.size() == 4);
  CHECK(world.job.status.selector == "pawl.dev/job-uid=job-uid");
  CHECK(world.plan().actions.empty());
  CHECK(world.status_writes == 3);  // the attempt, its pods, Running
  CHECK(world.events == std::vector<std::string>{"Running"});
}

TEST_CASE("start: a Service is made where the job asks for host names", "[core][I2][A24]") {
  World world(2);
  world.set_spec([](auto& spec) { spec.has_hostnames = true; });
  world.settle();
  CHECK(world.children.contains("Service"));
  CHECK(world.children.size() == 5);
}

TEST_CASE("start: a gang whose disruption budget is refused runs without, and says so",
          "[core][I2]") {
  World world(2);
  world.run_all();
  world.refusal = core::Refusal{.action = "create PodDisruptionBudget", .message = "quota"};
  world.settle(std::chrono::seconds{60});
  CHECK(world.condition("Running") == "True");
  CHECK(world.children.size() == 3);
  CHECK(world.events == std::vector<std::string>{"NoDisruptionBudget", "Running"});
}

TEST_CASE("start: another interval of reports is one write to the record, and no other",
          "[core][I15]") {
  World world(2);
  world.settle(std::chrono::seconds{60});
  const int before = world.group_writes;
  world.policy.report_seconds = 40;
  world.settle(std::chrono::seconds{60});
  CHECK(world.group->spec.report_seconds == 40);
  CHECK(world.group_writes == before + 1);
  CHECK(world.plan().actions.empty());
}

TEST_CASE("start: no UID is recorded while a pod of the wave is missing", "[core][I3][C1]") {
  World world(2);
  world.is_kubelet_on = false;
  world.apply(world.plan().actions[0]);
  const core::Plan plan = world.plan();
  for (std::size_t i = 0; i + 1 < plan.actions.size(); ++i) world.apply(plan.actions[i]);
  REQUIRE(world.pods.size() == 1);
  const core::Plan next = world.plan();
  REQUIRE(next.actions.size() == 1);
  CHECK(std::get<core::CreatePod>(next.actions[0]).slot == 1);
}

TEST_CASE("start: a job that is being deleted is left alone", "[core][I0][F4]") {
  World world;
  world.job.meta.deletion_time = world.now;
  CHECK(world.plan().actions.empty());
}

TEST_CASE("start: a template that cannot become a pod stalls the job with the reason",
          "[core][I14][B38][A35]") {
  World world;
  world.set_spec([](auto& spec) { spec.template_json = R"({"spec":{"containers":[]}})"; });
  world.settle();
  CHECK(world.job.status.phase == "Stalled");
  CHECK(world.job.status.reason == "InvalidTemplate");
  CHECK(world.job.status.message.find("container") != std::string::npos);
  CHECK(world.pods.empty());
  CHECK_FALSE(world.group);
  // Repaired while suspended, it starts.
  world.set_spec([](auto& spec) { spec.is_suspended = true; });
  world.settle();
  CHECK(world.job.status.phase == "Suspended");
  world.set_spec([](auto& spec) {
    spec.is_suspended = false;
    spec.template_json = World().job.spec.template_json;
  });
  world.settle(std::chrono::seconds{60});
  CHECK(world.job.status.phase == "Running");
}

TEST_CASE("start: why a pod waits stands in the message", "[core][I16]") {
  World world(2);
  world.is_kubelet_on = false;
  world.settle();
  world.pod(1).waiting_reason = "ImagePullBackOff";
  world.pod(1).waiting_message = "Back-off pulling image example/train:1";
  world.settle(std::chrono::seconds{60});
  CHECK(world.job.status.reason == "ImagePullBackOff");
  CHECK(
      world.job.status.message ==
      "0/2 workers ready; 1 cannot start: ImagePullBackOff (pod gpt-1-1-0): Back-off pulling image "
      "example/train:1");
}

TEST_CASE(
    "start: an obstacle stands in the message, the condition and one event, and does not flap",
    "[core][I16][I15][D7]") {
  World world(2);
  world.is_kubelet_on = false;
  world.settle();
  const std::vector<std::pair<std::string, std::string>> said{
      {"ErrImagePull", "manifest unknown"}, {"ImagePullBackOff", "Back-off pulling image"}};
  int writes = 0;
  for (int i = 0; i < 10; ++i) {
    world.pod(1).waiting_reason = said[static_cast<std::size_t>(i % 2)].first;
    world.pod(1).waiting_message = said[static_cast<std::size_t>(i % 2)].second;
    world.settle(std::chrono::seconds{60});
    if (i == 0) writes = world.status_writes;
  }
  CHECK(world.status_writes == writes);
  CHECK(world.job.status.message ==
        "0/2 workers ready; 1 cannot start: ImagePullBackOff (pod gpt-1-1-0): manifest unknown");
  CHECK(world.job.status.conditions[0].reason == "ImagePullBackOff");
  CHECK(world.job.status.conditions[0].message == world.job.status.message);
  CHECK(world.events == std::vector<std::string>{"ImagePullBackOff"});
  // It goes away: the condition says so, too, and the gang runs.
  world.pod(1).waiting_reason.clear();
  world.settle(std::chrono::seconds{60});
  CHECK(world.job.status.conditions[0].reason == "Starting");
  world.is_kubelet_on = true;
  world.settle(std::chrono::seconds{60});
  CHECK(world.job.status.phase == "Running");
}

TEST_CASE("start: a pod that cannot be scheduled is named", "[core][I16][D7]") {
  World world(1);
  world.is_kubelet_on = false;
  world.settle();
  world.pod(0).unschedulable_message = "0/2 nodes are available: 2 Insufficient nvidia.com/gpu.";
  world.settle(std::chrono::seconds{60});
  CHECK(world.job.status.reason == "Unschedulable");
  CHECK(world.job.status.message.find("Insufficient nvidia.com/gpu") != std::string::npos);
}

TEST_CASE("start: who holds gated pods back is named, and it is no warning", "[core][I16]") {
  World world(2);
  world.is_kubelet_on = false;
  world.settle();
  for (int slot = 0; slot < 2; ++slot) {
    world.pod(slot).is_gated = true;
    world.pod(slot).unschedulable_message = "Scheduling is blocked";
  }
  world.settle(std::chrono::seconds{60});
  CHECK(world.job.status.reason == "SchedulingGated");
  CHECK(
      world.job.status.message ==
      "0/2 workers ready; 2 cannot start: SchedulingGated (pod gpt-1-0-0): Scheduling is blocked");
  CHECK(world.job.status.restarts == api::Restarts{});

  world.job.meta.labels["kueue.x-k8s.io/queue-name"] = "research";
  world.settle(std::chrono::seconds{60});
  CHECK(
      world.job.status.message ==
      "0/2 workers ready; 2 cannot start: SchedulingGated (pod gpt-1-0-0): Kueue has not admitted "
      "it through queue research");
}

TEST_CASE("start: somebody else's pod or WorkerGroup in the way stalls the job",
          "[core][I13][C10]") {
  World world(2);
  world.is_kubelet_on = false;
  api::PodView stranger;
  stranger.meta.name = "gpt-1-1-0";
  stranger.meta.uid = "stranger";
  world.pods[stranger.meta.name] = stranger;
  world.settle();
  CHECK(world.job.status.phase == "Stalled");
  CHECK(world.job.status.reason == "NameConflict");
  CHECK(world.pods.at("gpt-1-1-0").meta.deletion_time == std::nullopt);

  World other(2);
  other.group = api::WorkerGroup{};
  other.group->meta.name = "gpt";
  other.settle();
  CHECK(other.job.status.phase == "Stalled");
}

TEST_CASE("start: children of a deleted job of the same name are waited for",
          "[core][I13][A26][H8]") {
  World world(2);
  world.is_kubelet_on = false;
  api::PodView old;
  old.meta.name = "gpt-1-0-0";
  old.meta.uid = "old";
  old.meta.owners = {{"pawl.dev/v1alpha1", "TrainingJob", "gpt", "old-job", true}};
  world.pods[old.meta.name] = old;
  world.settle(std::chrono::seconds{5});
  CHECK(world.job.status.reason == "WaitingForCleanup");
  CHECK(world.job.status.phase == "Starting");
  world.pods.erase("gpt-1-0-0");
  world.is_kubelet_on = true;
  world.settle(std::chrono::seconds{60});
  CHECK(world.job.status.phase == "Running");
}

TEST_CASE("start: a refusal is told, creation is tried again later, and then forgotten",
          "[core][I14][E11]") {
  World world(2);
  world.is_kubelet_on = false;
  world.apply(world.plan().actions[0]);
  world.refusal = core::Refusal{"create Pod gpt-1-0-0",
                                "exceeded quota: team",
                                false,
                                "Forbidden",
                                world.now + std::chrono::seconds{5},
                                world.job.meta.generation};
  world.settle();
  CHECK(world.job.status.phase == "Stalled");
  CHECK(world.job.status.message == "create Pod gpt-1-0-0 was refused: exceeded quota: team");
  CHECK(world.pods.empty());
  CHECK(world.plan().wake_up == world.refusal->retry_at);
  world.is_kubelet_on = true;
  world.settle(std::chrono::seconds{60});
  world.refusal.reset();
  world.settle(std::chrono::seconds{60});
  CHECK(world.text() == "Running attempt 1 counted 0 free 0 ready 2/2 live 2");
  CHECK(world.condition("Stalled") == "False");
}

TEST_CASE("start: a spec that was changed after a refusal is tried at once", "[core][I14]") {
  World world(2);
  world.apply(world.plan().actions[0]);
  world.refusal = core::Refusal{"create Pod gpt-1-0-0",
                                "exceeded quota: team",
                                false,
                                "Forbidden",
                                world.now + std::chrono::seconds{60},
                                world.job.meta.generation};
  world.settle();
  CHECK(world.pods.empty());
  world.set_spec([](auto& spec) { spec.replicas = 1; });
  world.settle();
  CHECK(world.pods.size() == 1);
}

TEST_CASE("end: terminal is final, also against pods that appear late", "[core][I10][B27]") {
  World world(1);
  world.settle();
  world.succeed_all();
  world.settle();
  const std::string end = world.text();
  world.pod(0).phase = api::PodPhase::kRunning;
  world.set_spec([](auto& spec) { spec.is_suspended = true; });
  world.settle();
  CHECK(world.pods.empty());
  CHECK(world.text() == end);
}

TEST_CASE("ttl: the job is deleted after its time, not before", "[core][I11][C6]") {
  World world(1);
  world.set_spec([](auto& spec) { spec.ttl_seconds_after_finished = 100; });
  world.settle();
  world.succeed_all();
  world.settle(std::chrono::seconds{99});
  CHECK_FALSE(world.is_job_gone);
  world.settle(std::chrono::seconds{2});
  CHECK(world.is_job_gone);
}
