// What follows for the controller when the election says something new. Pure; the Operator and the
// simulator perform the steps.
//
//  1. A lease that its holder gave back tells how far the holder had seen and written: the loop
//     begins when its own views have come that far.
//  2. A lease that ran out, or was ours already, says nothing of the kind: everything is listed
//     anew, as by a fresh process, so that a view that lags cannot mislead the first plans.
//  3. Whoever loses the lead throws loop and views away: what was in flight is cancelled, what was
//     decided is forgotten, and what is left is what a fresh process would have.
#pragma once

#include <cstdint>
#include <string>

#include "common/base/clock.h"
#include "operator/controller/loop.h"

namespace pawl::controller {

// "12/34/-": the versions of jobs, groups and pods, as they stand in the lease.
std::string encode_views(const Views& views);
// Nothing if this is not what encode_views() writes (another version of this program).
std::optional<Views> decode_views(const std::string& text);

class Role {
 public:
  enum class Step {
    kStay,
    kFollow,   // begin anew, and stand by
    kLead,     // from the views as they are, once they have come as far as inherited()
    kLeadAnew  // begin anew, and lead
  };
  // `epoch` changes whenever the lead was gained or lost; `handover` is what the leader before
  // left.
  Step next(std::uint64_t epoch, bool is_leading, const std::string& handover, bool is_caught_up,
            SteadyPoint now);
  const Views& inherited() const { return inherited_; }
  SteadyPoint due() const { return catch_up_end_; }  // when to ask again at the latest

 private:
  std::uint64_t epoch_ = 0;
  bool is_leading_ = false;
  Views inherited_;
  SteadyPoint catch_up_end_ = SteadyPoint::max();
};

}  // namespace pawl::controller
