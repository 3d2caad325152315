// Labels of nodes change while gangs run on them.
#include <catch2/catch_test_macros.hpp>
#include <set>
#include <string>

#include "tests/unit/operator/placed_world.h"

using namespace pawl;
using namespace pawl::test;
using nlohmann::json;
using std::chrono::seconds;

namespace {

constexpr int kMachines = 40, kEach = 4;  // to a rack

std::string machine(int number) { return "node-" + std::to_string(100 + number); }

// Each machine has 8 GPUs.
struct Racks : PlacedWorld {
  Racks() : PlacedWorld({}) {
    cluster.options.placement = placement::Levels::parse("rack=example.com/rack").value();
    cluster.start_operator();
    for (int i = 0; i < kMachines; ++i)
      cluster.set_machine(machine(i), 8, "rack-" + std::to_string(i / kEach));
  }
  void relabel(int number, const std::string& rack) {
    cluster.edit_machine(machine(number),
                         [&](placement::Host& host) { host.labels["example.com/rack"] = rack; });
  }
  std::set<std::string> uids() {
    std::set<std::string> found;
    for (const json& pod : cluster.all(kube::resources::kPods))
      found.insert(pod["metadata"]["uid"].get<std::string>());
    return found;
  }
};

}  // namespace

TEST_CASE("placer: gangs that run are left alone when labels change, and new ones see the new tree",
          "[controller][I43]") {
  Racks world;
  constexpr int kGangs = 18;  // each fills two machines of a rack, and four are left
  for (int i = 0; i < kGangs; ++i)
    world.cluster.create_job("gang-" + std::to_string(i), 4, "Custom", 4,
                             {{"topology", {{{"level", "rack"}, {"mode", "Required"}}}}});
  world.cluster.settle(seconds{60});
  for (int i = 0; i < kGangs; ++i) REQUIRE(world.phase("gang-" + std::to_string(i)) == "Running");
  const auto before = world.uids();
  const int writes = world.cluster.writes;
  // Of forty machines two trade places, which tears gangs that require a rack apart.
  world.relabel(0, "rack-9");
  world.relabel(kMachines - 1, "rack-0");
  world.cluster.settle(seconds{120});
  CHECK(world.uids() == before);
  CHECK(world.cluster.writes == writes);
  // And one rack loses the name that it had: the four machines without a gang are one rack now.
  std::set<std::string> busy;
  for (const json& pod : world.cluster.all(kube::resources::kPods))
    busy.insert(pod["spec"]["nodeName"].get<std::string>());
  std::set<std::string> idle;
  for (int i = 0; i < kMachines; ++i) {
    if (busy.contains(machine(i))) continue;
    world.relabel(i, "rack-new");
    idle.insert(machine(i));
  }
  REQUIRE(idle.size() == kEach);
  world.cluster.create_job("late", 2 * kEach, "Custom", 4,
                           {{"topology", {{{"level", "rack"}, {"mode", "Required"}}}}});
  world.cluster.settle(seconds{30});
  CHECK(world.phase("late") == "Running");
  const json placement = status_of(world.cluster, "late")["placement"];
  CHECK(placement["domain"] == "rack-new");
  for (const json& node : placement["nodes"]) CHECK(idle.contains(node["name"].get<std::string>()));
}
