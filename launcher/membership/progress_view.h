// Turns the reports of rank 0 into what users see: percent, remaining time, numbers as text. Pure;
// owned by Gang.
#pragma once

#include <chrono>
#include <optional>

#include "common/api/channel.h"
#include "common/api/types.h"
#include "launcher/membership/action.h"

namespace pawl::membership {

// What is behind `step` is taken out: it is on no line any more.
void cut(api::Progress& progress, std::int64_t step);

class ProgressView {
 public:
  // `slow`: whom the report calls slow. It is told when it was for kSlowFor, and until nobody or
  // somebody else was for as long: a moment's slowness is not worth anybody's time.
  static constexpr std::chrono::seconds kSlowFor{30};
  void add(const api::channel::Report& report, Now now,
           std::optional<api::Straggler> slow = std::nullopt);
  const std::optional<api::Progress>& value() const { return value_; }

 private:
  void judge(std::optional<api::Straggler> slow, SteadyPoint now);

  std::optional<api::Progress> value_;
  std::optional<api::Straggler> told_, suspect_;
  SteadyPoint suspect_since_{};
  std::int64_t first_step_ = 0;
  SteadyPoint first_time_{};
};

}  // namespace pawl::membership
