// Pairs of members whose launchers the leader hears, and whose processes do not reach each other
// (design §5, rule 9), and who had to make room for that. Pure; owned by Gang.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "launcher/membership/roster.h"

namespace pawl::membership {

class ApartLedger {
 public:
  struct Pair {
    std::string first, second;    // UIDs, in order
    int times = 0;                // generations that it broke, without a step between them
    std::int64_t generation = 0;  // the newest of them
    bool has(const std::string& uid) const { return first == uid || second == uid; }
  };

  ApartLedger(const Context& ctx, const Roster& roster) : ctx_(ctx), roster_(roster) {}

  // They have broken the roster's generation.
  void note(const std::string& uid, const std::string& other);
  // The members made a step together. Who is not heard was no part of it.
  void forget();
  bool is_empty() const { return pairs_.empty(); }
  // That has broken two generations, and would be in the next one; null: none.
  const Pair* worst() const;
  // How often it is named.
  int pairs_with(const std::string& uid) const;
  // Of one that is parted from.
  std::string text(const std::string& uid) const;

  void part(const std::string& uid) { parted_.insert(uid); }
  // It is not let in again.
  bool is_parted(const std::string& uid) const { return parted_.contains(uid); }

 private:
  bool is_apart(const Pair& pair) const;

  const Context& ctx_;
  const Roster& roster_;
  std::vector<Pair> pairs_;
  std::set<std::string> parted_;  // UIDs
};

}  // namespace pawl::membership
