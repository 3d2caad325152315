// Who leads before the first generation of an attempt: the first eligible launcher that writes its
// claim. The operator's order spreads the attempts in time; each lost one doubles the wait. Pure;
// owned by Membership.
#pragma once

#include <optional>

#include "launcher/membership/context.h"
#include "launcher/membership/record_writer.h"

namespace pawl::membership {

class Claim {
 public:
  Claim(Context& ctx, RecordWriter& writer) : ctx_(ctx), writer_(writer) {}
  // Called after every input: claims when it is time.
  void decide();

 private:
  bool is_open() const;
  Context& ctx_;
  RecordWriter& writer_;
  std::optional<SteadyPoint> claim_at_;
  int tries_ = 0;
};

}  // namespace pawl::membership
