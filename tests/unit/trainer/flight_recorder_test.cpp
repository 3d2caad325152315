#include "trainer-runtime/collective/flight_recorder.h"

#include <array>
#include <atomic>
#include <catch2/catch_test_macros.hpp>
#include <string>
#include <thread>
#include <vector>

#include "tests/unit/trainer/ring_gang.h"

using namespace pawl;
using namespace std::chrono_literals;
using collective::Collective;
using collective::FlightRecorder;
using collective::Record;

TEST_CASE("flight_recorder: the last 4,096 operations are kept, the oldest first", "[trainer]") {
  FlightRecorder recorder;
  std::vector<Record> seen(10'000);
  CHECK(recorder.copy(0, seen) == 0);
  for (std::uint64_t sequence = 1; sequence <= 5'000; ++sequence) {
    recorder.queue({.sequence = sequence, .operation = "all-reduce", .bytes = 2 * sequence});
    recorder.begin(sequence, SteadyPoint{1s});
    recorder.end(sequence, SteadyPoint{2s});
  }
  recorder.end(3, SteadyPoint{9s});  // gone, and nobody else's
  REQUIRE(recorder.copy(0, seen) == FlightRecorder::kRecords);
  for (std::size_t i = 0; i < FlightRecorder::kRecords; ++i) {
    REQUIRE(seen[i].sequence == 5'000 - FlightRecorder::kRecords + 1 + i);
    REQUIRE(seen[i].bytes == 2 * seen[i].sequence);
    REQUIRE(seen[i].ended == SteadyPoint{2s});
  }
  CHECK(recorder.copy(4'998, seen) == 2);
  CHECK(seen[0].sequence == 4'999);
  CHECK(recorder.copy(5'000, seen) == 0);
  CHECK(recorder.copy(0, std::span(seen).first(3)) == 3);
  CHECK(seen[0].sequence == 905);
}

TEST_CASE("ring: what ran is recorded, and who waits for a late rank has waited", "[trainer]") {
  constexpr auto kLate = 300ms;
  test::RingGang gang(3);
  std::array<collective::Times, 3> times;
  std::array<std::vector<Record>, 3> records;
  std::atomic<int> waiting = 0;
  const auto results = gang.run([&](Collective& ring) -> Status {
    PAWL_TRY_VOID(ring.barrier());
    const auto rank = static_cast<std::size_t>(ring.rank());
    std::vector<float> values(100'000);
    ++waiting;
    while (rank == 1 && waiting < 3) std::this_thread::yield();
    if (rank == 1) std::this_thread::sleep_for(kLate);
    PAWL_TRY_VOID(ring.wait(ring.start_all_reduce(values, 3)));
    const collective::Ticket ticket = ring.start_all_gather(values, 4);
    PAWL_TRY_VOID(ring.wait(ticket));
    times[rank] = ring.times();
    PAWL_TRY_VOID(ring.wait(ticket));  // done, so that nobody waits
    if (ring.times().waited != times[rank].waited) return fail(Code::kCorrupt, "waited");
    records[rank].resize(10);
    records[rank].resize(ring.records(1, records[rank]));
    return ring.barrier();
  });
  for (const Status& result : results) CHECK(result);
  for (const std::size_t rank : {0U, 2U}) {
    CHECK(times[rank].waited >= kLate / 2);
    CHECK(times[rank].ran >= kLate / 2);
  }
  for (const auto& all : records) {
    REQUIRE(all.size() == 2);
    CHECK(all[0].operation == std::string("all-reduce"));
    CHECK(all[0].sequence == 2);
    CHECK(all[0].bucket == 3);
    CHECK(all[0].bytes == 400'000);
    CHECK(all[1].operation == std::string("all-gather"));
    for (const Record& record : all) {
      CHECK(record.queued <= record.begun);
      CHECK(record.begun < record.ended);
    }
    CHECK(all[0].ended <= all[1].begun);
  }
}
