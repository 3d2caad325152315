// Nodes that take their members away again and again: who comes from such a node waits twice as
// long each time. Pure; owned by Gang.
#pragma once

#include <map>
#include <string>

#include "launcher/membership/context.h"
#include "launcher/membership/gang_parts.h"

namespace pawl::membership {

class FlapLedger {
 public:
  explicit FlapLedger(const Context& ctx) : ctx_(ctx) {}

  // Its member fell silent, or broke the gang (`weight` counts).
  void note(const std::string& node, int weight);
  bool is_held_back(const Joiner& joiner) const;

 private:
  struct Flaps {
    int count = 0;
    SteadyPoint last{};
  };

  const Context& ctx_;
  std::map<std::string, Flaps> flaps_;  // by node
};

}  // namespace pawl::membership
