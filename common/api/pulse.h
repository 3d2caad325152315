// The page of shared memory in which a training process says, without a system call, where it is:
// its launcher looks ten times a second and learns that it hangs, and in which phase (design §5,
// rule 13). Inherited as a descriptor (contract.h kEnvPulseFd). One thread of the process writes,
// the launcher reads: the phase first, then the beats, which rise after every change of phase.
// Others write it, too (clients/python/pawl.py): its layout is part of the contract.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace pawl::api {

enum class Phase : std::uint32_t {
  kOther,  // start-up, storage, output, waiting for the launcher: takes what time it takes
  kData,   // reads samples
  kForward,
  kBackward,
  kReduce,  // waits for other ranks; the beats tell that it could go on
  kOptimizer,
  kSnapshot,  // copies its state for a checkpoint
  kValidate,
};
inline constexpr std::size_t kPhases = 8;
const char* phase_name(Phase phase);  // of an unknown one that of kOther

struct PulsePage {
  static constexpr std::size_t kBuckets = 40;
  std::atomic<std::int32_t> process;  // the number of the one that writes; 0: not known
  // Rises when the process enters a phase, and in one to say that it moves. 0: it does not use this
  // page.
  std::atomic<std::uint64_t> beats;
  std::atomic<std::uint32_t> phase;
  std::atomic<std::int64_t> step;  // that is being made
  // How often the time from one beat to the next, in each phase, was below 2^i µs and not below
  // half of it.
  std::array<std::array<std::atomic<std::uint32_t>, kBuckets>, kPhases> times;
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free && sizeof(PulsePage) <= 4096);

// Counts one time between two beats. One of minutes says little of the work (a debugger, a frozen
// container) and does not count where something is known.
void count_time(PulsePage& page, Phase phase, std::chrono::nanoseconds time);
// What 99 of 100 times between two beats of this phase stay below; zero while none is known.
std::chrono::microseconds usual_time(const PulsePage& page, Phase phase);

}  // namespace pawl::api
