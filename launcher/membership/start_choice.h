// What storage has to start from: asked once for each change of the gang. Pure; owned by Gang.
#pragma once

#include <optional>

#include "launcher/membership/context.h"

namespace pawl::membership {

class StartChoice {
 public:
  explicit StartChoice(Context& ctx) : ctx_(ctx) {}

  // True when it is known; asks where nobody has.
  bool select();
  void on_selected(const CheckpointSelected& selected);
  void forget();
  const CheckpointSelected& chosen() const { return chosen_; }

 private:
  Context& ctx_;
  bool is_selecting_ = false, is_selected_ = false;
  CheckpointSelected chosen_;
  std::optional<SteadyPoint> retry_at_;
};

}  // namespace pawl::membership
