// The order of samples: a bijection of [0, size) keyed by (seed, epoch), in constant memory. A
// balanced Feistel network permutes the next power of four; values outside are walked on until they
// fall inside (cycle walking), at most a few steps, because the power is less than four times the
// size. Pure.
#pragma once

#include <cstdint>

#include "common/base/random.h"

namespace pawl::data {

class Permutation {
 public:
  Permutation(std::uint64_t size, std::uint64_t seed, std::uint64_t epoch)
      : size_(size), key_(keyed_random(seed, 0x6f72646572, epoch)) {
    while (half_bits_ < 32 && (std::uint64_t{1} << (2 * half_bits_)) < size) ++half_bits_;
  }
  // index < size.
  std::uint64_t at(std::uint64_t index) const {
    do index = shuffled(index);
    while (index >= size_);
    return index;
  }

 private:
  static constexpr std::uint64_t kRounds = 6;
  std::uint64_t shuffled(std::uint64_t value) const {
    const std::uint64_t mask = (std::uint64_t{1} << half_bits_) - 1;
    std::uint64_t left = value >> half_bits_, right = value & mask;
    for (std::uint64_t round = 0; round < kRounds; ++round) {
      const std::uint64_t next = left ^ (mix64(key_ ^ (round << 40) ^ right) & mask);
      left = right;
      right = next;
    }
    return left << half_bits_ | right;
  }

  std::uint64_t size_, key_;
  unsigned half_bits_ = 1;
};

// The sample at `cursor`, which counts samples since the start of the run: each counts exactly once
// an epoch.
class SampleOrder {
 public:
  SampleOrder(std::uint64_t samples, std::uint64_t seed) : samples_(samples), seed_(seed) {}
  std::uint64_t epoch(std::uint64_t cursor) const { return cursor / samples_; }
  std::uint64_t sample(std::uint64_t cursor) const {
    return Permutation(samples_, seed_, cursor / samples_).at(cursor % samples_);
  }

 private:
  std::uint64_t samples_, seed_;
};

}  // namespace pawl::data
