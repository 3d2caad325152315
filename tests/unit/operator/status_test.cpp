#include "operator/core/status.h"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>

#include "operator/core/pods.h"
#include "tests/unit/operator/world.h"

using namespace pawl;
using namespace pawl::test;
using std::chrono::seconds;

TEST_CASE("status: progress and checkpoint of another attempt are not shown",
          "[core][I21][B15][B16][B17][B18][B19][B20]") {
  World world;
  world.settle();
  world.report(70, 60);
  world.settle(seconds{10});
  CHECK(world.job.status.progress->step == 70);
  CHECK(world.job.status.checkpoint->step == 60);
  world.group->status.attempt = 0;
  world.group->status.progress->step = 99;
  world.settle(seconds{10});
  CHECK(world.job.status.progress->step == 70);
  world.group->status.attempt = 1;
  world.group->status.generation = 0;
  world.settle(seconds{10});
  CHECK(world.job.status.progress->step == 70);
}

TEST_CASE("status: progress is written at a bounded pace", "[core][I15][B15]") {
  World world;
  world.settle(seconds{10});
  const int before = world.status_writes;
  for (int step = 1; step <= 100; ++step) {
    world.now += std::chrono::milliseconds{100};
    world.report(step);
    world.settle();
  }
  CHECK(world.status_writes - before <= 6);  // 10 s, at most one write each 2 s
  world.settle(seconds{5});
  CHECK(world.job.status.progress->step == 100);
}

TEST_CASE("status: who holds up the gang is told at once, and by one event", "[core][I42]") {
  World world;
  world.settle();
  world.report(70);
  world.settle(seconds{10});
  const auto told = [&] { return std::ranges::count(world.events, "Straggler"); };
  const int before = world.status_writes;
  for (const char* factor : {"2.0", "2.1", "2.2"}) {
    world.group->status.progress->straggler =
        api::Straggler{.rank = 1, .pod = "job-1-1-0", .node = "node-1", .factor = factor};
    world.settle();
  }
  CHECK(world.status_writes == before + 1);
  REQUIRE(world.job.status.progress->straggler);
  CHECK(world.job.status.progress->straggler->factor == "2.0");
  CHECK(told() == 1);
  world.settle(seconds{10});
  CHECK(world.job.status.progress->straggler->factor == "2.2");
  world.group->status.progress->straggler.reset();
  world.settle();
  CHECK_FALSE(world.job.status.progress->straggler);
  CHECK(told() == 1);
  CHECK(world.job.status.restarts.counted + world.job.status.restarts.free == 0);
}

TEST_CASE("status: words alone wait 30 s, a change of meaning does not", "[core][I15]") {
  api::TrainingJobStatus before;
  before.phase = "Starting";
  before.message = "1 of 4";
  api::TrainingJobStatus after = before;
  CHECK(core::difference_of(before, after) == core::Difference::kNone);
  after.message = "2 of 4";
  CHECK(core::difference_of(before, after) == core::Difference::kMessage);
  after.ready_replicas = 2;
  CHECK(core::difference_of(before, after) == core::Difference::kNumbers);
  after.phase = "Running";
  CHECK(core::difference_of(before, after) == core::Difference::kMeaning);
}

TEST_CASE("status: transition times change only with the condition", "[core][I15]") {
  World world;
  world.settle();
  const auto time_of = [&](const std::string& type) {
    for (const auto& condition : world.job.status.conditions) {
      if (condition.type == type) return condition.last_transition_time;
    }
    return std::optional<TimePoint>{};
  };
  const auto running_since = time_of("Running");
  world.now += seconds{100};
  world.set_spec([](auto& spec) { spec.ttl_seconds_after_finished = 5; });
  world.settle();
  CHECK(world.job.status.observed_generation == world.job.meta.generation);
  CHECK(world.job.status.conditions.front().observed_generation == world.job.meta.generation);
  CHECK(time_of("Running") == running_since);
}

TEST_CASE("status: a readiness blip does not leave Running", "[core][I15][A28]") {
  World world;
  world.settle(seconds{10});
  world.pod(0).is_ready = false;
  world.settle(seconds{10});
  CHECK(world.text() == "Running attempt 1 counted 0 free 0 ready 1/2 live 2");
  CHECK(world.condition("Running") == "True");
}

TEST_CASE("status: a message never exceeds its bound nor cuts a character", "[core][B41]") {
  World world(1);
  world.settle();
  world.is_kubelet_on = false;
  world.fail(0, 1);
  std::string text = "x";
  for (int i = 0; i < 1000; ++i) text += "ä";
  world.pod(0).message = text;
  world.settle();
  for (const auto& condition : world.job.status.conditions) CHECK(condition.message.size() <= 1024);
  CHECK(world.job.status.message.size() <= 1024);
  CHECK(world.broken.empty());
}

TEST_CASE("pods: only names that we would have made are read as ours", "[core][B08]") {
  const auto name = core::parse_pod_name("a-1", "a-1-2-30-4");
  REQUIRE(name);
  CHECK(*name == core::PodIdentity{2, 30, 4});
  for (const char* wrong : {"a-1-2-3", "a-1-2-3-4-5", "a-1-02-3-4", "a-1-2-3-x", "b-1-2-3-4", "a-1",
                            "a-1--2-3-4", "a-1-2-3-", "a-1-99999999999999999999-1-1"}) {
    INFO(wrong);
    CHECK_FALSE(core::parse_pod_name("a-1", wrong));
  }
  CHECK(core::job_of_pod_name("a-1-2-30-4") == "a-1");
  CHECK(core::job_of_pod_name("x-1-2-3") == "x");
  CHECK_FALSE(core::job_of_pod_name("-1-2-3"));
  CHECK_FALSE(core::job_of_pod_name("coredns-abc-def"));
}

TEST_CASE("orphans: only what no owner will collect is deleted, after a look at the API",
          "[core][I22][H10]") {
  api::PodView pod;
  pod.meta.name = "gpt-1-0-0";
  pod.meta.uid = "p";
  pod.meta.labels = {{"pawl.dev/job-uid", "dead"}};
  CHECK(core::is_orphan(pod.meta, ""));
  CHECK(core::is_orphan(pod.meta, "successor"));
  CHECK_FALSE(core::is_orphan(pod.meta, "dead"));
  api::WorkerGroup group;
  group.meta = pod.meta;
  group.meta.name = "gpt";
  const core::Plan plan = core::plan_orphans({"gpt", "dead", &group, {&pod}});
  REQUIRE(plan.actions.size() == 8);
  CHECK(std::get<core::ConfirmGone>(plan.actions[0]).uid == "dead");
  CHECK(std::get<core::DeletePod>(plan.actions[1]).uid == "p");
  CHECK(std::get<core::DeleteOrphan>(plan.actions[7]).kind == core::ObjectKind::kWorkerGroup);
  pod.meta.owners = {{"", "TrainingJob", "gpt", "dead", true}};
  CHECK_FALSE(core::is_orphan(pod.meta, ""));
}
