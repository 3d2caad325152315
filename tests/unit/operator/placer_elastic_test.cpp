// Jobs that may begin smaller, and grow when there is room: who goes first, and what they keep.
#include <catch2/catch_test_macros.hpp>

#include "tests/unit/operator/placed_world.h"

using namespace pawl;
using namespace pawl::test;
using nlohmann::json;
using std::chrono::seconds;

namespace {

// Three machines with 8 GPUs each, two workers to a machine; an elastic job of two to four.
struct Elastic : PlacedWorld {
  Elastic() : PlacedWorld({"node-a", "node-b", "node-c"}) {}
  void create(const std::string& queue = "") {
    const json scheduling = queue.empty() ? json{} : json{{"queueName", queue}};
    cluster.create_job("wide", 4, "Native", 4, scheduling);
    cluster.patch_job("wide",
                      {{"spec", {{"elastic", {{"minReplicas", 2}, {"shortageSeconds", 60}}}}}});
  }
  void fill(const std::string& name, int replicas, const json& scheduling = {}) {
    cluster.create_job(name, replicas, "Custom", 4, scheduling);
    cluster.settle(seconds{30});
  }
  // In a queue with quota for two of it, in which another job waits.
  void begin_in_queue() {
    cluster.set_queue("team", 8);
    create("team");
    cluster.settle(seconds{70});
    REQUIRE(workers("wide") == 2);
    fill("later", 1, {{"queueName", "team"}});
  }
  int workers(const std::string& job, int attempt = 1) {
    int count = 0;
    for (const json& pod : cluster.all(kube::resources::kPods)) {
      const std::string name = pod["metadata"]["name"];
      count += name.starts_with(job + "-" + std::to_string(attempt) + "-") ? 1 : 0;
    }
    return count;
  }
};

}  // namespace

TEST_CASE("placer: an elastic job begins smaller after a while, and grows", "[controller][I43]") {
  Elastic world;
  world.fill("other", 3);
  REQUIRE(world.phase("other") == "Running");
  world.create();
  world.cluster.settle(seconds{50});
  CHECK(world.reason("wide") == "WaitingForRoom");
  CHECK(world.message("wide").ends_with(
      "; it begins with 2 workers or more from 2027-01-15T08:01:30Z on"));
  CHECK(world.workers("wide") == 0);
  world.cluster.settle(seconds{20});
  CHECK(world.workers("wide") == 3);
  world.cluster.finish_pods();
  world.cluster.settle(seconds{30});
  CHECK(world.workers("wide") == 4);
  CHECK(status_of(world.cluster, "wide")["attempt"] == 1);
}

TEST_CASE("placer: with fewer than its least an elastic job waits", "[controller][I43]") {
  Elastic world;
  world.fill("other", 5);
  world.create();
  world.cluster.settle(seconds{600});
  CHECK(world.workers("wide") == 0);
  CHECK(world.message("wide").starts_with(
      "no room for 2 workers of nvidia.com/gpu 4 each: 1 would fit, on 1 of 3 nodes"));
}

TEST_CASE(
    "placer: an elastic job takes no more quota than there is, and others go before its growth",
    "[controller][I44]") {
  Elastic world;
  world.begin_in_queue();
  CHECK(world.reason("later") == "WaitingForQuota");
  world.cluster.set_queue("team", 12);
  world.cluster.settle(seconds{30});
  CHECK(world.phase("later") == "Running");
  CHECK(world.workers("wide") == 2);
  world.cluster.set_queue("team", 16);
  world.cluster.settle(seconds{30});
  CHECK(world.workers("wide") == 3);
  CHECK(world.message("wide").find("no quota for 1 worker in queue team") != std::string::npos);
}

// Also by an operator that began between the two attempts.
TEST_CASE("placer: an elastic job that restarts goes on with as many as it had, at once",
          "[controller][I43][I44]") {
  Elastic world;
  world.begin_in_queue();
  world.cluster.fail_pod("wide-1-0-0");
  world.cluster.fail_pod("wide-1-1-0");
  SECTION("the same operator") {}
  SECTION("another one") { world.cluster.start_operator(); }
  world.cluster.settle(seconds{90});
  CHECK(status_of(world.cluster, "wide")["attempt"] == 2);
  CHECK(world.workers("wide", 2) == 2);
  CHECK(world.reason("later") == "WaitingForQuota");
}
