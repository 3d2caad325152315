#include "launcher/membership/save_first.h"

namespace pawl::membership {

bool SaveFirst::begin() {
  const bool has_leaver = roster_.count_members(&Joiner::is_leaving) > 0;
  if (has_leaver && !leaver_since_) leaver_since_ = ctx_.now.steady;
  if (since_) return false;
  since_ = ctx_.now.steady;
  step_ = saves_.confirmed();
  return true;
}

bool SaveFirst::is_over() const {
  if (!since_ || saves_.stored() > step_) return true;
  const auto& timings = ctx_.timings;
  return ctx_.now.steady >= *since_ + timings.resize_save_max ||
         (leaver_since_ && ctx_.now.steady >= *leaver_since_ + timings.leave_save_max);
}

}  // namespace pawl::membership
