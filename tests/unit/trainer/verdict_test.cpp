#include "trainer-runtime/collective/verdict.h"

#include <atomic>
#include <catch2/catch_test_macros.hpp>
#include <thread>
#include <vector>

#include "tests/unit/trainer/ring_gang.h"

using namespace pawl;
using namespace std::chrono_literals;
using collective::Collective;
using collective::Standing;

namespace {

bool says(const Status& status, const std::string& part) {
  return !status && status.error().message.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("verdict: one sentence says who has not done what, and what that rests on", "[trainer]") {
  const Standing sum{.rank = 0,
                     .world_size = 4,
                     .operation = "all-reduce",
                     .sequence = 1841,
                     .bucket = 3,
                     .waited = 4'240ms};
  const auto with = [&](auto change) {
    Standing standing = sum;
    change(standing);
    return collective::verdict_of(standing);
  };
  CHECK(with([](auto&) {}) ==
        "rank 3 did not start all-reduce 1841 (bucket 3) that rank 0 waits in (after 4.2 s)");
  CHECK(with([](auto& s) { s.may_have_begun = true; }) ==
        "rank 3 did not start all-reduce 1841 (bucket 3) that rank 0 waits in, unless it waits in "
        "it, too (after 4.2 s)");
  CHECK(with([](auto& s) { s.begun = 1; }) ==
        "rank 2 did not start all-reduce 1841 (bucket 3) that ranks 0, 3 wait in, unless rank 3 "
        "stands still (after 4.2 s)");
  CHECK(with([](auto& s) { s.begun = 2; }) ==
        "rank 1 did not start all-reduce 1841 (bucket 3) that ranks 0, 2, 3 wait in, unless one of "
        "these stands still (after 4.2 s)");
  CHECK(with([](auto& s) { s.begun = 3; }) ==
        "rank 3 did not go on with all-reduce 1841 (bucket 3), which all ranks have started (after "
        "4.2 s)");
  CHECK(with([](auto& s) { s.is_receiving = false; }) ==
        "rank 1 did not take what rank 0 sent of all-reduce 1841 (bucket 3) (after 4.2 s)");
  const auto broadcast = [&](int begun) {
    return with([&](auto& s) {
      s.operation = "broadcast";
      s.bucket = 2;
      s.is_broadcast = true;
      s.begun = begun;
    });
  };
  CHECK(broadcast(0) ==
        "rank 3 did not start to send broadcast 1841 of rank 2 that rank 0 waits in (after 4.2 s)");
  CHECK(broadcast(1) ==
        "rank 3 did not send all of broadcast 1841 of rank 2 that rank 0 waits in (after 4.2 s)");
  CHECK(with([](auto& s) {
          s.world_size = 64;
          s.begun = 20;
        }).starts_with("rank 43 did not start all-reduce 1841 (bucket 3) that 21 ranks wait in"));
}

TEST_CASE("ring: the ranks that wait name the one that does not come", "[trainer]") {
  enum class Kind { kBucket, kSmall, kScatter };
  for (const Kind kind : {Kind::kBucket, Kind::kSmall, Kind::kScatter}) {
    test::RingGang gang(3);
    for (auto& options : gang.options) options.call_deadline = 1s;
    std::atomic<int> given_up = 0;
    const auto results = gang.run([&](Collective& ring) -> Status {
      PAWL_TRY_VOID(ring.barrier());
      std::vector<float> values(30'000);
      while (ring.rank() == 2 && given_up < 2) std::this_thread::yield();  // it never comes
      if (ring.rank() == 2) return {};
      const Status status = kind == Kind::kSmall ? ring.barrier()
                            : kind == Kind::kBucket
                                ? ring.wait(ring.start_all_reduce(values, 5))
                                : ring.wait(ring.start_reduce_scatter(values, 5));
      ++given_up;
      return status;
    });
    const std::string operation = kind == Kind::kScatter ? "reduce-scatter 2" : "all-reduce 2";
    const std::string verdict = "; rank 2 did not start " + operation +
                                (kind == Kind::kSmall ? " (bucket 0)" : " (bucket 5)") + " that ";
    INFO((results[0] ? "" : results[0].error().message));
    INFO((results[1] ? "" : results[1].error().message));
    // One number: rank 2 has nothing to send at first.
    const std::string doubt = kind == Kind::kSmall ? ", unless it waits in it, too" : "";
    CHECK(says(results[0], verdict + "rank 0 waits in" + doubt + " (after "));
    CHECK(says(results[1], verdict + "ranks 0, 1 wait in, unless rank 0 stands still (after "));
    CHECK(results[2]);
  }
}

TEST_CASE("ring: in a barrier only the rank that does not come is named without a doubt",
          "[trainer]") {
  for (const int absent : {0, 1, 2}) {
    test::RingGang gang(3);
    for (auto& options : gang.options) options.call_deadline = 1s;
    std::atomic<int> given_up = 0;
    const auto results = gang.run([&](Collective& ring) -> Status {
      while (ring.rank() == absent && given_up < 2) std::this_thread::yield();
      if (ring.rank() == absent) return {};
      const Status status = ring.barrier();
      ++given_up;
      return status;
    });
    for (const Status& status : results) {
      if (status || says(status, "unless")) continue;
      INFO(absent << ": " << status.error().message);
      CHECK(says(status, "; rank " + std::to_string(absent) + " did not start"));
    }
  }
}

TEST_CASE("ring: who is told to stop at once names nobody", "[trainer]") {
  test::RingGang gang(2);
  std::atomic<bool> is_over = false;
  const auto results = gang.run([&](Collective& ring) -> Status {
    std::vector<float> values(10);
    while (ring.rank() == 1 && !is_over) std::this_thread::yield();
    if (ring.rank() == 1) return {};
    const auto ticket = ring.start_all_reduce(values, 0);
    ring.abort("told to stop");
    const Status status = ring.wait(ticket);
    is_over = true;
    return status;
  });
  REQUIRE(!results[0]);
  CHECK(results[0].error().message == "told to stop");
}
