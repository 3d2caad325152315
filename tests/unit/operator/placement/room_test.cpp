// What domains hold, kept up to date, against counting it anew.
#include "operator/placement/room.h"

#include <catch2/catch_test_macros.hpp>
#include <random>
#include <string>

#include "operator/placement/ledger.h"

using namespace pawl::placement;

namespace {

struct Dice {
  int below(int count) { return static_cast<int>(random() % static_cast<unsigned>(count)); }
  std::mt19937 random{20261128};  // its numbers are the same everywhere
};

Room counted_anew(const Topology& topology, const Room& room) {
  std::vector<bool> is_pristine;
  for (int host = 0; host < topology.hosts(); ++host) is_pristine.push_back(room.is_pristine(host));
  return {topology, room.units(), std::move(is_pristine)};
}

std::map<std::string, std::string> labels_of(Dice& dice) {
  std::map<std::string, std::string> labels;
  for (const char* level : {"zone", "block", "rack"}) {
    if (dice.below(8) > 0) labels[level] = std::to_string(dice.below(3));
  }
  return labels;
}

}  // namespace

TEST_CASE("room: a domain holds what its hosts do", "[placement]") {
  std::vector<Machine> machines{
      {"a", {{"rack", "1"}}}, {"b", {{"rack", "1"}}}, {"c", {{"rack", "2"}}}};
  const std::vector<std::string> labels{"rack"};
  const Topology topology(std::move(machines), labels);
  Room room(topology, {4, 2, 4}, {false, true, true});
  CHECK(room.totals(0) == std::vector<Totals>{{10, 1, 4, 2}});
  CHECK(room.totals(1) == std::vector<Totals>{{6, 1, 4, 1}, {4, 0, 4, 1}});
  room.set(topology, 0, 1, false);
  CHECK(room.totals(0) == std::vector<Totals>{{7, 1, 4, 1}});
  CHECK(room.totals(1) == std::vector<Totals>{{3, 1, 2, 1}, {4, 0, 4, 1}});
  room.close(topology, 2);
  room.set(topology, 1, 2, false);
  CHECK(room.totals(0) == std::vector<Totals>{{3, 2, 2, 1}});
  CHECK(room.units_in(topology, 1, topology.domains(1)[1]) == 0);
  CHECK(room.units_in(topology, 2, topology.domains(2)[1]) == 2);
}

TEST_CASE("room: as counted anew on random trees, whatever changes", "[placement][A45]") {
  Dice dice;
  for (int tree = 0; tree < 60; ++tree) {
    std::vector<std::string> labels{"zone", "block", "rack"};
    labels.resize(static_cast<std::size_t>(dice.below(4)));
    std::vector<Machine> machines;
    const int hosts = 1 + dice.below(30);
    for (int host = 0; host < hosts; ++host)
      machines.push_back({"h" + std::to_string(host), labels_of(dice)});
    const Topology topology(std::move(machines), labels);
    const auto count = static_cast<std::size_t>(hosts);
    Room room(topology, std::vector<int>(count, 0), std::vector<bool>(count, true));
    for (int change = 0; change < 200; ++change) {
      room.set(topology, dice.below(hosts), dice.below(4), dice.below(2) == 0);
      INFO("tree " << tree << ", change " << change);
      REQUIRE(room == counted_anew(topology, room));
    }
  }
}

TEST_CASE("room: the ledger's is as counted anew, whatever comes and goes", "[placement][A45]") {
  Dice dice;
  Ledger ledger({"zone", "block", "rack"});
  const auto booking = [&] {
    return Booking{.host = "h" + std::to_string(dice.below(20)),
                   .requests = {{"gpu", dice.below(5)}, {"pods", 1}},
                   .is_fixture = dice.below(4) == 0};
  };
  const auto change = [&] {
    const std::string host = "h" + std::to_string(dice.below(20));
    const std::string pod = "team/p" + std::to_string(dice.below(60));
    switch (dice.below(24)) {
      case 0:
      case 1:
        ledger.set_host({.name = host,
                         .labels = labels_of(dice),
                         .allocatable = {{"gpu", dice.below(9)}, {"pods", 9}},
                         .is_ready = dice.below(8) > 0});
        break;
      case 2:
        ledger.drop_host(host);
        break;
      case 3:
      case 4:
      case 5:
        ledger.drop_pod(pod);
        break;
      case 6:
      case 7:
      case 8:
        ledger.withdraw(pod);
        break;
      case 9:
      case 10:
      case 11:
      case 12:
      case 13:
      case 14:
        ledger.see_pod(pod, booking());
        break;
      default:
        ledger.promise(pod, booking());
    }
  };
  int busy = 0;  // rooms that say something
  for (int round = 0; round < 3'000; ++round) {
    // Some rooms follow many changes at once.
    for (int changes = 1 + (dice.below(10) == 0 ? dice.below(80) : 0); changes > 0; --changes)
      change();
    const Shape shape{.requests = {{"gpu", 1 + dice.below(4)}, {"pods", 1}}};
    const Topology& topology = ledger.topology();
    const Room& room = ledger.room(shape);
    INFO("round " << round);
    REQUIRE(room == counted_anew(topology, room));
    busy += room.totals(0).front().in_use > 0 ? 1 : 0;
  }
  CHECK(busy > 1'000);
}
