// Who makes room for whom, with the operator that decides it and those that follow it.
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include "tests/unit/operator/placed_world.h"

using namespace pawl;
using namespace pawl::test;
using nlohmann::json;
using std::chrono::seconds;

namespace {

// Four machines with 8 GPUs each.
struct Shared : PlacedWorld {
  Shared() : PlacedWorld({"node-a", "node-b", "node-c", "node-d"}) {
    cluster.set_class("urgent", 100);
    cluster.set_class("calm", 50);
  }
  void create(const std::string& name, int replicas, const std::string& priority = "",
              const std::string& queue = "") {
    json scheduling = json::object();
    if (!priority.empty()) scheduling["priorityClassName"] = priority;
    if (!queue.empty()) scheduling["queueName"] = queue;
    cluster.clock.advance(seconds{1});
    cluster.create_job(name, replicas, "Custom", 8, scheduling);
  }
  std::string preempted(const std::string& job) {
    for (const json& condition : status_of(cluster, job).value("conditions", json::array())) {
      if (condition["type"] == "Preempted") return condition["message"];
    }
    return "";
  }
  std::int64_t attempt(const std::string& job) {
    return status_of(cluster, job).value("attempt", 0);
  }
};

}  // namespace

TEST_CASE("preemption: nobody leaves again and again for one whose pods are refused",
          "[controller][I45]") {
  Shared world;
  world.create("low", 4);
  world.cluster.settle(seconds{30});
  REQUIRE(world.phase("low") == "Running");
  world.cluster.fault = [](const kube::HttpRequest& request) {
    const bool is_of_it = request.body.find("\"urgent-1-") != std::string::npos;
    const bool is_pod = request.method == kube::Method::kPost && request.target.ends_with("/pods");
    return is_pod && is_of_it ? Fault::kForbidden : Fault::kNone;
  };
  world.create("urgent", 1, "urgent");
  world.cluster.settle(seconds{600});
  CHECK(world.attempt("low") == 2);
  CHECK(world.phase("low") == "Running");
  CHECK(world.phase("urgent") != "Running");
}

TEST_CASE("preemption: nor for one that does not begin", "[controller][I45][I46]") {
  Shared world;
  world.create("low", 4);
  world.cluster.settle(seconds{30});
  REQUIRE(world.phase("low") == "Running");
  world.cluster.stuck = "urgent-";
  world.create("urgent", 1, "urgent");
  world.cluster.patch_job("urgent", {{"spec", {{"scheduling", {{"startTimeoutSeconds", 60}}}}}});
  world.cluster.settle(seconds{600});
  CHECK(world.attempt("low") == 2);
  CHECK(world.phase("low") == "Running");
  CHECK(world.attempt("urgent") == 2);
  CHECK(world.reason("urgent") == "WaitingForRoom");
  world.cluster.stuck.clear();
  world.cluster.finish_pods();
  world.cluster.settle(seconds{60});
  CHECK(world.phase("urgent") == "Running");
}

TEST_CASE("preemption: a higher priority gets the room of a lower one", "[controller][I45][F7]") {
  Shared world;
  world.create("old", 2);
  world.cluster.settle(seconds{30});
  world.create("new", 2);
  world.cluster.settle(seconds{30});
  REQUIRE(world.phase("new") == "Running");
  world.create("first", 1, "urgent");
  SECTION("at once, where nobody is in the way of that") {}
  SECTION("and so does whoever leads next") { world.cluster.start_operator(); }
  world.cluster.settle(seconds{90});
  CHECK(world.phase("first") == "Running");
  CHECK(world.phase("old") == "Running");
  CHECK(world.attempt("old") == 1);  // it has more to lose
  CHECK(world.attempt("new") == 2);
  CHECK(world.reason("new") == "WaitingForRoom");
  CHECK(status_of(world.cluster, "new")["restarts"]["byCause"]["Preempted"] == 1);
  CHECK(status_of(world.cluster, "new")["restarts"].value("counted", 0) == 0);
  CHECK(world.preempted("new").find("job team/first of priority 100 needs its room, and this one "
                                    "has priority 0") != std::string::npos);
  world.cluster.finish_pods();
  world.cluster.settle(seconds{90});
  CHECK(world.phase("new") == "Running");
  CHECK(world.attempt("new") == 2);
}

TEST_CASE("preemption: the room is for the one that asked", "[controller][I45]") {
  Shared world;
  world.create("old", 4);
  world.cluster.settle(seconds{30});
  world.create("small", 1, "calm");  // would fit into a part of it; sends it away
  world.create("large", 4, "urgent");
  world.cluster.settle(seconds{120});
  CHECK(world.phase("large") == "Running");
  CHECK(world.attempt("large") == 1);
  CHECK(world.reason("small") == "WaitingForRoom");
  CHECK(world.reason("old") == "WaitingForRoom");
  world.cluster.settle(seconds{600});  // and nobody sends anybody away any more
  CHECK(world.attempt("large") == 1);
  CHECK(world.attempt("old") == 2);
}

TEST_CASE("preemption: who asks says who leaves for it", "[controller][I45]") {
  Shared world;
  world.create("old", 4);
  world.cluster.settle(seconds{30});
  world.create("large", 4, "urgent");
  world.cluster.settle(seconds{5});
  CHECK(world.message("large").find("; 1 job leaves for it; it starts when") != std::string::npos);
  CHECK(world.message("old").find("job team/large of priority 100 needs its room") == 0);
  CHECK(world.phase("old") == "Running");  // while it saves
}

TEST_CASE("preemption: a wish that is withdrawn before anything was written costs nobody anything",
          "[controller][I45]") {
  for (int steps = 0; steps < 10; ++steps) {
    INFO("withdrawn after " << steps << " steps");
    Shared world;
    world.create("old", 4);
    world.cluster.settle(seconds{30});
    world.create("large", 4, "urgent");
    bool is_told = false;  // or is about to be: the request is on its way
    world.cluster.fault = [&](const kube::HttpRequest& request) {
      is_told = is_told || request.body.find("Preempting") != std::string::npos;
      return Fault::kNone;
    };
    for (int i = 0; i < steps; ++i) world.cluster.step();
    const json job = world.cluster.get(kube::resources::kTrainingJobs, "large");
    world.cluster.call(kube::delete_request(kube::resources::kTrainingJobs, "team", "large",
                                            {.uid = job["metadata"]["uid"]}));
    world.cluster.settle(seconds{120});
    CHECK(world.phase("old") == "Running");
    CHECK(world.attempt("old") == (is_told ? 2 : 1));
  }
}

// Whoever decides next knows who leaves already, and sends nobody else away.
TEST_CASE("preemption: an operator that dies anywhere sends away no more than are needed",
          "[controller][I45]") {
  bool moves = true;
  for (int round = 0; round < kDeaths && moves; ++round) {
    INFO("dies after " << round << " steps");
    Shared world;
    world.create("one", 1);
    world.create("two", 1);
    world.create("three", 1);
    world.create("four", 1);
    world.cluster.settle(seconds{30});
    world.create("first", 2, "urgent");
    moves = step_often(world.cluster, round);
    world.cluster.start_operator();
    world.cluster.settle(seconds{120});
    CHECK(world.phase("first") == "Running");
    int running = 0;
    for (const char* job : {"one", "two", "three", "four"})
      running += world.phase(job) == "Running" ? 1 : 0;
    CHECK(running == 2);
  }
}

TEST_CASE("preemption: a queue takes its quota back, and not what is another's own",
          "[controller][I45]") {
  Shared world;
  world.cluster.set_queue("mine", 16);
  world.cluster.set_queue("theirs", 16);
  world.create("old", 2, "", "theirs");
  world.create("new", 2, "urgent", "theirs");  // borrows
  world.cluster.settle(seconds{30});
  REQUIRE(world.phase("new") == "Running");
  world.create("owner", 2, "", "mine");
  world.cluster.settle(seconds{120});
  world.create("greedy", 1, "", "mine");  // would borrow itself
  world.cluster.settle(seconds{120});
  CHECK(world.phase("owner") == "Running");
  CHECK(world.attempt("new") == 1);
  CHECK(world.attempt("old") == 2);
  CHECK(world.preempted("old").find("job team/owner takes back what queue theirs has borrowed of "
                                    "queue mine") != std::string::npos);
  CHECK(world.reason("greedy") == "WaitingForQuota");
  world.cluster.settle(seconds{600});
  CHECK(world.attempt("owner") == 1);
  CHECK(world.attempt("new") == 1);
}

TEST_CASE("preemption: a queue's own jobs, by its policy", "[controller][I45]") {
  Shared world;
  world.cluster.set_queue("mine", 16);
  world.create("old", 2, "", "mine");
  world.cluster.settle(seconds{30});
  const bool may = GENERATE(true, false);
  world.cluster.edit_queue("mine", [&](api::TrainingQueue& queue) { queue.preempts_within = may; });
  world.create("first", 2, "urgent", "mine");  // there is room
  world.cluster.settle(seconds{120});
  CHECK(world.phase("first") == (may ? "Running" : "Starting"));
  CHECK(world.reason(may ? "old" : "first") == "WaitingForQuota");
}

TEST_CASE("preemption: a queue's jobs are left alone for as long as it says", "[controller][I45]") {
  Shared world;
  world.cluster.set_queue("mine", 16);
  world.cluster.edit_queue("mine",
                           [](api::TrainingQueue& queue) { queue.min_runtime_seconds = 600; });
  world.create("old", 2, "", "mine");
  world.cluster.settle(seconds{30});
  world.create("first", 2, "urgent", "mine");
  world.cluster.settle(seconds{500});
  CHECK(world.phase("old") == "Running");
  world.cluster.settle(seconds{200});
  CHECK(world.phase("first") == "Running");
  CHECK(world.attempt("old") == 2);
}

// One of the victims is gone at once, and would fit again before the other one is.
TEST_CASE("preemption: who was sent away does not take back what becomes free first",
          "[controller][I45]") {
  Shared world;
  const bool has_queue = GENERATE(false, true);
  const std::string queue = has_queue ? "mine" : "";
  if (has_queue) {
    world.cluster.set_queue("mine", 16);
    world.cluster.edit_queue(
        "mine", [](api::TrainingQueue& edited) { edited.quotas[0].borrowing_limit = "0"; });
  } else {
    world.create("others", 2, "urgent");
  }
  world.create("one", 1, "", queue);
  world.create("two", 1, "", queue);
  world.cluster.settle(seconds{30});
  world.create("first", 2, "urgent", queue);
  world.cluster.settle(seconds{3});
  world.cluster.set_pod_status("one-1-0-0", {{"phase", "Failed"}});  // it has left
  world.cluster.settle(seconds{120});
  CHECK(world.phase("first") == "Running");
  CHECK(world.attempt("one") == 2);
  CHECK(world.attempt("two") == 2);
  CHECK(world.attempt("first") == 1);
}

// The one that is awaited is no longer the first of its kind, or of its queue.
TEST_CASE("preemption: a higher one that comes meanwhile goes first, and nobody waits for ever",
          "[controller][I45]") {
  Shared world;
  const bool is_fifo = GENERATE(false, true);
  const std::string queue = is_fifo ? "mine" : "";
  if (is_fifo) world.cluster.set_queue("mine", 32, true);
  world.create("old", 4, "", queue);
  world.cluster.settle(seconds{30});
  world.create("calm", 4, "calm", queue);
  world.cluster.settle(seconds{3});
  world.create("urgent", 4, "urgent", queue);
  world.cluster.settle(seconds{120});
  CHECK(world.phase("urgent") == "Running");
  CHECK(world.attempt("old") == 2);
  world.cluster.finish_pods();
  world.cluster.settle(seconds{120});
  CHECK(world.phase("calm") == "Running");
}

TEST_CASE("preemption: a PriorityClass that preempts nobody", "[controller][I45]") {
  Shared world;
  world.cluster.set_class("patient", 200, false);
  world.create("old", 4);
  world.cluster.settle(seconds{30});
  world.create("waits", 4, "patient");
  world.cluster.settle(seconds{120});
  CHECK(world.phase("old") == "Running");
  CHECK(world.reason("waits") == "WaitingForRoom");
}
