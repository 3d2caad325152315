// The clock seam. Production code gets its time from a Clock& and from nowhere else; RealClock
// lives in common/os, tests use FakeClock. Wall time is for what users see and for deadlines that
// outlive a process (UTC); steady time is for time-outs. Thread-safe.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "common/base/result.h"

namespace pawl {

using TimePoint = std::chrono::sys_time<std::chrono::milliseconds>;
using SteadyPoint = std::chrono::time_point<std::chrono::steady_clock, std::chrono::nanoseconds>;

class Clock {
 public:
  virtual ~Clock() = default;
  virtual TimePoint now() const = 0;
  virtual SteadyPoint steady_now() const = 0;
};

// A clock that stands still until it is told to move.
class FakeClock final : public Clock {
 public:
  explicit FakeClock(TimePoint start = TimePoint{std::chrono::seconds{1'800'000'000}})
      : now_(start) {}
  TimePoint now() const override { return now_; }
  SteadyPoint steady_now() const override { return SteadyPoint{now_.time_since_epoch()}; }
  void advance(std::chrono::milliseconds by) { now_ += by; }

 private:
  TimePoint now_;
};

// RFC 3339 in UTC with whole seconds, as Kubernetes' metav1.Time: "2026-11-21T10:04:05Z".
std::string format_time(TimePoint time);
// With microseconds, as metav1.MicroTime: "2026-11-21T10:04:05.120000Z".
std::string format_micro_time(TimePoint time);
// Reads both forms. Invalid when the text is neither.
Result<TimePoint> parse_time(std::string_view text);

}  // namespace pawl
