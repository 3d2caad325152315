// Elastic jobs that become smaller so that others get room or quota, with the operator that decides
// it, and grow again.
#include <catch2/catch_test_macros.hpp>

#include "tests/unit/operator/placed_world.h"

using namespace pawl;
using namespace pawl::test;
using nlohmann::json;
using std::chrono::seconds;

namespace {

// Three machines with 8 GPUs each, two workers to a machine; "wide", of two to six, has all.
struct Widened : PlacedWorld {
  explicit Widened(const std::string& queue = "") : PlacedWorld({"node-a", "node-b", "node-c"}) {
    cluster.set_class("urgent", 100);
    const json scheduling = queue.empty() ? json{} : json{{"queueName", queue}};
    if (!queue.empty()) {
      cluster.set_queue("mine", 16);
      cluster.set_queue("theirs", 8);
    }
    cluster.create_job("wide", 6, "Native", 4, scheduling);
    cluster.patch_job("wide", {{"spec", {{"elastic", {{"minReplicas", 2}}}}}});
    cluster.settle(seconds{30});
    cluster.commit_generation("wide");
    cluster.settle(seconds{5});
    REQUIRE(phase("wide") == "Running");
    REQUIRE(workers("wide") == 6);
  }
  void ask(const std::string& name, int replicas, const json& scheduling) {
    cluster.clock.advance(seconds{1});
    cluster.create_job(name, replicas, "Custom", 4, scheduling);
  }
  // The launchers go on without those that are told to leave.
  void go_on(seconds horizon = seconds{60}) {
    cluster.settle(seconds{3});
    cluster.commit_generation("wide", ++generation);
    cluster.settle(horizon);
  }
  int workers(const std::string& job) {
    int count = 0;
    for (const json& pod : cluster.all(kube::resources::kPods)) {
      const std::string name = pod["metadata"]["name"];
      const bool lives = !pod["metadata"].contains("deletionTimestamp") &&
                         pod["status"].value("phase", "") != "Succeeded";
      count += name.starts_with(job + "-") && lives ? 1 : 0;
    }
    return count;
  }
  std::int64_t attempt(const std::string& job) {
    return status_of(cluster, job).value("attempt", 0);
  }
  int generation = 1;
};

}  // namespace

TEST_CASE("placer: an elastic job gives up what a higher priority needs, and no more",
          "[controller][I45]") {
  Widened world;
  world.ask("urgent", 2, {{"priorityClassName", "urgent"}});
  world.go_on();
  CHECK(world.phase("urgent") == "Running");
  CHECK(world.workers("wide") == 4);
  CHECK(world.attempt("wide") == 1);
  CHECK(world.phase("wide") == "Running");
  // Nobody takes it back, and nobody has to give up more.
  world.cluster.settle(seconds{600});
  CHECK(world.workers("wide") == 4);
  CHECK(world.attempt("urgent") == 1);
  world.cluster.set_pod_status("urgent-1-0-0", {{"phase", "Succeeded"}});
  world.cluster.set_pod_status("urgent-1-1-0", {{"phase", "Succeeded"}});
  world.cluster.settle(seconds{60});
  CHECK(world.workers("wide") == 6);
  CHECK(world.attempt("wide") == 1);
}

TEST_CASE("placer: an elastic job leaves as a whole where its least is in the way",
          "[controller][I45]") {
  Widened world;
  world.ask("urgent", 6, {{"priorityClassName", "urgent"}});
  world.cluster.settle(seconds{120});
  CHECK(world.phase("urgent") == "Running");
  CHECK(world.attempt("wide") == 2);
}

TEST_CASE("placer: what an elastic job's queue has borrowed is taken back of its last workers",
          "[controller][I45]") {
  Widened world("theirs");
  world.ask("owner", 4, {{"queueName", "mine"}});
  world.go_on();
  CHECK(world.phase("owner") == "Running");
  CHECK(world.workers("wide") == 2);
  CHECK(world.attempt("wide") == 1);
  world.cluster.settle(seconds{600});
  CHECK(world.workers("wide") == 2);
  CHECK(world.message("wide").find("no quota for") != std::string::npos);
}

// Whoever decides next knows who gives up what, and asks nobody for more.
TEST_CASE(
    "placer: an operator that dies anywhere has an elastic job give up no more than is needed",
    "[controller][I45]") {
  for (int round = 0; round < kDeaths; round += 3) {
    INFO("dies after " << round << " steps");
    Widened world;
    world.ask("urgent", 2, {{"priorityClassName", "urgent"}});
    for (int i = 0; i < round; ++i) world.cluster.step();
    world.cluster.start_operator();
    world.go_on();
    CHECK(world.phase("urgent") == "Running");
    CHECK(world.workers("wide") == 4);
    CHECK(world.attempt("wide") == 1);
  }
}

TEST_CASE("placer: a wish that is withdrawn costs an elastic job nothing but what is written",
          "[controller][I45]") {
  for (int steps = 0; steps < 12; ++steps) {
    INFO("withdrawn after " << steps << " steps");
    Widened world;
    world.ask("urgent", 2, {{"priorityClassName", "urgent"}});
    for (int i = 0; i < steps; ++i) world.cluster.step();
    const json job = world.cluster.get(kube::resources::kTrainingJobs, "urgent");
    world.cluster.call(kube::delete_request(kube::resources::kTrainingJobs, "team", "urgent",
                                            {.uid = job["metadata"]["uid"]}));
    world.go_on(seconds{120});
    CHECK(world.workers("wide") == 6);
    CHECK(world.attempt("wide") == 1);
  }
}

TEST_CASE("placer: an elastic job gives up more for a second one when it has become smaller",
          "[controller][I45]") {
  Widened world;
  world.cluster.clock.advance(seconds{1});
  world.cluster.create_job("large", 1, "Custom", 8, {{"priorityClassName", "urgent"}});
  world.ask("small", 2, {{"priorityClassName", "urgent"}});
  for (int i = 0; i < 4; ++i) world.go_on(seconds{30});
  CHECK(world.phase("large") == "Running");
  CHECK(world.phase("small") == "Running");
  CHECK(world.workers("wide") == 2);
  CHECK(world.attempt("wide") == 1);
}

// In the first places of the next attempt, whichever it had in the one before.
TEST_CASE("placer: an elastic job that fails while it becomes smaller keeps quota for what is left",
          "[controller][I44][I45]") {
  Widened world("theirs");
  world.ask("owner", 4, {{"queueName", "mine"}});
  world.cluster.is_kubelet_on = false;
  world.cluster.settle(seconds{3});
  REQUIRE(world.workers("wide") == 2);
  world.cluster.fail_pod("wide-1-0-0");
  world.cluster.settle(seconds{3});
  SECTION("the same operator") {}
  SECTION("another one") { world.cluster.start_operator(); }
  world.cluster.is_kubelet_on = true;
  world.cluster.settle(seconds{120});
  CHECK(world.attempt("wide") == 2);
  CHECK(world.workers("wide") == 2);
  CHECK(world.phase("owner") == "Running");
}
