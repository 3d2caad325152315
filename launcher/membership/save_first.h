// A checkpoint before a change that can wait, in a gang whose members hold parts of the state
// alone (Roster::holds_parts): the next generation goes on from storage, and what was made since
// the newest checkpoint would be made again. Pure; owned by Gang.
#pragma once

#include <cstdint>
#include <optional>

#include "launcher/membership/roster.h"
#include "launcher/membership/saves.h"

namespace pawl::membership {

class SaveFirst {
 public:
  SaveFirst(const Context& ctx, const Roster& roster, const Saves& saves)
      : ctx_(ctx), roster_(roster), saves_(saves) {}

  bool is_needed() const { return roster_.holds_parts() && ctx_.id.has_checkpoints; }
  // With each decision, while a change waits. True: the members are to be asked for one.
  bool begin();
  // It is stored, or has had its time.
  bool is_over() const;
  // The change has begun, or none is wanted any more.
  void forget() { since_ = leaver_since_ = std::nullopt; }

 private:
  const Context& ctx_;
  const Roster& roster_;
  const Saves& saves_;
  std::optional<SteadyPoint> since_, leaver_since_;  // a member waits to go
  std::int64_t step_ = 0;                            // the newest confirmed one then
};

}  // namespace pawl::membership
