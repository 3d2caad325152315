// The seam to the network of the ranks. One interface, several backends: TCP (ring.h), nothing (one
// rank), later NCCL.
//
// Every rank calls the same operations in the same order with the same sizes; a backend that sees
// otherwise names both ranks and what they did. One thread calls, but for abort, which any thread
// may. After the first error every call fails: the gang has to be formed again. Results are equal
// bit by bit on all ranks and depend on nothing but the inputs and the number of ranks.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "trainer-runtime/collective/flight_recorder.h"

namespace pawl::collective {

struct Ticket {
  std::uint64_t sequence = 0;
};

// Since the collective was made. What ran while nobody waited was hidden behind computing.
struct Times {
  std::chrono::nanoseconds waited{};  // the caller, in calls that return what was summed or sent
  std::chrono::nanoseconds ran{};     // operations, on the backend's thread, late ranks included
};

// Elements [first, last) of an array that is summed.
struct Chunk {
  std::size_t first = 0, last = 0;
};
// Chunks begin at multiples of this: a block of the gradient's norm (kernels::kNormBlock) then has
// one owner, so that the norm does not depend on who has which chunk.
inline constexpr std::size_t kChunkUnit = 4096;
// The part of an array of gradients that is summed up on a rank. The chunks of all ranks cover the
// array once, in the order of the ranks; those of an array of fewer units than ranks may be empty.
constexpr Chunk chunk_of(std::size_t count, int rank, int world_size) {
  const std::size_t units = (count + kChunkUnit - 1) / kChunkUnit;
  const auto cut = [&](int at) {
    const std::size_t unit =
        units * static_cast<std::size_t>(at) / static_cast<std::size_t>(world_size);
    return unit * kChunkUnit < count ? unit * kChunkUnit : count;
  };
  return {cut(rank), cut(rank + 1)};
}

class Collective {
 public:
  virtual ~Collective() = default;
  virtual int rank() const = 0;
  virtual int world_size() const = 0;
  // Sums in place over all ranks, behind the caller's back: `values` belongs to the backend until
  // wait(ticket).
  virtual Ticket start_all_reduce(std::span<float> values, int bucket) = 0;
  // Sums of integers, modulo 2^64, do not depend on the number of ranks either.
  virtual Ticket start_all_reduce(std::span<std::int64_t> values, int bucket) = 0;
  // The two halves of an all-reduce, whose sums have its bits. After the first, a rank's own chunk
  // (chunk_of) is summed and what the others are is undefined; the second gives each rank's chunk
  // to all.
  virtual Ticket start_reduce_scatter(std::span<float> values, int bucket) = 0;
  virtual Ticket start_reduce_scatter(std::span<std::int64_t> values, int bucket) = 0;
  virtual Ticket start_all_gather(std::span<float> values, int bucket) = 0;
  // Bytes that nobody sums, in world_size slots of equal size, one behind the other: each rank has
  // filled the slot of its number, and all get all. A rank sends world_size - 1 slots.
  virtual Ticket start_all_gather(std::span<std::byte> slots, int bucket) = 0;
  // Returns when this and everything before it is done.
  virtual Status wait(Ticket ticket) = 0;
  virtual Status all_reduce(std::span<double> values) = 0;
  // Everybody gets the bytes of `root`.
  virtual Status broadcast(std::span<std::byte> bytes, int root) = 0;
  // Ends what is running, on this rank at once and on the others as they notice.
  virtual void abort(const std::string& cause) = 0;
  virtual Times times() const { return {}; }
  // See FlightRecorder::copy; none where nothing is recorded.
  virtual std::size_t records(std::uint64_t /*after*/, std::span<Record> /*into*/) const {
    return 0;
  }

  // Returns when all ranks have called it.
  Status barrier();
  // The texts of all ranks, by rank.
  Result<std::vector<std::string>> all_gather(const std::string& text);
};

// For a gang of one.
std::unique_ptr<Collective> make_self();

}  // namespace pawl::collective
