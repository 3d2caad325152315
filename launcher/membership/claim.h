// Who leads. Before the first generation of an attempt: the first eligible launcher that writes its
// claim; the operator's order spreads the attempts in time. Later, when the leader is lost: of the
// newest generation's members the one with the lowest rank, the next one if that does not come.
// Each lost claim doubles the wait. Pure; owned by Membership.
#pragma once

#include <cstdint>
#include <optional>

#include "launcher/membership/context.h"
#include "launcher/membership/record_writer.h"

namespace pawl::membership {

class Claim {
 public:
  Claim(Context& ctx, RecordWriter& writer) : ctx_(ctx), writer_(writer) {}
  // Called after every input: claims when it is time. `lost_since`: since when our member has been
  // without the leader, if it can go on under another one.
  void decide(const std::optional<SteadyPoint>& lost_since);
  // The leader of this term does not reach the API server, and asks us to lead.
  void stand(std::int64_t term);
  // Another leads in our stead: we stand no more until we are members of a newer generation.
  void on_deposed(std::int64_t generation) { deposed_in_ = generation; }

 private:
  bool is_open() const;
  bool may_take_over() const;
  // How many members stand before us.
  int turn() const;
  void claim_first();
  void write_claim();
  Context& ctx_;
  RecordWriter& writer_;
  std::optional<SteadyPoint> claim_at_;
  int tries_ = 0;
  int takeovers_ = 0;             // claims since the leader was lost
  std::int64_t deposed_in_ = -1;  // generation
};

}  // namespace pawl::membership
