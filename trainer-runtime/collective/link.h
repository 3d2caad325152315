// The two connections of a rank in the ring, and the one thing that is done with them: send a frame
// to the next rank while a frame from the previous one comes in. A frame has a header that says
// what it belongs to, so that ranks that do different things learn it from the first frame and not
// from wrong sums. One thread, but for abort.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "trainer-runtime/collective/handshake.h"

namespace pawl::collective {

enum class Operation : std::uint32_t {
  kSumFloat,
  kSumDouble,
  kBroadcast,
  kSumInteger,
  kScatterFloat,
  kScatterInteger,
  kGatherFloat,
  kGatherBytes
};

struct Frame {
  std::uint32_t magic = 0x314c5750, rank = 0;
  std::int64_t generation = 0;
  std::uint64_t sequence = 0;  // of the collective operation
  Operation operation = Operation::kSumFloat;
  std::uint32_t bucket = 0;
  std::uint64_t total = 0;   // bytes of the whole operation on this rank
  std::uint64_t length = 0;  // bytes of this frame
};

// For people: all-reduce, broadcast, reduce-scatter, all-gather.
const char* name_of(Operation operation);

// What is done with bytes that arrive.
enum class Arrival { kStore, kAddFloat, kAddDouble, kAddInteger };

std::size_t element_bytes(Arrival arrival);  // of one that is added

struct Incoming {
  std::span<std::byte> into;
  Arrival arrival = Arrival::kStore;
};

class Link {
 public:
  Link(const RingOptions& options, Neighbours neighbours);
  // Sends `outgoing` as one frame and receives one frame of incoming.into.size() bytes; either may
  // be empty, then there is no frame. `frame` says what both belong to. Unavailable: a neighbour is
  // gone, or time is up, or abort; says who did not do what (verdict.h), but of an abort that
  // nobody has waited for.
  Status exchange(const Frame& frame, std::span<const std::byte> outgoing,
                  const Incoming& incoming);
  // The ring's thread: exchanges of the newest operation that are through.
  std::uint64_t exchanges() const { return exchanges_; }
  // Any thread: rises while an exchange goes on, or waits.
  std::uint64_t turns() const { return turns_.load(std::memory_order_relaxed); }
  // Any thread: the running exchange and all later ones fail with this cause.
  void abort(const std::string& cause);

 private:
  struct Sending;
  struct Receiving;
  Status move(Sending& sending, Receiving& receiving, SteadyPoint deadline);
  void count_begun(const Receiving& receiving);
  std::string verdict(const Receiving& receiving, SteadyPoint since) const;
  Result<bool> send_some(Sending& sending);
  Result<bool> receive_some(Receiving& receiving);
  Status check(const Frame& expected, const Frame& got) const;
  Status wait(bool is_sending, bool is_receiving, SteadyPoint deadline);
  bool is_next_silent();
  tl::unexpected<Error> lost(int peer, const std::string& what);
  tl::unexpected<Error> lost_by(int error, int peer);

  RingOptions options_;
  Neighbours neighbours_;
  int next_, previous_;
  std::vector<std::byte> scratch_;
  std::optional<SteadyPoint> next_silent_since_;
  std::uint64_t sequence_ = 0, exchanges_ = 0;  // of the newest operation
  int begun_ = 0;                               // ranks before this one, see verdict.h
  bool is_lost_ = false;                        // cause_ is of this rank's own
  std::atomic<std::uint64_t> turns_{0};
  std::atomic<bool> is_aborted_{false};
  std::mutex cause_mutex_;  // abort comes from another thread
  std::string cause_;
};

}  // namespace pawl::collective
