// All-gather of bytes on the TCP ring.
#include <algorithm>
#include <array>
#include <catch2/catch_test_macros.hpp>
#include <string>
#include <vector>

#include "tests/unit/trainer/ring_gang.h"

using namespace pawl;
using collective::Collective;
using Gang = test::RingGang;

TEST_CASE("ring: slots of bytes go to all, several at a time and whatever is between them",
          "[trainer]") {
  for (const int world_size : {2, 3, 5}) {
    Gang gang(world_size);
    const auto n = static_cast<std::size_t>(world_size);
    const auto results = gang.run([&](Collective& ring) -> Status {
      const auto byte_of = [](std::size_t rank, std::size_t slot, std::size_t i) {
        return static_cast<std::byte>(7 * rank + 31 * slot + i);
      };
      const std::array<std::size_t, 4> sizes{1, 0, 13, 300'001};
      std::vector<std::vector<std::byte>> all;
      for (const std::size_t size : sizes) all.emplace_back(n * size, std::byte{0xee});
      const auto own = static_cast<std::size_t>(ring.rank());
      std::vector<float> sums(5'000, 1);
      std::vector<collective::Ticket> tickets;
      for (std::size_t s = 0; s < sizes.size(); ++s) {
        for (std::size_t i = 0; i < sizes[s]; ++i) all[s][own * sizes[s] + i] = byte_of(own, s, i);
        tickets.push_back(ring.start_all_gather(std::span(all[s]), static_cast<int>(s)));
      }
      PAWL_TRY_VOID(ring.wait(ring.start_all_reduce(sums, 9)));
      if (std::ranges::count(sums, static_cast<float>(world_size)) != 5'000)
        return fail(Code::kCorrupt, "sums");
      for (std::size_t s = 0; s < sizes.size(); ++s) {
        PAWL_TRY_VOID(ring.wait(tickets[s]));
        for (std::size_t i = 0; i < n * sizes[s]; ++i) {
          if (all[s][i] != byte_of(i / sizes[s], s, i % sizes[s]))
            return fail(Code::kCorrupt, "slot " + std::to_string(i / sizes[s]));
        }
      }
      return {};
    });
    for (const Status& result : results) CHECK(result);
  }
}

TEST_CASE("ring: bytes that are no floats, of another size or of another bucket are found",
          "[trainer]") {
  const auto refused = [](std::size_t slot, int bucket, bool is_float) {
    Gang gang(2);
    std::string messages;
    for (const Status& result : gang.run([&](Collective& ring) -> Status {
           std::vector<std::byte> slots(ring.rank() == 0 ? 2 * slot : 80);
           std::vector<float> floats(20);
           const int named = ring.rank() == 0 ? bucket : 1;
           return ring.wait(ring.rank() == 0 && is_float
                                ? ring.start_all_gather(std::span(floats), named)
                                : ring.start_all_gather(std::span(slots), named));
         })) {
      REQUIRE(!result);
      messages += result.error().message;
    }
    return messages;
  };
  CHECK(refused(41, 1, false).find("gathering of bytes, bucket 1, 82 bytes") != std::string::npos);
  CHECK(refused(40, 2, false).find("gathering of bytes, bucket 2, 80 bytes") != std::string::npos);
  CHECK(refused(40, 1, true).find("gathering of floats, bucket 1, 80 bytes") != std::string::npos);
}
