#include "launcher/membership/save_first.h"

#include <utility>

namespace pawl::membership {

bool SaveFirst::begin() {
  if (std::exchange(since_, since_ ? since_ : ctx_.now.steady)) return false;
  step_ = saves_.confirmed();
  return true;
}

bool SaveFirst::is_over() const {
  if (!since_ || saves_.stored() > step_) return true;
  const bool has_leaver = roster_.count_members(&Joiner::is_leaving) > 0;
  const auto& timings = ctx_.timings;
  return ctx_.now.steady >=
         *since_ + (has_leaver ? timings.leave_save_max : timings.resize_save_max);
}

}  // namespace pawl::membership
