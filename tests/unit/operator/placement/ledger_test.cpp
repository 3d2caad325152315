// What is free, against counting everything anew.
#include "operator/placement/ledger.h"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <random>

#include "common/base/json.h"

using namespace pawl::placement;
using nlohmann::json;

namespace {

Host host(const std::string& name, std::int64_t gpus, const std::string& rack = "r") {
  return {.name = name,
          .labels = {{"rack", rack}},
          .allocatable = {{"gpu", gpus}, {"cpu", 8'000}, {"pods", 10}},
          .is_ready = true};
}

Shape gpus(std::int64_t count) { return {.requests = {{"gpu", count}, {"pods", 1}}}; }
Booking on(const std::string& name, std::int64_t count) {
  return {.host = name, .requests = {{"gpu", count}, {"pods", 1}}};
}

int units_on(Ledger& ledger, const Shape& shape, const std::string& name) {
  const Topology& topology = ledger.topology();
  for (int number = 0; number < topology.hosts(); ++number) {
    if (topology.host(number) == name) return ledger.room(shape).units_on(number);
  }
  return -1;
}

}  // namespace

TEST_CASE(
    "ledger: what is promised is not given away again, and is not counted twice once it is seen",
    "[placement]") {
  Ledger ledger({"rack"});
  CHECK(ledger.set_host(host("a", 8)));
  CHECK_FALSE(ledger.set_host(host("a", 8)));
  CHECK(units_on(ledger, gpus(2), "a") == 4);
  ledger.promise("team/job-1-0-0", on("a", 4));
  CHECK(units_on(ledger, gpus(2), "a") == 2);
  CHECK_FALSE(ledger.see_pod("team/job-1-0-0", on("a", 4)));
  CHECK_FALSE(ledger.see_pod("team/job-1-0-0", on("a", 4)));
  CHECK(units_on(ledger, gpus(2), "a") == 2);
  CHECK(ledger.drop_pod("team/job-1-0-0"));
  CHECK_FALSE(ledger.drop_pod("team/job-1-0-0"));
  CHECK(units_on(ledger, gpus(2), "a") == 2);
  ledger.see_pod("team/job-1-0-0", on("a", 4));
  ledger.withdraw("team/job-1-0-0");
  CHECK(units_on(ledger, gpus(2), "a") == 2);  // it is there
  CHECK(ledger.drop_pod("team/job-1-0-0"));
  CHECK(units_on(ledger, gpus(2), "a") == 4);
}

TEST_CASE("ledger: what fits when all has ended, and when that is", "[placement]") {
  using pawl::TimePoint;
  const TimePoint noon{std::chrono::hours{12}}, later = noon + std::chrono::hours{1};
  Ledger ledger({});
  ledger.set_host(host("a", 8));
  ledger.set_host(host("b", 8));
  CHECK(ledger.outlook(gpus(4)).units == std::vector<int>{2, 2});
  CHECK(ledger.outlook(gpus(4)).at == std::vector<TimePoint>{TimePoint::min(), TimePoint::min()});
  Booking fixture = on("a", 1), mine = on("a", 4), foreign = on("b", 8);
  fixture.is_fixture = true;
  mine.owner = "team/job";
  foreign.end = later;
  ledger.see_pod("team/fixture", fixture);
  ledger.see_pod("team/job-1-0-0", mine);
  ledger.see_pod("team/foreign", foreign);
  CHECK(ledger.room(gpus(1)).units() == std::vector<int>{3, 0});
  CHECK(ledger.outlook(gpus(1)).units == std::vector<int>{7, 8});
  CHECK(ledger.outlook(gpus(1)).at == std::vector<TimePoint>{Outlook::kUnknown, later});
  ledger.expect_end("team/job", noon);
  ledger.expect_end("team/jo", later);
  CHECK(ledger.outlook(gpus(1)).at == std::vector<TimePoint>{noon, later});
  mine.host = "b";
  ledger.promise("team/job-1-1-0", mine);  // overbooked, until it is known to be there
  CHECK(ledger.outlook(gpus(1)).at == std::vector<TimePoint>{noon, later});
  ledger.expect_end("team/job", std::nullopt);
  CHECK(ledger.outlook(gpus(1)).at == std::vector<TimePoint>{Outlook::kUnknown, Outlook::kUnknown});
  ledger.drop_pod("team/job-1-0-0");
  ledger.withdraw("team/job-1-1-0");
  CHECK(ledger.outlook(gpus(1)).at == std::vector<TimePoint>{TimePoint::min(), later});
  CHECK(ledger.outlook(gpus(1)).units == std::vector<int>{7, 8});
}

TEST_CASE("ledger: a pod that was bound elsewhere than promised takes what it takes there",
          "[placement]") {
  Ledger ledger({});
  ledger.set_host(host("a", 8));
  ledger.set_host(host("b", 8));
  ledger.promise("team/p", on("a", 8));
  CHECK(ledger.see_pod("team/p", on("b", 8)));
  CHECK(units_on(ledger, gpus(8), "a") == 1);
  CHECK(units_on(ledger, gpus(8), "b") == 0);
  CHECK_FALSE(ledger.is_overbooked("b", {{"gpu", 1}}));
  ledger.see_pod("others/q", on("b", 1));
  CHECK(ledger.is_overbooked("b", {{"gpu", 1}}));
  CHECK_FALSE(ledger.is_overbooked("b", {{"cpu", 1}, {"gpu", 0}}));
  CHECK_FALSE(ledger.is_overbooked("c", {{"gpu", 1}}));
}

TEST_CASE("ledger: pods are a resource as well, and a machine that lost its devices has none",
          "[placement]") {
  Ledger ledger({});
  ledger.set_host(host("a", 100));
  CHECK(units_on(ledger, gpus(1), "a") == 10);
  ledger.see_pod("kube-system/proxy", {"a", {{"cpu", 7'000}, {"pods", 1}}, true});
  CHECK(units_on(ledger, gpus(1), "a") == 9);
  CHECK(ledger.room(gpus(1)).is_pristine(0));
  ledger.see_pod("team/p", on("a", 3));
  CHECK_FALSE(ledger.room(gpus(1)).is_pristine(0));
  CHECK(units_on(ledger, {.requests = {{"cpu", 2'000}}}, "a") == 0);
  // Its device plugin begins anew: more is taken than there is.
  ledger.set_host(host("a", 0));
  CHECK(units_on(ledger, gpus(1), "a") == 0);
  CHECK(units_on(ledger, {.requests = {{"tpu", 1}}}, "a") == 0);
}

TEST_CASE("ledger: who may not run on a machine has no room there", "[placement]") {
  Ledger ledger({});
  ledger.set_host(host("a", 8));
  Host cordoned = host("b", 8);
  cordoned.taints = {{"node.kubernetes.io/unschedulable", "", "NoSchedule"}};
  ledger.set_host(cordoned);
  CHECK(units_on(ledger, gpus(8), "a") == 1);
  CHECK(units_on(ledger, gpus(8), "b") == 0);
  const json selector = {{"nodeSelector", {{"rack", "other"}}}};
  CHECK(units_on(ledger, {gpus(8).requests, Demands::of(selector)}, "a") == 0);
}

TEST_CASE("ledger: as counted anew, whatever comes and goes", "[placement]") {
  std::mt19937 random{20261125};
  const auto below = [&](unsigned count) { return static_cast<int>(random() % count); };
  Ledger ledger({"rack"});
  std::map<std::string, Host> hosts;
  std::map<std::string, Booking> seen, promised;
  for (int round = 0; round < 4'000; ++round) {
    const std::string name = "h" + std::to_string(below(6));
    const std::string pod = "team/p" + std::to_string(below(12));
    switch (below(12)) {
      case 0:
        hosts[name] = host(name, below(9), std::to_string(below(2)));
        ledger.set_host(hosts[name]);
        break;
      case 1:
        hosts.erase(name);
        ledger.drop_host(name);
        break;
      case 2:
      case 3:
      case 4:
        seen[pod] = on(name, below(4));
        ledger.see_pod(pod, seen[pod]);
        break;
      case 5:
        seen.erase(pod);
        ledger.drop_pod(pod);
        break;
      case 6:
        promised.erase(pod);
        ledger.withdraw(pod);
        break;
      default:
        promised[pod] = on(name, below(4));
        ledger.promise(pod, promised[pod]);
    }
    const Shape shape = gpus(1 + below(3));
    INFO("round " << round);
    REQUIRE(ledger.topology().hosts() == static_cast<int>(hosts.size()));
    for (const auto& [key, one] : hosts) {
      std::int64_t gpu = one.allocatable.at("gpu"), pods = 10;
      auto counted = promised;
      for (const auto& [uid, booking] : seen) counted[uid] = booking;
      for (const auto& [uid, booking] : counted) {
        if (booking.host != key) continue;
        gpu -= booking.requests.at("gpu");
        pods -= 1;
      }
      const std::int64_t units =
          std::max<std::int64_t>(std::min(gpu / shape.requests.at("gpu"), pods), 0);
      REQUIRE(units_on(ledger, shape, key) == units);
    }
  }
}

TEST_CASE("ledger: what fits without some owners is what fits when their pods are gone",
          "[placement]") {
  std::mt19937 random(7);
  const auto below = [&](int count) {
    return static_cast<int>(random() % static_cast<unsigned>(count));
  };
  for (int round = 0; round < 200; ++round) {
    Ledger ledger({"rack"}), without({"rack"});
    std::vector<Ledger::Leaver> leavers{{"a", {}}, {"b", {}}, {"c", {}}};
    const std::vector<bool> is_gone{below(2) == 0, below(2) == 0, below(2) == 0};
    const bool is_spare_alone = below(2) == 0;  // of those nothing but what is spare
    for (int number = 0; number < 6; ++number) {
      for (Ledger* one : {&ledger, &without}) one->set_host(host("h" + std::to_string(number), 8));
    }
    for (int pod = 0; pod < 20; ++pod) {
      const auto owner = static_cast<std::size_t>(below(4));
      const std::string key = "team/pod-" + std::to_string(pod);
      Booking booking = on("h" + std::to_string(below(7)), below(4));  // one host is not there
      booking.owner = owner < 3 ? leavers[owner].owner : "";
      const bool is_spare = below(3) == 0;
      if (owner < 3 && is_spare) leavers[owner].spare.push_back(key);
      ledger.promise(key, booking);
      if (below(3) == 0) ledger.see_pod(key, booking);
      const bool goes = owner < 3 && is_gone[owner] && (is_spare || !is_spare_alone);
      if (!goes) without.promise(key, booking);
    }
    const Shape shape = gpus(1 + below(3));
    Clearing clearing = ledger.clearing(shape, leavers);
    CHECK(clearing.room(ledger.topology(), {0, ledger.topology().hosts()}).units() ==
          ledger.room(shape).units());
    for (std::size_t owner = 0; owner < 3; ++owner) {
      if (!is_gone[owner]) continue;
      const int before = clearing.units({0, 6});
      const int more = clearing.take_out(2 * owner, {0, 3}) + clearing.take_out(2 * owner, {3, 6});
      CHECK(clearing.units({0, 6}) == before + more);
      if (!is_spare_alone) clearing.take_out(2 * owner + 1, {0, 6});
    }
    CHECK(clearing.room(ledger.topology(), {0, ledger.topology().hosts()}).units() ==
          without.room(shape).units());
    for (std::size_t owner = 0; owner < 3; ++owner) {
      if (!is_gone[owner]) continue;
      clearing.put_back(2 * owner, {0, 6});
      if (!is_spare_alone) clearing.put_back(2 * owner + 1, {0, 6});
    }
    CHECK(clearing.room(ledger.topology(), {0, ledger.topology().hosts()}).units() ==
          ledger.room(shape).units());
  }
}

TEST_CASE("ledger: what a host holds at most, however much ends", "[placement][I48]") {
  Ledger ledger({"rack"});
  ledger.set_host(host("a", 8));
  ledger.set_host(host("b", 4));
  CHECK(ledger.units_ever(gpus(2)) == std::vector<int>{4, 2});
  Booking lasting = on("a", 8), fixture = on("b", 1);
  lasting.is_lasting = true;
  fixture.is_fixture = true;
  ledger.see_pod("team/lasting", lasting);
  const auto before = ledger.changes_ever();
  CHECK(ledger.units_ever(gpus(2)) == std::vector<int>{4, 2});
  ledger.see_pod("team/fixture", fixture);
  CHECK(ledger.changes_ever() != before);
  CHECK(ledger.units_ever(gpus(2)) == std::vector<int>{4, 1});
  CHECK(ledger.most_ever(gpus(2), {}) == 5);
  CHECK(ledger.most_ever(gpus(2), {.required_depth = 2}) == 4);
  CHECK(ledger.extent_of(gpus(2)).most == Resources{{"gpu", 8}, {"pods", 10}});
  // What it had it may have again, as long as it is the same machine.
  ledger.set_host(host("a", 0));
  CHECK(ledger.room(gpus(2)).units() == std::vector<int>{0, 1});
  CHECK(ledger.units_ever(gpus(2)) == std::vector<int>{4, 1});
  ledger.drop_host("a");
  ledger.set_host(host("a", 2));
  CHECK(ledger.units_ever(gpus(2)) == std::vector<int>{1, 1});
  CHECK(ledger.most_ever(gpus(2), {}) == 2);
  ledger.drop_pod("team/fixture");
  CHECK(ledger.units_ever(gpus(2)) == std::vector<int>{1, 2});
  CHECK(ledger.most_ever(gpus(2), {}) == 3);
}
