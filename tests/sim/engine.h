// Time and chance of one simulated run: an event queue in virtual time, one random generator, and
// the trace, whose hash tells whether two runs were the same. Everything in tests/sim gets its
// time, its order and its randomness from here and from nowhere else. One thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <queue>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/clock.h"
#include "common/base/random.h"

namespace pawl::sim {

using std::chrono::milliseconds;
using std::chrono::seconds;

// Virtual time, as the other clocks see it; `skew` is how far this one's wall clock is off.
class SimClock final : public Clock {
 public:
  explicit SimClock(const milliseconds& elapsed) : elapsed_(elapsed) {}
  const milliseconds& elapsed() const { return elapsed_; }
  TimePoint now() const override { return TimePoint{kStart} + elapsed_ + skew; }
  SteadyPoint steady_now() const override { return SteadyPoint{kStart} + elapsed_; }
  milliseconds skew{0};

 private:
  static constexpr seconds kStart{1'800'000'000};
  const milliseconds& elapsed_;
};

class Engine {
 public:
  using Work = std::function<void()>;
  explicit Engine(std::uint64_t seed) : random_(mix64(seed)), clock_(elapsed_) {}
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  milliseconds elapsed() const { return elapsed_; }
  const SimClock& clock() const { return clock_; }
  Random& random() { return random_; }
  // Uniform in [from, to].
  milliseconds between(milliseconds from, milliseconds to) {
    return from + milliseconds{random_.below(static_cast<std::uint64_t>((to - from).count()) + 1)};
  }
  // True `per_10000` times in ten thousand.
  bool chance(int per_10000) {
    return per_10000 > 0 && random_.below(10'000) < static_cast<std::uint64_t>(per_10000);
  }

  // Ties go in the order in which they were asked for.
  void after(milliseconds delay, Work work);
  // Everything that is due up to `end`; false if `stop()` was called.
  bool run_until(milliseconds end);
  void stop() { is_stopped_ = true; }
  std::uint64_t events() const { return sequence_; }

  // One line of the story, kept when recording; mix() makes the hash.
  void trace(std::string_view line);
  void record_trace(bool is_on) { is_recording_ = is_on; }
  bool is_recording() const { return is_recording_; }
  const std::vector<std::string>& lines() const { return lines_; }
  std::uint64_t hash() const { return hash_; }
  void mix(std::uint64_t value) { hash_ = mix64(hash_ ^ value); }

 private:
  struct Event {
    milliseconds time;
    std::uint64_t sequence;
    Work work;
    bool operator>(const Event& other) const {
      return time != other.time ? time > other.time : sequence > other.sequence;
    }
  };
  milliseconds elapsed_{0};
  Random random_;
  SimClock clock_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> queue_;
  std::uint64_t sequence_ = 0;
  std::uint64_t hash_ = 0;
  bool is_stopped_ = false, is_recording_ = false;
  std::vector<std::string> lines_;
};

}  // namespace pawl::sim
