// Gangs whose workers lie together in slices (spec.scheduling.slices).
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "tests/unit/operator/placed_world.h"

using namespace pawl;
using namespace pawl::test;
using nlohmann::json;
using std::chrono::seconds;

namespace {

const json kPairs = {{"slices", {{"size", 2}, {"level", "rack"}}}};

// Racks of so many machines, each with 8 GPUs: "a-0", "a-1", "b-0", …
struct Sliced : PlacedWorld {
  explicit Sliced(const std::map<std::string, int>& racks) : PlacedWorld({}) {
    cluster.options.placement = placement::Levels::parse("rack=example.com/rack").value();
    cluster.start_operator();
    for (const auto& [rack, machines] : racks) {
      for (int i = 0; i < machines; ++i)
        cluster.set_machine(rack + "-" + std::to_string(i), 8, rack);
    }
  }
  // Racks of its workers that are not on their way out, in the order of ranks, as many as there are
  // to be.
  std::vector<std::string> racks(const std::string& job) {
    std::map<std::string, std::string> nodes;
    for (const json& pod : cluster.all(kube::resources::kPods)) {
      if (pod["metadata"].contains("deletionTimestamp")) continue;
      nodes[pod["metadata"]["name"]] = pod["spec"].value("nodeName", "");
    }
    std::map<int, std::string> by_rank;
    const json group = cluster.get(kube::resources::kWorkerGroups, job);
    for (const json& pod : group["spec"]["pods"]) {
      const std::string node = nodes[pod["name"]];
      const int slot = pod["slot"];
      if (slot >= group["spec"]["targetMembers"]) continue;
      by_rank[pod.value("rankOrder", slot)] = node.substr(0, node.find('-'));
    }
    std::vector<std::string> found;
    for (const auto& [rank, rack] : by_rank) found.push_back(rack);
    return found;
  }
  void begin(const std::string& job, int replicas) {
    cluster.create_job(job, replicas, "Native", 8, kPairs);
    cluster.settle(seconds{10});
    cluster.commit_generation(job);
    cluster.settle(seconds{10});
    REQUIRE(phase(job) == "Running");
  }
  void lose(const std::string& job, int slot) {
    const std::string name = job + "-1-" + std::to_string(slot) + "-0";
    const std::string node = cluster.get(kube::resources::kPods, name)["spec"]["nodeName"];
    cluster.edit_machine(node, [](placement::Host& host) { host.is_ready = false; });
    cluster.delete_pod(name);
  }
};

using Racks = std::vector<std::string>;

}  // namespace

TEST_CASE("placer: slices are whole in each rack", "[controller][I53]") {
  Sliced world({{"a", 3}, {"b", 3}, {"c", 1}});
  world.begin("train", 4);
  CHECK(world.racks("train") == Racks{"a", "a", "b", "b"});
  // Three machines in as many racks.
  world.cluster.create_job("late", 2, "Custom", 8, kPairs);
  world.cluster.settle(seconds{5});
  CHECK(world.message("late").starts_with(
      "no room for 2 workers of nvidia.com/gpu 8 each in slices of 2, each within one rack: 0 "
      "would fit so, in all 3 would fit, on 3 of 7 nodes"));
}

TEST_CASE("placer: slices that no rack will ever hold are said at once", "[controller][I48][I53]") {
  Sliced world({{"a", 3}, {"b", 1}, {"c", 1}});
  world.cluster.create_job("large", 4, "Custom", 8, kPairs);
  world.cluster.settle(seconds{5});
  CHECK(world.reason("large") == "NeverFits");
  CHECK(world.message("large").starts_with(
      "this cluster will never hold 4 workers of nvidia.com/gpu 8 each in slices of 2, each within "
      "one rack: with nothing else on the 5 nodes that it may use, 2 would fit"));
  world.cluster.create_job("odd", 2, "Custom", 8, {{"slices", {{"size", 2}, {"level", "shelf"}}}});
  world.cluster.settle(seconds{5});
  CHECK(world.message("odd").starts_with(
      "spec.scheduling.slices: this cluster has no level \"shelf\" (it has host, rack)"));
}

TEST_CASE("placer: a lost worker's successor is in the rack of its slice", "[controller][I53]") {
  Sliced world({{"a", 3}, {"b", 3}});
  world.begin("train", 4);
  world.lose("train", 3);
  world.cluster.settle(seconds{20});
  CHECK(world.racks("train") == Racks{"a", "a", "b", "b"});
}

TEST_CASE("placer: where both slices have lost one, each is made whole", "[controller][I53]") {
  Sliced world({{"a", 3}, {"b", 3}});
  world.begin("train", 4);
  world.lose("train", 0);
  world.lose("train", 3);
  world.cluster.settle(seconds{40});
  const auto racks = world.racks("train");
  CHECK(std::set(racks.begin(), racks.end()).size() == 2);
  REQUIRE(racks.size() == 4);
  CHECK(racks[0] == racks[1]);
  CHECK(racks[2] == racks[3]);
}

TEST_CASE("placer: a whole slice that is lost comes back as one", "[controller][I53]") {
  Sliced world({{"a", 2}, {"b", 2}, {"c", 1}, {"d", 2}});
  world.begin("train", 4);
  REQUIRE(world.racks("train") == Racks{"a", "a", "d", "d"});
  world.lose("train", 2);
  world.lose("train", 3);
  world.cluster.settle(seconds{40});
  CHECK(world.racks("train") == Racks{"a", "a", "b", "b"});
}

TEST_CASE("placer: a slice comes back when the last of its members has left", "[controller][I53]") {
  Sliced world({{"a", 2}, {"b", 1}, {"d", 2}});
  world.begin("train", 4);
  world.cluster.lingering = "train-1-3-";
  for (const int slot : {2, 3}) world.lose("train", slot);
  world.cluster.settle(seconds{10});
  for (const char* name : {"c-0", "c-1"}) world.cluster.set_machine(name, 8, "c");
  world.cluster.settle(seconds{10});
  CHECK(world.racks("train") == Racks{"a", "a", "", ""});
  world.cluster.lingering.clear();
  world.cluster.settle(seconds{20});
  CHECK(world.racks("train") == Racks{"a", "a", "c", "c"});
}

TEST_CASE("placer: a gang in slices does not move for a pod that is yet to end",
          "[controller][I53]") {
  Sliced world({{"a", 2}, {"b", 2}});
  world.begin("train", 4);
  world.cluster.lingering = "train-1-3-";
  world.cluster.delete_pod("train-1-3-0");
  world.cluster.settle(seconds{50});
  world.cluster.lingering.clear();
  world.cluster.settle(seconds{20});
  CHECK(status_of(world.cluster, "train")["attempt"] == 1);
  CHECK(world.racks("train") == Racks{"a", "a", "b", "b"});
}

TEST_CASE("placer: of a smaller gang in slices whole ones leave", "[controller][I34][I53]") {
  Sliced world({{"a", 3}, {"b", 3}, {"c", 3}});
  world.begin("train", 6);
  // One of two slices each; who comes first finds room in either.
  for (const int slot : {1, 4}) world.lose("train", slot);
  world.cluster.settle(seconds{40});
  world.cluster.commit_generation("train", 2);
  world.cluster.settle(seconds{10});
  REQUIRE(world.racks("train").size() == 6);
  world.cluster.patch_job("train", {{"spec", {{"replicas", 4}}}});
  world.cluster.settle(seconds{10});
  const auto racks = world.racks("train");
  REQUIRE(racks.size() == 4);
  CHECK(racks[0] == racks[1]);
  CHECK(racks[2] == racks[3]);
}

TEST_CASE("placer: without room in its rack a gang in slices goes where it fits",
          "[controller][I43][I53]") {
  Sliced world({{"a", 2}, {"b", 2}, {"c", 2}, {"d", 2}});
  world.begin("train", 4);
  world.lose("train", 3);
  world.cluster.settle(seconds{25});
  CHECK(world.racks("train").back().empty());
  world.cluster.settle(seconds{60});
  CHECK(status_of(world.cluster, "train")["attempt"] == 2);
  const auto racks = world.racks("train");
  REQUIRE(racks.size() == 4);
  CHECK(racks[0] == racks[1]);
  CHECK(racks[2] == racks[3]);
  CHECK(std::ranges::count(racks, "d") == 0);
}

TEST_CASE("placer: a gang in slices that has most of the cluster moves with what it has",
          "[controller][I43][I53]") {
  Sliced world({{"a", 2}, {"b", 2}, {"c", 2}, {"d", 2}});
  world.begin("train", 6);
  REQUIRE(world.racks("train") == Racks{"a", "a", "b", "b", "d", "d"});
  world.lose("train", 5);
  world.cluster.settle(seconds{90});
  CHECK(status_of(world.cluster, "train")["attempt"] == 2);
  CHECK(world.racks("train") == Racks{"a", "a", "b", "b", "c", "c"});
}

TEST_CASE("placer: a torn slice that has room does not wait for one that has none",
          "[controller][I53]") {
  Sliced world({{"a", 2}, {"b", 3}});
  world.begin("train", 4);
  REQUIRE(world.racks("train") == Racks{"a", "a", "b", "b"});
  for (const int slot : {1, 3}) world.lose("train", slot);
  world.cluster.settle(seconds{40});
  CHECK(world.racks("train") == Racks{"a", "", "b", "b"});
}

TEST_CASE("placer: who comes into a slice is with those whose machine is known",
          "[controller][I53]") {
  Sliced world({{"a", 4}, {"b", 3}});
  json scheduling = {{"slices", {{"size", 3}, {"level", "rack"}}}};
  world.cluster.create_job("train", 3, "Native", 8, scheduling);
  world.cluster.settle(seconds{10});
  world.cluster.commit_generation("train");
  world.cluster.settle(seconds{10});
  REQUIRE(world.phase("train") == "Running");
  const std::string rack = world.racks("train").front();
  world.cluster.remove_machine(
      world.cluster.get(kube::resources::kPods, "train-1-0-0")["spec"]["nodeName"]);
  world.lose("train", 2);
  world.cluster.settle(seconds{20});
  CHECK(world.racks("train") == Racks{rack, rack, ""});
}

TEST_CASE("placer: others make room for whole slices", "[controller][I45][I53]") {
  Sliced world({{"a", 2}, {"b", 2}});
  world.cluster.set_class("urgent", 10);
  for (int i = 0; i < 4; ++i) {
    world.cluster.create_job("small-" + std::to_string(i), 1, "Custom", 8);
    world.cluster.settle(seconds{5});
  }
  json scheduling = kPairs;
  scheduling["priorityClassName"] = "urgent";
  world.cluster.create_job("large", 2, "Custom", 8, scheduling);
  world.cluster.settle(seconds{90});
  CHECK(world.phase("large") == "Running");
  const auto racks = world.racks("large");
  CHECK(racks.front() == racks.back());
  int running = 0;
  for (int i = 0; i < 4; ++i) running += world.phase("small-" + std::to_string(i)) == "Running";
  CHECK(running == 2);
}

TEST_CASE("placer: what is left to the scheduler has no slices", "[controller][I53]") {
  Sliced world({{"a", 2}});
  world.cluster.create_job("train", 2, "Custom", 8, kPairs);
  world.cluster.patch_job("train", {{"spec", {{"capacity", {{"spot", "Allow"}}}}}});
  world.cluster.settle(seconds{5});
  CHECK(world.message("train").starts_with("spec.scheduling.slices cannot be kept, because "));
}
