// What each queue may use, and which goes first.
#include "operator/admission/quotas.h"

#include <catch2/catch_test_macros.hpp>
#include <limits>

#include "common/base/random.h"

using namespace pawl;
using admission::Queue;
using admission::Quota;
using admission::Quotas;

namespace {

placement::Resources gpus(std::int64_t count) { return {{"gpu", count}}; }

Queue queue_of(Quota quota, int weight = 1) { return {{{"gpu", quota}}, weight}; }

// The most that may still be had.
std::int64_t available(const Quotas& quotas, const std::string& queue) {
  const auto shortage = quotas.shortage(queue, gpus(1'000'000));
  return shortage ? shortage->available : -1;
}

}  // namespace

TEST_CASE("quotas: what others do not use is borrowed, as far as they lend", "[admission]") {
  Quotas quotas;
  quotas.set("a", queue_of({.nominal = 8}));
  quotas.set("b", queue_of({.nominal = 8, .lending_max = 4}));
  CHECK(available(quotas, "a") == 12);
  CHECK(available(quotas, "b") == 16);
  quotas.charge("a/1", "a", gpus(10));
  CHECK(available(quotas, "a") == 2);
  CHECK(available(quotas, "b") == 6);  // its own four, and what is left of the pool
  quotas.charge("a/1", "a", gpus(12));
  CHECK(available(quotas, "b") == 4);
  quotas.charge("b/1", "b", gpus(4));
  CHECK(available(quotas, "b") == 0);
  quotas.charge("a/1", "a", {});
  CHECK(available(quotas, "b") == 12);
}

TEST_CASE("quotas: nobody borrows more than its limit", "[admission]") {
  Quotas quotas;
  quotas.set("a", queue_of({.nominal = 8, .borrowing_max = 2}));
  quotas.set("b", queue_of({.nominal = 8}));
  CHECK(available(quotas, "a") == 10);
  CHECK(quotas.borrows("a", gpus(9)));
  CHECK_FALSE(quotas.borrows("a", gpus(8)));
  const auto shortage = quotas.shortage("a", gpus(11));
  REQUIRE(shortage);
  CHECK(shortage->is_for_ever);
  quotas.charge("a/1", "a", gpus(10));
  CHECK_FALSE(quotas.shortage("a", gpus(2))->is_for_ever);
  quotas.set("a", queue_of({.nominal = 4, .borrowing_max = 0}));  // less than what it uses
  CHECK(available(quotas, "a") == 0);
  CHECK(available(quotas, "b") == 2);
}

TEST_CASE("quotas: what a queue does not name it may use", "[admission]") {
  Quotas quotas;
  quotas.set("a", queue_of({.nominal = 8}));
  quotas.set("free", {});
  CHECK_FALSE(quotas.shortage("a", {{"cpu", 1'000}}));
  CHECK_FALSE(quotas.shortage("free", gpus(1'000)));
  CHECK_FALSE(quotas.shortage("nobody", gpus(1'000)));
  quotas.charge("free/1", "free", gpus(100));
  CHECK(available(quotas, "a") == 8);  // those were never in the pool
}

TEST_CASE("quotas: what will never do is said before what lacks for now", "[admission]") {
  Quotas quotas;
  quotas.set("a", {{{"cpu", {.nominal = 8}}, {"gpu", {.nominal = 8}}}, 1});
  quotas.charge("a/1", "a", {{"cpu", 8}});
  const auto shortage = quotas.shortage("a", {{"cpu", 4}, {"gpu", 9}});
  REQUIRE(shortage);
  CHECK(shortage->resource == "gpu");
  CHECK(shortage->is_for_ever);
}

TEST_CASE("quotas: a charge takes the place of the one before", "[admission]") {
  Quotas quotas;
  quotas.set("a", queue_of({.nominal = 8}));
  CHECK_FALSE(quotas.charge("a/1", "a", gpus(4)));
  CHECK_FALSE(quotas.charge("a/1", "a", gpus(6)));
  CHECK_FALSE(quotas.charge("a/1", "a", gpus(6)));
  CHECK(quotas.used("a", "gpu") == 6);
  CHECK(quotas.running("a") == 1);
  CHECK(quotas.charge("a/1", "a", gpus(5)));
  CHECK(quotas.charge("a/1", "b", gpus(5)));
  CHECK(quotas.used("a", "gpu") == 0);
  CHECK(quotas.charge("a/1", "b", {}));
  CHECK_FALSE(quotas.charge("a/1", "b", {}));
  CHECK(quotas.running("b") == 0);
}

TEST_CASE("quotas: a claim is kept from all queues, and counts for no share", "[admission]") {
  Quotas quotas;
  quotas.set("a", queue_of({.nominal = 8}));
  quotas.set("b", queue_of({.nominal = 8}));
  quotas.set_claim("a", gpus(6));
  CHECK(available(quotas, "a") == 10);
  CHECK(available(quotas, "b") == 10);
  CHECK_FALSE(quotas.shortage("a", gpus(16), Quotas::Claims::kOfOthers));
  CHECK(quotas.entitled("a", gpus(9)) == gpus(8));
  CHECK(quotas.share("a") == 0);
  quotas.drop_claims();
  CHECK(available(quotas, "b") == 16);
}

TEST_CASE("quotas: nobody has a claim to what is another queue's own", "[admission][O14]") {
  Quotas quotas;
  quotas.set("a", queue_of({.nominal = 4}));
  quotas.set("b", queue_of({.nominal = 1}));
  quotas.set("c", queue_of({.nominal = 1}));
  quotas.charge("c/1", "c", gpus(2));  // one of them borrowed
  quotas.set_claim("a", gpus(4));
  CHECK_FALSE(quotas.shortage("b", gpus(1)));
  CHECK(quotas.shortage("b", gpus(2)));
  quotas.set_claim("b", gpus(1));
  CHECK(quotas.shortage("b", gpus(1)));  // behind another one of its queue
  CHECK_FALSE(quotas.shortage("b", gpus(1), Quotas::Claims::kOfOthers));
}

TEST_CASE("quotas: the share is that of the resource of which it has most, by weight",
          "[admission]") {
  Quotas quotas;
  quotas.set("a", {{{"gpu", {.nominal = 10}}, {"cpu", {.nominal = 1'000}}}, 2});
  quotas.set("b", {{{"gpu", {.nominal = 10}}}, 1});
  quotas.charge("a/1", "a", {{"gpu", 5}, {"cpu", 800}});
  quotas.charge("b/1", "b", gpus(5));
  CHECK(quotas.share("a") == 400'000);
  CHECK(quotas.share("b") == 250'000);
  quotas.charge("c/1", "", gpus(20));  // of no queue
  CHECK(quotas.share("") == 1'000'000);
  quotas.charge("c/1", "", gpus(std::numeric_limits<std::int64_t>::max()));
  CHECK(quotas.share("") > 1'000'000);
}

// As long as nobody takes more than what is available no limit is broken.
TEST_CASE("quotas: all that is available can be had by everybody in turn", "[admission]") {
  Random random{3};
  for (int run = 0; run < 300; ++run) {
    INFO("run " << run);
    Quotas quotas;
    std::int64_t total = 0;
    for (const char* name : {"a", "b", "c"}) {
      Quota quota{.nominal = static_cast<std::int64_t>(random.below(10))};
      if (random.one_in(2)) quota.borrowing_max = random.below(6);
      if (random.one_in(2)) quota.lending_max = random.below(12);
      total += quota.nominal;
      quotas.set(name, queue_of(quota));
    }
    for (int step = 0; step < 20; ++step) {
      const std::string name{static_cast<char>('a' + random.below(3))};
      const std::string owner = name + "/" + std::to_string(random.below(3));
      quotas.charge(owner, name, {});
      const std::int64_t most = available(quotas, name);
      REQUIRE(most >= 0);
      quotas.charge(
          owner, name,
          gpus(static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(most) + 1))));
      std::int64_t used = 0;
      for (const auto& [queue, what] : quotas.queues()) {
        const Quota& quota = what.quotas.at("gpu");
        const std::int64_t own = quotas.used(queue, "gpu");
        used += own;
        if (quota.borrowing_max) CHECK(own <= quota.nominal + *quota.borrowing_max);
        // What it does not lend is there for it whatever the others do.
        const std::int64_t lent = std::min(quota.lending_max.value_or(99), quota.nominal);
        const std::int64_t all_own = quota.nominal - lent;
        if (own < all_own) CHECK(available(quotas, queue) >= all_own - own);
      }
      CHECK(used <= total);
    }
  }
}
