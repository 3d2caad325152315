// Quotas are kept by whichever operator leads; what a queue says, and where it is not there.
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include "common/api/codec.h"
#include "operator/controller/queue_limits.h"
#include "operator/controller/queue_reporter.h"
#include "tests/unit/operator/queued_world.h"

using namespace pawl;
using namespace pawl::test;
using nlohmann::json;
using std::chrono::seconds;

namespace {

const json kOther = {{"queueName", "team-b"}};

// Of two jobs the second waits for what the first one has: all of it.
struct Full : Queued {
  Full() {
    create("one", 2);
    create("two", 2);
    cluster.settle(seconds{30});
    REQUIRE(reason("two") == "WaitingForQuota");
  }
};

}  // namespace

TEST_CASE("queue: a job waits for quota, though there is room", "[controller][I44]") {
  Queued world;
  world.create("one", 1);
  world.create("two", 2);
  world.cluster.settle(seconds{30});
  CHECK(world.phase("one") == "Running");
  CHECK(world.reason("two") == "WaitingForQuota");
  CHECK(world.message("two") ==
        "no quota for 2 workers in queue team-a: nvidia.com/gpu 8 is needed, 4 can be had (4 of 8 "
        "used); it starts when jobs end or quotas are raised");
  SECTION("a job ends") { world.cluster.finish_pods(); }
  SECTION("the quota is raised") { world.cluster.set_queue("team-a", 12); }
  SECTION("another queue lends") { world.cluster.set_queue("team-b", 4); }
  world.cluster.settle(seconds{60});
  CHECK(world.phase("two") == "Running");
}

TEST_CASE("queue: what it never has is said", "[controller][I44]") {
  Queued world;
  world.create("large", 3);
  world.cluster.settle(seconds{30});
  CHECK(world.message("large") ==
        "no quota for 3 workers in queue team-a: nvidia.com/gpu 12 is needed, 8 can be had (0 of 8 "
        "used), and never more than the quotas allow: ask for less, or have them raised");
  world.create("small", 2);
  world.cluster.settle(seconds{400});  // long enough to be kept something for
  CHECK(world.phase("small") == "Running");
}

TEST_CASE("queue: one that is not there stalls its jobs", "[controller][I44]") {
  Queued world;
  world.create("train", 1, kOther);
  world.cluster.settle(seconds{30});
  CHECK(world.phase("train") == "Stalled");
  CHECK(world.reason("train") == "InvalidScheduling");
  CHECK(world.message("train") ==
        "spec.scheduling.queueName: there is no TrainingQueue \"team-b\": create it, or suspend "
        "the job and name another one");
  world.cluster.set_queue("team-b", 4);
  world.cluster.settle(seconds{30});
  CHECK(world.phase("train") == "Running");
  world.cluster.drop_queue("team-b");  // whoever runs goes on
  world.create("late", 1, kOther);
  world.cluster.settle(seconds{30});
  CHECK(world.phase("train") == "Running");
  CHECK(world.phase("late") == "Stalled");
}

TEST_CASE("queue: nobody keeps a quota where the scheduler decides", "[controller][I44]") {
  Queued world;
  world.cluster.options.placement.reset();
  world.cluster.start_operator();
  world.create("train", 1);
  world.cluster.settle(seconds{30});
  CHECK(world.phase("train") == "Stalled");
  CHECK(
      world.message("train").starts_with("spec.scheduling.queueName cannot be kept, because here "
                                         "the scheduler decides on nodes"));
}

TEST_CASE("queue: FIFO lets nobody go before the first", "[controller][I44]") {
  Queued world;
  world.cluster.set_queue("team-a", 8, true);
  world.create("one", 1);
  world.create("two", 2);
  world.create("three", 1);
  world.cluster.settle(seconds{30});
  CHECK(world.reason("two") == "WaitingForQuota");
  CHECK(world.message("three") == "queue team-a is FIFO, and 1 job is before it in line");
  world.cluster.finish_pods();
  world.cluster.settle(seconds{60});
  CHECK(world.phase("two") == "Running");
  CHECK(world.reason("three") == "WaitingForQuota");
}

// Whatever of it was written, the next one knows it.
TEST_CASE("queue: an operator that dies anywhere gives no quota twice", "[controller][I44]") {
  for (int round = 0; round < kDeaths; ++round) {
    Queued world;
    check_given_once(world.cluster, round, "WaitingForQuota",
                     [&](const char* job) { world.create(job, 2); });
  }
}

TEST_CASE("queue: who waits in one that is deleted gets nothing of it", "[controller][I44]") {
  Full world;
  world.cluster.drop_queue("team-a");
  world.cluster.settle(seconds{30});
  CHECK(world.phase("two") == "Stalled");
  CHECK(world.pods() == 2);
  world.cluster.set_queue("team-a", 8);
  world.cluster.settle(seconds{30});
  CHECK(world.reason("two") == "WaitingForQuota");
}

TEST_CASE("queue: a job that is deleted when it is given nodes is charged for nothing",
          "[controller][I44]") {
  for (int steps = 0; steps < 12; ++steps) {
    INFO("deleted after " << steps << " steps");
    Queued world;
    world.create("one", 2);
    for (int i = 0; i < steps; ++i) world.cluster.step();
    const json job = world.cluster.get(kube::resources::kTrainingJobs, "one");
    world.cluster.call(kube::delete_request(kube::resources::kTrainingJobs, "team", "one",
                                            {.uid = job["metadata"]["uid"]}));
    world.create("two", 2);
    world.cluster.settle(seconds{120});
    CHECK(world.phase("two") == "Running");
  }
}

TEST_CASE("queue: a pod of somebody else's with a name like ours is charged to nobody",
          "[controller][I44]") {
  Full world;
  world.cluster.call(kube::create_request(
      kube::resources::kPods, "team",
      {{"apiVersion", "v1"},
       {"kind", "Pod"},
       {"metadata", {{"name", "one-900-0-0"}, {"labels", {{api::kLabelManagedBy, "pawl"}}}}},
       {"spec", {{"containers", json::array({{{"name", "x"}, {"image", "x"}}})}}}}));
  const json job = world.cluster.get(kube::resources::kTrainingJobs, "one");
  world.cluster.call(kube::delete_request(kube::resources::kTrainingJobs, "team", "one",
                                          {.uid = job["metadata"]["uid"]}));
  world.cluster.settle(seconds{120});
  CHECK(world.phase("two") == "Running");
}

TEST_CASE("queue: who is given other nodes before it has pods needs its quota all the same",
          "[controller][I44]") {
  Queued world;
  std::string node;
  world.cluster.fault = [&](const kube::HttpRequest& request) {
    const json::json_pointer first{"/status/placement/nodes/0/name"};
    const json body = parse_json(request.body);
    if (!node.empty() || !body.is_object() || !body.contains(first)) return Fault::kNone;
    node = body.at(first);
    world.cluster.set_machine(node, 0);
    return Fault::kNone;
  };
  world.create("one", 2);
  world.create("two", 2);
  world.cluster.settle(seconds{60});
  REQUIRE_FALSE(node.empty());
  CHECK(world.phase("one") == "Running");
  CHECK(world.reason("two") == "WaitingForQuota");
  CHECK(world.pods() == 2);
}

TEST_CASE("queue: a suspended job gives its quota back", "[controller][I44]") {
  Full world;
  world.cluster.patch_job("one", {{"spec", {{"suspend", true}}}});
  world.cluster.settle(seconds{120});
  CHECK(world.phase("two") == "Running");
  world.cluster.patch_job("one", {{"spec", {{"suspend", false}}}});
  world.cluster.settle(seconds{60});
  CHECK(world.reason("one") == "WaitingForQuota");
  CHECK(world.pods() == 2);
}

TEST_CASE("queue: what it is used for, in its own units", "[controller]") {
  api::TrainingQueue queue;
  queue.meta.name = "a";
  queue.meta.generation = 3;
  queue.quotas = {
      {"nvidia.com/gpu", "4", "", "2"}, {"cpu", "1500m", "0", ""}, {"memory", "1Gi", "", ""}};
  const admission::Queue limits = controller::limits_of(queue);
  CHECK(limits.quotas.at("cpu").nominal == 1'500);
  CHECK(limits.quotas.at("cpu").borrowing_max == 0);
  CHECK_FALSE(limits.quotas.at("nvidia.com/gpu").borrowing_max);
  CHECK(limits.quotas.at("nvidia.com/gpu").lending_max == 2);
  admission::Quotas quotas;
  quotas.set("a", limits);
  quotas.charge("x/y", "a", {{"nvidia.com/gpu", 6}, {"cpu", 500}, {"memory", 1 << 29}});
  const auto status = controller::status_of(queue, quotas, 5);
  CHECK(status.usage == "nvidia.com/gpu 6/4, cpu 500m/1500m, memory 512Mi/1Gi");
  CHECK(status.quotas.front() == api::ResourceUse{"nvidia.com/gpu", "6", "2"});
  CHECK(status.running == 1);
  CHECK(status.pending == 5);
  CHECK(status.share_percent == 150);
  CHECK(status.observed_generation == 3);
}

TEST_CASE("queue: for whom its jobs make room, as it was written", "[controller][I45]") {
  const auto limits = [](const json& spec) {
    const auto queue = api::decode_training_queue({{"metadata", {{"name", "a"}}}, {"spec", spec}});
    REQUIRE(queue);
    return controller::limits_of(*queue);
  };
  const admission::Queue plain = limits(json::object());
  CHECK(plain.preempts_within);
  CHECK(plain.reclaim == admission::Reclaim::kAny);
  CHECK(plain.protected_for == seconds{0});
  const admission::Queue mild =
      limits({{"minRuntimeSeconds", 600},
              {"preemption", {{"withinQueue", "Never"}, {"reclaim", "LowerPriority"}}}});
  CHECK_FALSE(mild.preempts_within);
  CHECK(mild.reclaim == admission::Reclaim::kLowerPriority);
  CHECK(mild.protected_for == seconds{600});
  CHECK(limits({{"preemption", {{"reclaim", "Never"}}}}).reclaim == admission::Reclaim::kNever);
}

TEST_CASE("queue: its status is written when it changes, and no more often than it should",
          "[controller]") {
  Queued world;
  std::vector<json> statuses;
  world.cluster.fault = [&](const kube::HttpRequest& request) {
    if (request.target.ends_with("/trainingqueues/team-a/status"))
      statuses.push_back(parse_json(request.body)["status"]);
    return Fault::kNone;
  };
  const auto see = [&] {  // as the view shows it afterwards
    const json object = {{"metadata", {{"name", "team-a"}}}, {"status", statuses.back()}};
    return api::decode_training_queue(object)->status;
  };
  world.cluster.settle(seconds{10});
  REQUIRE(statuses.size() == 1);
  CHECK(statuses[0]["usage"] == "nvidia.com/gpu 0/8");
  world.create("one", 1);
  world.create("two", 2);
  world.cluster.settle(seconds{6});
  CHECK(statuses.size() <= 3);
  CHECK(statuses.back()["usage"] == "nvidia.com/gpu 4/8");
  CHECK(statuses.back()["running"] == 1);
  CHECK(statuses.back()["pending"] == 1);
  CHECK(statuses.back()["sharePercent"] == 50);
  const auto before = statuses.size();
  world.cluster.settle(seconds{20});
  CHECK(statuses.size() == before);
  world.cluster.settle(seconds{15});  // nobody has seen it: once more
  CHECK(statuses.size() == before + 1);
  world.cluster.set_queue_status("team-a", see());
  world.cluster.settle(seconds{100});
  CHECK(statuses.size() == before + 1);
}
