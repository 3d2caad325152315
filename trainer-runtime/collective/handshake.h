// Connects a rank with its two neighbours in the ring and proves to both that all three hold the
// generation's key, so that a stray or a stale process never contributes a gradient. Called once a
// generation.
//
// 1. The connecting rank sends who it is, whom it wants and a random number.
// 2. The accepting rank answers with its own random number and HMAC-SHA256(key, "accept" · 1 ·
// number).
// 3. The connecting rank checks that and sends HMAC-SHA256(key, "connect" · 1 · number).
// 4. The accepting rank checks that and sends one byte.
// A connection that fails is closed and counts for nothing; the next one may be the right one,
// until the deadline.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "common/os/fd.h"

namespace pawl::collective {

struct RingOptions {
  int rank = 0, world_size = 1;
  std::int64_t generation = 0;
  std::string key;                 // any bytes
  std::vector<std::string> peers;  // "10.0.0.1:41001" of all ranks, by rank
  std::chrono::milliseconds connect_deadline{30'000};
  std::chrono::milliseconds call_deadline{
      120'000};  // of one operation, waiting for slower ranks included
  // A machine acknowledges what it is sent, whatever its processes do: for how long it may not.
  std::chrono::milliseconds silence_max{5'000};
  // The machine of this neighbour does not answer for that long. In any thread, before the call
  // that waits for it fails.
  std::function<void(int rank)> on_unreached;
  // Called in the thread that waits for results, ten times a second or more, as long as the ring's
  // own thread turns: it could go on if the others did.
  std::function<void()> on_waiting;
  int abort_fd = -1;  // readable: whatever waits for another rank ends at once; -1: never
};

// Of a socket call: the kernel has given up the way to a machine.
bool is_unreached(int error);

struct Neighbours {
  os::Fd to_next, from_previous;
};

// `listener` is what this rank's own entry in peers points to. Forbidden: a neighbour holds another
// key. Unavailable: it did not come, or abort_fd said so.
Result<Neighbours> connect_ring(const RingOptions& options, const os::Fd& listener);

using Mac = std::array<std::byte, 32>;
// RFC 2104.
Mac hmac_sha256(std::string_view key, std::string_view message);

}  // namespace pawl::collective
