// Time of a piece of work on one thread: by the wall, and of the processor, which other work on the
// machine lengthens less.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <ctime>
#include <vector>

namespace pawl::placement {

struct Spent {
  double wall_ms = 0, cpu_ms = 0;
};

class Stopwatch {
 public:
  Spent spent() const {
    const std::chrono::duration<double, std::milli> wall = std::chrono::steady_clock::now() - wall_;
    return {wall.count(), cpu_now() - cpu_};
  }

 private:
  static double cpu_now() {
    timespec time{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_nsec) / 1e6;
  }

  const std::chrono::steady_clock::time_point wall_ = std::chrono::steady_clock::now();
  const double cpu_ = cpu_now();
};

// Of each kind of time the 99th of a hundred.
inline Spent p99_of(std::vector<Spent> all) {
  const auto p99 = [&](double Spent::* time) {
    const auto at = all.begin() + static_cast<std::ptrdiff_t>(all.size() * 99 / 100);
    std::ranges::nth_element(all, at, {}, time);
    return (*at).*time;
  };
  if (all.empty()) return {};
  return {p99(&Spent::wall_ms), p99(&Spent::cpu_ms)};
}

}  // namespace pawl::placement
