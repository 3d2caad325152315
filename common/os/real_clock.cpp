#include "common/os/real_clock.h"

namespace pawl {

TimePoint RealClock::now() const {
  return std::chrono::floor<std::chrono::milliseconds>(std::chrono::system_clock::now());
}

SteadyPoint RealClock::steady_now() const { return std::chrono::steady_clock::now(); }

}  // namespace pawl
