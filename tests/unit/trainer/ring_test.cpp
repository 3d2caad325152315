// The TCP ring on the loopback device, one thread a rank.
#include "trainer-runtime/collective/ring.h"

#include <sys/eventfd.h>
#include <algorithm>
#include <array>
#include <atomic>
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <thread>
#include <vector>

#include "common/os/process.h"
#include "tests/unit/trainer/ring_gang.h"

using namespace pawl;
using namespace std::chrono_literals;
using collective::Collective;
using Gang = test::RingGang;

namespace {

std::string hex_of(const collective::Mac& mac) {
  std::string text;
  for (const std::byte byte : mac) {
    text += "0123456789abcdef"[static_cast<int>(byte) >> 4];
    text += "0123456789abcdef"[static_cast<int>(byte) & 15];
  }
  return text;
}

float value_of(int rank, std::size_t index) {
  return static_cast<float>((rank + 1) * 0.37) * static_cast<float>(index % 91) - 5;
}

// The documented order: chunk c is summed from rank c + 1 around to rank c.
std::vector<float> expected_sum(int world_size, std::size_t count) {
  std::vector<float> sum(count);
  const auto n = static_cast<std::size_t>(world_size);
  for (std::size_t c = 0; c < n; ++c) {
    const collective::Chunk chunk = collective::chunk_of(count, static_cast<int>(c), world_size);
    for (std::size_t i = chunk.first; i < chunk.last; ++i) {
      sum[i] = value_of(static_cast<int>((c + 1) % n), i);
      for (std::size_t k = 2; k <= n; ++k)
        sum[i] = value_of(static_cast<int>((c + k) % n), i) + sum[i];
    }
  }
  return sum;
}

}  // namespace

TEST_CASE("ring: HMAC-SHA256 gives the values of RFC 4231", "[trainer]") {
  CHECK(hex_of(collective::hmac_sha256(std::string(20, '\x0b'), "Hi There")) ==
        "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  CHECK(hex_of(collective::hmac_sha256("Jefe", "what do ya want for nothing?")) ==
        "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  CHECK(hex_of(collective::hmac_sha256(std::string(131, '\xaa'),
                                       "Test Using Larger Than Block-Size Key - Hash Key First")) ==
        "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

TEST_CASE("ring: sums have the documented order's bits on every rank", "[trainer]") {
  for (const int world_size : {2, 3, 5}) {
    for (const std::size_t count :
         {std::size_t{1}, std::size_t{4}, std::size_t{1000}, std::size_t{300'001}}) {
      Gang gang(world_size);
      const std::vector<float> expected = expected_sum(world_size, count);
      const auto results = gang.run([&](Collective& ring) -> Status {
        std::vector<float> values(count);
        for (std::size_t i = 0; i < count; ++i) values[i] = value_of(ring.rank(), i);
        PAWL_TRY_VOID(ring.wait(ring.start_all_reduce(values, 0)));
        if (std::memcmp(values.data(), expected.data(), count * sizeof(float)) != 0)
          return fail(Code::kCorrupt, "wrong sum");
        return {};
      });
      for (const Status& result : results) CHECK(result);
    }
  }
}

TEST_CASE("ring: chunks cover an array once, in whole units", "[trainer]") {
  for (const std::size_t count : {0, 1, 4096, 4097, 20'000, 262'144}) {
    for (const int world_size : {1, 2, 3, 7, 64}) {
      std::size_t end = 0;
      for (int rank = 0; rank < world_size; ++rank) {
        const collective::Chunk chunk = collective::chunk_of(count, rank, world_size);
        CHECK(chunk.first == end);
        CHECK((chunk.last % collective::kChunkUnit == 0 || chunk.last == count));
        end = chunk.last;
      }
      CHECK(end == count);
    }
  }
}

TEST_CASE("ring: reduce-scatter and all-gather are the halves of an all-reduce, bit by bit",
          "[trainer]") {
  for (const int world_size : {2, 3, 5}) {
    for (const std::size_t count : {std::size_t{10}, std::size_t{9'000}, std::size_t{300'001}}) {
      Gang gang(world_size);
      const std::vector<float> expected = expected_sum(world_size, count);
      const auto results = gang.run([&](Collective& ring) -> Status {
        std::vector<float> values(count);
        std::vector<std::int64_t> integers(count, ring.rank());
        for (std::size_t i = 0; i < count; ++i) values[i] = value_of(ring.rank(), i);
        ring.start_reduce_scatter(std::span(integers), 1);
        PAWL_TRY_VOID(ring.wait(ring.start_reduce_scatter(values, 2)));
        const auto [first, last] = collective::chunk_of(count, ring.rank(), world_size);
        for (std::size_t i = 0; i < count; ++i) {
          const bool is_own = i >= first && i < last;
          if (is_own && integers[i] != world_size * (world_size - 1) / 2)
            return fail(Code::kCorrupt, "integers");
          if (!is_own) values[i] = NAN;
        }
        PAWL_TRY_VOID(ring.wait(ring.start_all_gather(values, 3)));
        if (std::memcmp(values.data(), expected.data(), count * sizeof(float)) != 0)
          return fail(Code::kCorrupt, "wrong sum");
        return {};
      });
      for (const Status& result : results) CHECK(result);
    }
  }
}

TEST_CASE(
    "ring: several buckets in flight, doubles, integers, broadcast, gathered texts and barriers",
    "[trainer]") {
  Gang gang(3);
  const auto results = gang.run([&](Collective& ring) -> Status {
    std::vector<std::vector<float>> buckets;
    std::vector<collective::Ticket> tickets;
    for (int b = 0; b < 8; ++b) buckets.emplace_back(10'000, static_cast<float>(b + ring.rank()));
    for (int b = 0; b < 8; ++b)
      tickets.push_back(ring.start_all_reduce(buckets[static_cast<std::size_t>(b)], b));
    std::vector<double> numbers{1.0 + ring.rank(), 0.5};
    PAWL_TRY_VOID(ring.all_reduce(numbers));
    for (std::size_t b = 0; b < 8; ++b) {
      PAWL_TRY_VOID(ring.wait(tickets[b]));
      const auto expected = static_cast<float>(3 * b + 3);
      if (std::count(buckets[b].begin(), buckets[b].end(), expected) != 10'000)
        return fail(Code::kCorrupt, "bucket");
    }
    if (numbers != std::vector<double>{6.0, 1.5}) return fail(Code::kCorrupt, "doubles");
    constexpr std::int64_t kLarge = std::numeric_limits<std::int64_t>::max();
    std::vector<std::int64_t> integers(100'003, ring.rank() == 2 ? -kLarge : kLarge - ring.rank());
    PAWL_TRY_VOID(ring.wait(ring.start_all_reduce(std::span(integers), 0)));
    if (std::ranges::count(integers, kLarge - 1) != 100'003)  // 2^64 too large on the way
      return fail(Code::kCorrupt, "integers");
    std::vector<std::byte> bytes(700'000, std::byte(ring.rank()));
    PAWL_TRY_VOID(ring.broadcast(bytes, 1));
    if (std::count(bytes.begin(), bytes.end(), std::byte{1}) != 700'000)
      return fail(Code::kCorrupt, "broadcast");
    PAWL_TRY(texts,
             ring.all_gather("rank" + std::string(static_cast<std::size_t>(ring.rank()), '!')));
    if (texts != std::vector<std::string>{"rank", "rank!", "rank!!"})
      return fail(Code::kCorrupt, "texts");
    return ring.barrier();
  });
  for (const Status& result : results) CHECK(result);
}

TEST_CASE("ring: a rank with another key is refused by both neighbours", "[trainer]") {
  Gang gang(3);
  gang.options[1].key = "other";
  for (auto& options : gang.options) options.connect_deadline = 2s;
  const auto results = gang.run([](Collective& ring) { return ring.barrier(); });
  REQUIRE(!results[0]);
  REQUIRE(!results[1]);
  REQUIRE(!results[2]);
  CHECK(results[0].error().code == Code::kForbidden);
  CHECK(results[0].error().message.find("rank 1 at 127.0.0.1:") != std::string::npos);
  CHECK(results[1].error().code == Code::kForbidden);
}

TEST_CASE("ring: a rank of another generation is refused", "[trainer]") {
  Gang gang(2);
  gang.options[1].generation = 8;
  for (auto& options : gang.options) options.connect_deadline = 1s;
  for (const Status& result : gang.run([](Collective& ring) { return ring.barrier(); }))
    CHECK(!result);
}

TEST_CASE("ring: a stray connection does not stop the right one", "[trainer]") {
  Gang gang(2);
  const std::uint16_t port = *os::local_port(gang.listeners[0].get());
  os::Fd stray = *os::connect_tcp("127.0.0.1", port, 1s);
  stray.reset();  // it says nothing and leaves
  for (const Status& result : gang.run([](Collective& ring) { return ring.barrier(); }))
    CHECK(result);
}

TEST_CASE("ring: the death of one rank reaches all others at once", "[trainer]") {
  Gang gang(4);
  const auto results = gang.run([](Collective& ring) -> Status {
    PAWL_TRY_VOID(ring.barrier());
    if (ring.rank() == 2) return {};  // its connections close
    std::vector<float> values(1'000'000);
    return ring.wait(ring.start_all_reduce(values, 0));
  });
  for (const std::size_t rank : {0U, 1U, 3U}) {
    REQUIRE(!results[rank]);
    CHECK(results[rank].error().code == Code::kUnavailable);
  }
  // The first to notice is one of its neighbours; who of them depends on the scheduler.
  CHECK((results[1].error().message.find("rank 2 at") != std::string::npos ||
         results[3].error().message.find("rank 2 at") != std::string::npos));
}

TEST_CASE("ring: ranks that do different things learn what the other one does", "[trainer]") {
  Gang gang(2);
  const auto results = gang.run([](Collective& ring) -> Status {
    std::vector<float> values(ring.rank() == 0 ? 1000 : 1002);
    return ring.wait(ring.start_all_reduce(values, 5));
  });
  bool is_named = false;
  for (const Status& result : results) {
    REQUIRE(!result);
    is_named = is_named || (result.error().message.find("4000 bytes") != std::string::npos &&
                            result.error().message.find("4008 bytes") != std::string::npos &&
                            result.error().message.find("rank 0") != std::string::npos &&
                            result.error().message.find("rank 1") != std::string::npos);
  }
  CHECK(is_named);
}

TEST_CASE("ring: abort ends a wait for a rank that never comes", "[trainer]") {
  Gang gang(2);
  const auto results = gang.run([](Collective& ring) -> Status {
    if (ring.rank() == 1) {
      // Alive but elsewhere: it waits until the other rank has given up.
      std::vector<std::byte> byte(1);
      return ring.broadcast(byte, 0);
    }
    std::thread stopper([&] { ring.abort("stopped from outside"); });
    std::vector<std::byte> byte(1);
    const Status status = ring.broadcast(byte, 1);
    stopper.join();
    return status;
  });
  REQUIRE(!results[0]);
  CHECK(results[0].error().message == "stopped from outside");
  CHECK(!results[1]);
}

TEST_CASE("ring: a silent rank is given up at the deadline", "[trainer]") {
  Gang gang(2);
  gang.options[0].call_deadline = 200ms;
  const auto results = gang.run([](Collective& ring) -> Status {
    std::vector<std::byte> byte(1);
    return ring.broadcast(byte, 1 - ring.rank());  // both wait for the other
  });
  REQUIRE(!results[0]);
  CHECK(results[0].error().message.find("nothing moved") != std::string::npos);
  CHECK(!results[1]);
}

TEST_CASE("ring: who waits for a late rank beats, and the late one does not", "[trainer]") {
  Gang gang(3);
  std::array<std::atomic<int>, 3> beats{}, beats_of_many{};
  std::atomic<int> beats_of_late = -1;
  for (std::size_t rank = 0; rank < 3; ++rank) {
    gang.options[rank].on_waiting = [&beats, rank] { ++beats[rank]; };
  }
  const auto late_until = std::chrono::steady_clock::now() + 8s;
  const auto results = gang.run([&](Collective& ring) {
    const auto is_late = [&] {
      return (beats[0] < 2 || beats[2] < 2) && std::chrono::steady_clock::now() < late_until;
    };
    while (ring.rank() == 1 && is_late()) std::this_thread::yield();
    if (ring.rank() == 1) beats_of_late = beats[1].load();
    if (const Status status = ring.barrier(); !status) return status;
    // A reduction of many buckets, none of which is waited for long.
    const auto rank = static_cast<std::size_t>(ring.rank());
    const int before = beats[rank];
    std::vector<float> values(1'000);
    for (int i = 0; i < 50; ++i) {
      const Status status = ring.wait(ring.start_all_reduce(values, i));
      if (!status) return status;
    }
    beats_of_many[rank] = beats[rank] - before;
    return Status{};
  });
  for (const Status& status : results) CHECK(status.has_value());
  for (const auto& count : beats_of_many) CHECK(count >= 40);
  CHECK(beats_of_late == 0);
  CHECK(beats[0] >= 2);
  CHECK(beats[2] >= 2);
}

TEST_CASE("ring: a rank that computes for longer than machines may be silent is waited for",
          "[trainer]") {
  Gang gang(2);
  std::atomic<int> waits{0};
  std::atomic<bool> is_unreached{false};
  for (auto& options : gang.options) {
    options.silence_max = 200ms;
    options.on_unreached = [&](int) { is_unreached = true; };
  }
  gang.options[0].on_waiting = [&] { ++waits; };
  constexpr std::size_t kMoreThanBuffersHold = std::size_t{16} << 20;
  const auto results = gang.run([&](Collective& ring) -> Status {
    std::vector<float> values(kMoreThanBuffersHold, 1);
    // Ten times a second, as long as rank 0 waits.
    while (ring.rank() == 1 && waits < 12) std::this_thread::yield();
    return ring.wait(ring.start_all_reduce(values, 0));
  });
  for (const Status& result : results) CHECK(result);
  CHECK_FALSE(is_unreached);
}

TEST_CASE("ring: a machine that answers no connection is named, one that refuses it is not",
          "[trainer]") {
  Gang gang(2);
  int unreached = -1;
  auto& options = gang.options[0];
  options.silence_max = 300ms;
  options.on_unreached = [&](int rank) { unreached = rank; };
  SECTION("silent") {
    // A listener whose queue is full drops what comes, as a cut network does.
    const os::Fd full = *os::listen_tcp("127.0.0.1", 0, 0);
    const std::uint16_t port = *os::local_port(full.get());
    const auto first = os::connect_tcp("127.0.0.1", port, 1s);
    REQUIRE(first);
    options.peers[1] = os::join_host_port("127.0.0.1", port);
    const auto ring = collective::make_ring(options, gang.listeners[0]);
    REQUIRE_FALSE(ring);
    CHECK(ring.error().code == Code::kUnavailable);
    CHECK(unreached == 1);
  }
  SECTION("refused") {
    gang.listeners[1] = os::Fd{};
    CHECK_FALSE(collective::make_ring(options, gang.listeners[0]));
    CHECK(unreached == -1);
  }
  SECTION("told to park before") {
    const os::Fd full = *os::listen_tcp("127.0.0.1", 0, 0);
    const std::uint16_t port = *os::local_port(full.get());
    const auto first = os::connect_tcp("127.0.0.1", port, 1s);
    REQUIRE(first);
    options.peers[1] = os::join_host_port("127.0.0.1", port);
    const os::Fd park{::eventfd(1, EFD_CLOEXEC)};
    options.abort_fd = park.get();
    options.silence_max = 30s;
    CHECK_FALSE(collective::make_ring(options, gang.listeners[0]));
    CHECK(unreached == -1);
  }
}
