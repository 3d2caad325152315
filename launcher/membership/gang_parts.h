// What the leader keeps of each launcher that has joined, and of what it publishes. Values; owned
// by Gang.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "launcher/membership/action.h"

namespace pawl::membership {

struct Joiner {
  Join join;
  std::optional<Ready> ready;
  std::optional<Parked> parked;  // since the last commit
  int losses = 0;            // generations that a process of its was lost in, without a new step
  std::int64_t lost_in = 0;  // the newest of them
  std::int64_t lost_at = 0;  // the newest confirmed step then
  int stored_then = 0;       // checkpoints, by this leader
  SteadyPoint last_heard{}, last_sent{};
  int member_rank = -1;
  SteadyPoint lost_since{}, rejoin_by{};
  SteadyPoint prepared_at{}, parked_at{};
  bool is_finished = false, has_left = false, is_lost = false;
  bool is_leaving = false;   // told to terminate; its place is another's as soon as it has left
  bool is_newcomer = false;  // let in with the next commit, in a place that nobody had
  bool is_new = false;       // it came in, and no step was made since
  bool is_left_out = false;  // the gang goes on without it, which it has to hear with the commit
  bool is_parted = false;    // another pod is to have its place
  bool holds_part = false;   // of the state: no generation goes on from its memory
  bool is_released = false, is_told = false;  // is_told: its loss stands in the record, or will

  bool is_awaited() const { return is_lost && !is_finished; }
};

// A place whose member is gone has such a number, and above; no connection has.
inline constexpr PeerId kVacant = PeerId{1} << 63;

struct Deputy {                     // who may lead in our stead, as we do not reach the API server
  std::optional<PeerId> peer = {};  // it does
  SteadyPoint since{};              // … or was told to stand
  bool is_told = false;
  std::size_t asked = 0;  // members, one after the other
  SteadyPoint asked_at{};
};

}  // namespace pawl::membership
