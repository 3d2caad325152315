// The randomness seam, and the counter-based generator that everything keyed uses.
//
// Random draws are for back-off jitter and identities: production seeds one from the operating
// system (common/os), tests and the simulator from a number. mix64/keyed_random need no state at
// all: the same key gives the same number on every machine (training uses them, keyed by seed, step
// and micro-batch). Not thread-safe; one owner. Not for cryptography.
#pragma once

#include <cstdint>

namespace pawl {

// The finaliser of SplitMix64 (Steele, Lea, Flood, OOPSLA'14): a bijection of 64-bit numbers.
constexpr std::uint64_t mix64(std::uint64_t value) {
  value += 0x9e3779b97f4a7c15ULL;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9ULL;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebULL;
  return value ^ (value >> 31);
}

// A number that depends on all four arguments and on nothing else.
constexpr std::uint64_t keyed_random(std::uint64_t seed, std::uint64_t a, std::uint64_t b = 0,
                                     std::uint64_t c = 0) {
  return mix64(mix64(mix64(mix64(seed) ^ a) ^ b) ^ c);
}

class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() { return mix64(state_++); }
  // Uniform in [0, bound); bound > 0. Bias is below 2^-32 for bounds below 2^32.
  std::uint64_t below(std::uint64_t bound) {
    return static_cast<std::uint64_t>((static_cast<__uint128_t>(next()) * bound) >> 64);
  }
  bool one_in(std::uint64_t n) { return below(n) == 0; }

 private:
  std::uint64_t state_;
};

}  // namespace pawl
