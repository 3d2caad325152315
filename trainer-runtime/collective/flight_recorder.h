// The last operations of a ring: what was done, when, and how far the one came that failed. Written
// by the ring under its own lock; nothing is allocated after the start. Whoever looks for a hang,
// or draws a step (trainer/trace.h), reads copies.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "common/base/clock.h"

namespace pawl::collective {

struct Record {
  std::uint64_t sequence = 0;    // of the ring, from 1 on; the same on all ranks
  const char* operation = "";    // "all-reduce"; a literal
  std::uint32_t bucket = 0;      // of a broadcast the root
  std::uint64_t bytes = 0;       // of the array, not of the wire
  SteadyPoint queued{};          // when the training thread asked for it
  SteadyPoint begun{}, ended{};  // on the ring's thread; none of these: not yet
  // Of its 2 (n - 1) exchanges with the neighbours, half as many of a reduce-scatter or an
  // all-gather: those that were through when it failed.
  std::uint64_t exchanges = 0;
};

class FlightRecorder {
 public:
  static constexpr std::size_t kRecords = 4096;

  FlightRecorder() : records_(kRecords) {}
  void queue(const Record& record) { at(record.sequence) = record; }
  // Of what has been overwritten since nothing is kept.
  void begin(std::uint64_t sequence, SteadyPoint now);
  void end(std::uint64_t sequence, SteadyPoint now);
  void fail(std::uint64_t sequence, std::uint64_t exchanges);
  // Those that follow operation `after` and have been queued, oldest first, as many as fit; from
  // the oldest that is still there. Returns how many.
  std::size_t copy(std::uint64_t after, std::span<Record> into) const;

 private:
  Record& at(std::uint64_t sequence) { return records_[sequence % kRecords]; }
  Record* find(std::uint64_t sequence);

  std::vector<Record> records_;
};

}  // namespace pawl::collective
