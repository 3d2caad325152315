// One sentence for whoever looks for a hang: which rank has not done what. It says what one rank
// can know from the frames of its neighbours. A ring passes everything on: who got the frame of
// exchange k from the rank before it knows that k + 1 ranks before it have begun, as each frame was
// sent when the one before had come. Pure.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace pawl::collective {

// Where a rank stands when an operation fails under it.
struct Standing {
  int rank = 0, world_size = 1;
  const char* operation = "";  // "all-reduce"
  std::uint64_t sequence = 0;
  std::uint32_t bucket = 0;  // of a broadcast its root
  bool is_broadcast = false;
  // Ranks before this one, the nearest first, that are known to have begun the operation.
  int begun = 0;
  // None is known, and the one before had nothing to send so far: a sum of a few numbers.
  bool may_have_begun = false;
  bool is_receiving = true;  // false: all has come, and what was sent is not taken
  std::chrono::nanoseconds waited{};
};

// "rank 2 did not start all-reduce 1841 (bucket 3) that ranks 0, 1 wait in, unless rank 0 stands
// still (after 4.0 s)".
std::string verdict_of(const Standing& standing);

}  // namespace pawl::collective
