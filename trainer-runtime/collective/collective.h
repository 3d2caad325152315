// The seam to the network of the ranks. One interface, several backends: TCP (ring.h), nothing (one
// rank), later NCCL.
//
// Every rank calls the same operations in the same order with the same sizes; a backend that sees
// otherwise names both ranks and what they did. One thread calls, but for abort, which any thread
// may. After the first error every call fails: the gang has to be formed again. Results are equal
// bit by bit on all ranks and depend on nothing but the inputs and the number of ranks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/base/result.h"

namespace pawl::collective {

struct Ticket {
  std::uint64_t sequence = 0;
};

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
  // Returns when this and everything before it is done.
  virtual Status wait(Ticket ticket) = 0;
  virtual Status all_reduce(std::span<double> values) = 0;
  // Everybody gets the bytes of `root`.
  virtual Status broadcast(std::span<std::byte> bytes, int root) = 0;
  // Ends what is running, on this rank at once and on the others as they notice.
  virtual void abort(const std::string& cause) = 0;

  // Returns when all ranks have called it.
  Status barrier();
  // The texts of all ranks, by rank.
  Result<std::vector<std::string>> all_gather(const std::string& text);
};

// For a gang of one.
std::unique_ptr<Collective> make_self();

}  // namespace pawl::collective
