// Gangs that may begin smaller, and those that wait for more members than they need.
#include <catch2/catch_test_macros.hpp>

#include "common/base/random.h"
#include "operator/placement/placement.h"
#include "tests/unit/operator/admission/park.h"

using namespace pawl;
using namespace pawl::test;
using admission::Gang;
using std::chrono::seconds;

namespace {

int placed_units(const Park& park, const std::string& id) {
  const auto& verdict = park.verdict(id);
  return verdict.placement ? admission::units_of(*verdict.placement) : 0;
}

Gang elastic(Park& park, const std::string& id, const std::string& queue, int least, int most) {
  Gang gang = park.gang(id, queue, least);
  gang.more_units = most - least;
  return gang;
}

Gang growth(Park& park, const std::string& id, const std::string& queue, int most) {
  Gang gang = elastic(park, id, queue, 1, most);
  gang.is_growth = true;
  gang.waits_since.reset();
  return gang;
}

}  // namespace

TEST_CASE("elastic: it begins with as many members as there is room for", "[admission]") {
  Park park(2);
  park.join("a", "", 5);
  REQUIRE(park.round() == "a");
  park.line.join(elastic(park, "b", "", 4, 32));
  CHECK(park.round() == "b");
  CHECK(placed_units(park, "b") == 11);
  park.end("a");
  park.line.join(elastic(park, "c", "", 6, 8));
  CHECK(park.round().empty());
  park.line.join(elastic(park, "d", "", 2, 4));
  CHECK(park.round() == "d");
  CHECK(placed_units(park, "d") == 4);
}

TEST_CASE("elastic: it takes no more than there is quota for, and is charged for that",
          "[admission]") {
  Park park(4);
  park.set_queue("a", {.nominal = 6, .borrowing_max = 1});
  park.set_queue("b", {.nominal = 8});
  park.line.join(elastic(park, "a1", "a", 2, 20));
  CHECK(park.round() == "a1");
  CHECK(placed_units(park, "a1") == 7);
  CHECK(park.quotas.used("a", "gpu") == 7);
  park.line.join(elastic(park, "a2", "a", 1, 20));
  CHECK(park.round().empty());
  CHECK(park.verdict("a2").shortage->needed == 1);
}

TEST_CASE("elastic: what it keeps of its quota it needs no more of", "[admission]") {
  Park park(2);
  park.set_queue("a", {.nominal = 8});
  park.join("other", "a", 4);
  REQUIRE(park.round() == "other");
  park.quotas.charge("a1", "a", {{"gpu", 3}});
  Gang gang = elastic(park, "a1", "a", 2, 8);
  gang.kept_units = 3;
  gang.keeps_quota = true;
  park.line.join(gang);
  CHECK(park.round() == "a1");
  CHECK(placed_units(park, "a1") == 4);
  CHECK(park.quotas.used("a", "gpu") == 8);
}

TEST_CASE("elastic: all of it is within the domain that it requires", "[admission]") {
  Park park(3);
  park.join("a", "", 6);
  REQUIRE(park.round() == "a");
  Gang gang = elastic(park, "b", "", 2, 24);
  gang.ask.required_depth = park.ledger.topology().host_depth();
  park.line.join(gang);
  CHECK(park.round() == "b");
  CHECK(placed_units(park, "b") == 8);
  gang = growth(park, "a", "", 24);
  gang.ask.required_depth = park.ledger.topology().host_depth();
  gang.beside = {"host-10"};
  park.line.join(gang);
  CHECK(park.round() == "a");
  CHECK(placed_units(park, "a") == 2);
}

TEST_CASE("elastic: of nodes that it avoids it takes what it needs, and no more", "[admission]") {
  Park park(2);
  Gang gang = elastic(park, "a", "", 4, 16);
  SECTION("the others are enough") {
    gang.avoided = {"host-11"};
    park.line.join(gang);
    CHECK(park.round() == "a");
    CHECK(placed_units(park, "a") == 8);
    Gang more = growth(park, "a", "", 8);
    more.is_enough = true;
    more.avoided = {"host-11"};
    park.line.join(more);
    CHECK(park.round().empty());
    more.avoided.clear();
    park.line.join(more);
    CHECK(park.round() == "a");
  }
  SECTION("the others are not") {
    gang = elastic(park, "a", "", 10, 16);
    gang.avoided = {"host-11"};
    park.line.join(gang);
    CHECK(park.round() == "a");
    CHECK(placed_units(park, "a") == 10);
  }
}

TEST_CASE("elastic: who can do without more members goes after all others", "[admission]") {
  Park park(2);
  park.set_queue("a", {.nominal = 16}, 1, true);
  park.line.join(growth(park, "runs", "a", 12));
  park.join("low", "a", 6, -100);
  CHECK(park.round() == "low runs");
  CHECK(placed_units(park, "runs") == 10);
  CHECK(park.quotas.used("a", "gpu") == 16);
  CHECK(park.line.waiting_in("a") == 0);
}

// A queue that is FIFO is not held up, nobody has to leave, and nothing is kept for it.
TEST_CASE("elastic: nobody waits for somebody who grows", "[admission]") {
  Park park(1);
  park.set_queue("a", {.nominal = 4}, 1, true);
  park.set_queue("b", {.nominal = 4});
  park.join("a1", "a", 4);
  REQUIRE(park.round() == "a1");
  park.line.join(growth(park, "a1", "a", 9));
  REQUIRE(park.round() == "a1");
  REQUIRE(placed_units(park, "a1") == 4);
  park.line.join(growth(park, "a1", "a", 5));
  CHECK(park.round().empty());
  CHECK(park.verdict("a1").shortage);
  park.now += seconds{1'000};
  park.end("a1");
  park.join("b1", "b", 8);
  CHECK(park.round() == "b1");
  CHECK(park.line.askers(park.quotas).empty());
  park.join("a2", "a", 1);
  park.round();
  CHECK(park.verdict("a2").ahead == 0);
}

// What it gets is the most that could be had, and never more than room and quota.
TEST_CASE("elastic: it gets the most that there is, in random parks", "[admission]") {
  Random random(20261127);
  for (int i = 0; i < 500; ++i) {
    Park park(1 + static_cast<int>(random.below(3)));
    const int nominal = 1 + static_cast<int>(random.below(24));
    park.set_queue("a", {.nominal = nominal, .borrowing_max = 0});
    const int used = static_cast<int>(random.below(8));
    if (used > 0) park.join("first", "a", used);
    park.round();
    const int taken = static_cast<int>(park.quotas.used("a", "gpu"));
    const int hosts = park.ledger.topology().hosts();
    const int least = 1 + static_cast<int>(random.below(12));
    const int most = least + static_cast<int>(random.below(20));
    park.line.join(elastic(park, "gang", "a", least, most));
    park.round();
    const int can = std::min({8 * hosts - taken, nominal - taken, most});
    INFO("run " << i << ": " << least << " to " << most << ", " << taken << " of " << nominal);
    CHECK(placed_units(park, "gang") == (can < least ? 0 : can));
  }
}
