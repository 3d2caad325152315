// Gangs of several queues in one line.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include "common/base/random.h"
#include "tests/unit/operator/admission/park.h"

using namespace pawl;
using namespace pawl::test;
using admission::Gang;
using admission::Quota;
using std::chrono::seconds;

TEST_CASE("queues: the one with the smallest share by weight goes first", "[admission]") {
  Park park(1);
  park.set_queue("a", {.nominal = 4});
  park.set_queue("b", {.nominal = 12}, 3);
  for (const char* id : {"a1", "a2", "a3"}) park.join(id, "a", 1);
  for (const char* id : {"b1", "b2", "b3", "b4", "b5"}) park.join(id, "b", 1);
  CHECK(park.round() == "a1 b1 b2 b3 a2 b4 b5 a3");
}

TEST_CASE("queues: who does not borrow goes first, whatever its priority", "[admission]") {
  Park park(1);
  park.set_queue("a", {.nominal = 4});
  park.set_queue("b", {.nominal = 4});
  park.join("a1", "a", 6, 100);
  park.join("b1", "b", 3);
  CHECK(park.round() == "b1");
  CHECK(park.verdict("a1").shortage->available == 5);
  park.end("b1");
  CHECK(park.round() == "a1");
}

TEST_CASE("queues: within one it goes by priority, and across at the same share", "[admission]") {
  Park park(1);
  park.set_queue("a", {.nominal = 4});
  park.set_queue("b", {.nominal = 4});
  park.join("a1", "a", 1, 1);
  park.join("b1", "b", 1, 5);
  park.join("a2", "a", 1, 9);
  CHECK(park.round() == "a2 b1 a1");
}

TEST_CASE("queues: a job of no queue needs no quota, and takes its turn", "[admission]") {
  Park park(1);
  park.set_queue("a", {.nominal = 4});
  park.join("a1", "a", 2);
  park.join("free1", "", 2);
  park.join("free2", "", 2, 10);
  park.join("a2", "a", 2);
  CHECK(park.round() == "free2 a1 free1 a2");
}

TEST_CASE("queues: in a FIFO queue nobody goes before the first", "[admission]") {
  Park park(1);
  park.set_queue("a", {.nominal = 8}, 1, true);
  park.set_queue("b", {.nominal = 8});
  park.join("a0", "a", 3);
  REQUIRE(park.round() == "a0");
  park.join("a1", "a", 6);
  park.join("a2", "a", 1);
  park.join("b1", "b", 9);
  park.join("b2", "b", 1);
  CHECK(park.round() == "b2");
  CHECK_FALSE(park.verdict("a1").is_behind);
  CHECK(park.verdict("a2").is_behind);
  park.join("a3", "a", 1);
  CHECK(park.round(false).empty());
  CHECK(park.verdict("a3").ahead == 2);
  park.end("a0");
  CHECK(park.round() == "a1 a2");
}

TEST_CASE("queues: two that both have to borrow do not wait for each other", "[admission]") {
  Park park(4);
  park.set_queue("a", {.nominal = 3, .lending_max = 2});
  park.set_queue("b", {.nominal = 2});
  park.join("b0", "b", 5);
  park.join("a1", "a", 4);
  park.quotas.charge("x", "a", {{"gpu", 3}});
  CHECK(park.round().empty());
  park.join("b1", "b", 3);
  park.line.leave("b0");
  park.now += seconds{61};
  park.round();
  park.quotas.charge("x", "", {});
  CHECK_FALSE(park.round().empty());
}

TEST_CASE("queues: who has its quota is not behind those that wait for it", "[admission]") {
  Park park(1);
  park.set_queue("a", {.nominal = 8}, 1, GENERATE(false, true));
  park.join("a1", "a", 8, 10);
  Gang gang = park.gang("a2", "a", 4);
  gang.kept_units = gang.ask.units;
  gang.keeps_quota = true;
  park.quotas.charge("a2", "a", {{"gpu", 4}});
  park.line.join(gang);
  CHECK(park.round() == "a2");
  CHECK(park.quotas.used("a", "gpu") == 4);
}

TEST_CASE("queues: who has its quota already keeps none from those behind it for others",
          "[admission]") {
  Park park(3);
  park.set_queue("a", {.nominal = 10});
  park.quotas.charge("x", "a", {{"gpu", 2}});
  for (const char* host : {"host-10", "host-11", "host-12"})
    park.ledger.promise(host, {.host = host, .requests = {{"gpu", host[6] == '0' ? 6 : 8}}});
  Gang gang = park.gang("keeper", "a", 4);
  gang.kept_units = gang.ask.units;
  gang.keeps_quota = true;
  park.quotas.charge("keeper", "a", {{"gpu", 4}});
  park.line.join(gang);
  park.join("large", "a", 6);
  park.round();
  park.now += seconds{61};
  park.join("small", "a", 1);
  CHECK(park.round().empty());  // what is left is for the large one
  CHECK(park.verdict("small").shortage);
}

TEST_CASE("queues: quota is kept for the first that has waited for long", "[admission]") {
  Park park(4);
  park.set_queue("a", {.nominal = 8});
  park.set_queue("b", {.nominal = 0});
  park.join("a0", "a", 4);
  REQUIRE(park.round() == "a0");
  park.join("large", "a", 8);
  park.join("small", "a", 1);
  park.join("borrower", "b", 1);
  CHECK(park.round() == "small borrower");  // for the time being
  park.end("small");
  park.now += seconds{61};
  for (const char* id : {"small-2", "borrower-2"}) park.join(id, id[0] == 's' ? "a" : "b", 1);
  CHECK(park.round().empty());
  park.join("large", "a", 8);
  park.round(false);
  CHECK(park.verdict("large").shortage->used == 4);
  CHECK(park.verdict("large").shortage->available == 3);
  CHECK_FALSE(park.verdict("large").kept);  // no nodes, as long as it lacks quota
  park.end("a0");
  CHECK(park.round().empty());
  park.end("borrower");
  CHECK(park.round() == "large");
}

TEST_CASE("queues: who held up others and goes makes way for them", "[admission]") {
  Park park(4);
  const bool is_fifo = GENERATE(false, true);
  park.set_queue("a", {.nominal = 8}, 1, is_fifo);
  park.join("a0", "a", 4);
  REQUIRE(park.round() == "a0");
  park.join("large", "a", 8);
  park.round();
  park.now += seconds{61};
  park.join("small", "a", 1);
  CHECK(park.round(false).empty());
  SECTION("it is deleted") { park.line.leave("large"); }
  SECTION("it asks for less") {
    park.join("large", "a", 3);
    CHECK(park.round(false) == "large small");
    return;
  }
  CHECK(park.round(false) == "small");
}

TEST_CASE("queues: of a queue that is gone nobody gets anything", "[admission]") {
  Park park(4);
  park.set_queue("a", {.nominal = 8});
  park.join("a1", "a", 9);
  park.join("free", "", 1);
  CHECK(park.round() == "free");
  park.quotas.drop("a");
  park.now += seconds{61};
  park.join("a2", "a", 1);
  CHECK(park.round().empty());
}

TEST_CASE("queues: who is underway grows before those that have waited for long", "[admission]") {
  Park park(4);
  park.set_queue("a", {.nominal = 8});
  park.quotas.charge("a0", "a", {{"gpu", 5}});
  park.join("large", "a", 8);
  park.round();
  park.now += seconds{61};
  Gang gang = park.gang("a0", "a", 2);
  gang.is_underway = true;
  gang.waits_since.reset();
  gang.beside = {"host-10"};
  park.line.join(gang);
  park.join("small", "a", 1);
  CHECK(park.round() == "a0");
}

TEST_CASE("queues: nothing is kept for who can never begin", "[admission]") {
  Park park(1);
  park.set_queue("a", {.nominal = 64});
  park.join("a0", "a", 8);
  REQUIRE(park.round() == "a0");
  park.join("never", "a", 60);  // more than all hosts have
  park.join("too-much", "a", 65);
  park.now += seconds{100};
  park.end("a0");
  park.join("small", "a", 8);
  CHECK(park.round() == "small");
  park.join("too-much", "a", 65);
  park.round();
  CHECK(park.verdict("too-much").shortage->is_for_ever);
}

TEST_CASE("queues: who lacks a member needs quota only for what it grows by", "[admission]") {
  Park park(2);
  park.set_queue("a", {.nominal = 4});
  park.quotas.charge("a1", "a", {{"gpu", 4}});
  Gang gang = park.gang("a1", "a", 1);
  gang.is_underway = true;
  gang.beside = {"host-10"};
  gang.kept_units = gang.ask.units;
  park.line.join(gang);
  CHECK(park.round() == "a1");
  CHECK(park.quotas.used("a", "gpu") == 4);
  gang.kept_units = gang.ask.units - 1;
  park.line.join(gang);
  CHECK(park.round().empty());
  CHECK(park.verdict("a1").shortage);
}

// A stream of small jobs of its own queue, and of another one that borrows; both would go before it
// for ever.
TEST_CASE("queues: nobody waits for quota for ever", "[admission]") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    INFO("seed " << seed);
    Random random{seed};
    Park park(8);
    park.set_queue("a", {.nominal = 16});
    park.set_queue("b", {.nominal = 4});
    std::map<std::string, TimePoint> ends;
    int next = 0, began_after = -1;
    for (int second = 0; second < 2'000 && began_after < 0; ++second, park.now += seconds{1}) {
      for (auto at = ends.begin(); at != ends.end();) {
        const bool is_over = at->second <= park.now;
        if (is_over) park.end(at->first);
        at = is_over ? ends.erase(at) : std::next(at);
      }
      if (second == 100) park.join("large", "a", 16);
      while (park.line.size() < 6) {
        const bool is_own = random.one_in(2);
        park.join("small-" + std::to_string(next++), is_own ? "a" : "b",
                  1 + static_cast<int>(random.below(2)));
      }
      park.round();
      for (const auto& verdict : park.last) {
        if (!verdict.placement) continue;
        if (verdict.id == "large") began_after = second - 100;
        ends[verdict.id] = park.now + seconds{5 + static_cast<int>(random.below(16))};
      }
    }
    CHECK(began_after >= 0);
    CHECK(began_after <= 60 + 21);
  }
}

// Whoever stays in line lacks quota or room, unless something is kept or its queue is FIFO.
TEST_CASE("queues: room that is kept for a borrower is not kept from who need not borrow",
          "[admission][O14]") {
  Park park(1);
  park.set_queue("a", {.nominal = 7});
  park.set_queue("b", {.nominal = 1});
  park.join("a/1", "a", 4);
  park.join("b/1", "b", 1);
  park.join("b/2", "b", 1);
  REQUIRE(park.round() == "a/1 b/1 b/2");
  const Gang first = park.gang("b/3", "b", 1);
  park.join("b/4", "b", 1);
  park.join("a/2", "a", 3, 1);
  park.now += std::chrono::seconds{61};
  Gang back = first;  // it had room until now
  back.waits_since = park.now;
  park.line.join(back);
  CHECK(park.round().empty());
  CHECK(park.line.kept_before(*park.line.find("a/2"), park.quotas).empty());
}

TEST_CASE("queues: no quota is broken, and none is left unused", "[admission]") {
  Random random{7};
  for (int run = 0; run < 300; ++run) {
    INFO("run " << run);
    Park park(1 + static_cast<int>(random.below(3)));
    for (const char* name : {"a", "b", "c"}) {
      Quota quota{.nominal = static_cast<std::int64_t>(random.below(9))};
      if (random.one_in(2)) quota.borrowing_max = random.below(6);
      if (random.one_in(2)) quota.lending_max = random.below(9);
      park.set_queue(name, quota, 1 + static_cast<int>(random.below(3)), random.one_in(4));
    }
    for (int round = 0; round < 6; ++round) {
      for (int i = 0; i < 6; ++i) {
        const std::string id = std::to_string(round) + std::to_string(i);
        const std::string queue =
            random.one_in(5) ? "" : std::string{static_cast<char>('a' + random.below(3))};
        park.join(id, queue, 1 + static_cast<int>(random.below(6)),
                  static_cast<int>(random.below(3)));
      }
      const std::string first = park.running.empty() ? "" : park.running.begin()->first;
      if (!first.empty() && random.one_in(2)) park.end(first);
      park.round();
      for (const auto& [name, queue] : park.quotas.queues()) {
        const Quota& quota = queue.quotas.at("gpu");
        if (quota.borrowing_max)
          CHECK(park.quotas.used(name, "gpu") <= quota.nominal + *quota.borrowing_max);
      }
      for (const auto& [id, since] : park.asked) {
        const Gang* gang = park.line.find(id);
        if (gang == nullptr) continue;
        const admission::Queue* queue = park.quotas.find(gang->queue);
        if (queue != nullptr && queue->is_fifo) continue;
        const auto room = park.ledger.room(kOne);
        int free = 0;
        for (const int units : room.units()) free += units;
        const bool lacks_quota = park.quotas.shortage(gang->queue, charge_of(*gang)).has_value();
        CHECK((lacks_quota || free < gang->ask.units));
      }
    }
  }
}
