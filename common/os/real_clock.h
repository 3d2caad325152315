// The one place that reads the real clock. Thread-safe.
#pragma once

#include "common/base/clock.h"

namespace pawl {

class RealClock final : public Clock {
 public:
  TimePoint now() const override;
  SteadyPoint steady_now() const override;
};

}  // namespace pawl
