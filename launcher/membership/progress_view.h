// Turns the reports of rank 0 into what users see: percent, remaining time, numbers as text. Pure;
// owned by Gang.
#pragma once

#include <optional>

#include "common/api/channel.h"
#include "common/api/types.h"
#include "launcher/membership/action.h"

namespace pawl::membership {

class ProgressView {
 public:
  void add(const api::channel::Report& report, Now now);
  const std::optional<api::Progress>& value() const { return value_; }

 private:
  std::optional<api::Progress> value_;
  std::int64_t first_step_ = 0;
  SteadyPoint first_time_{};
};

}  // namespace pawl::membership
