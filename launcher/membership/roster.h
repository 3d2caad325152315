// Who has joined the leader, and who has a place in its gang; what follows from that alone. Owned
// by Gang, which changes it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "launcher/membership/context.h"
#include "launcher/membership/gang_parts.h"
#include "launcher/membership/generations.h"

namespace pawl::membership {

class Roster {
 public:
  explicit Roster(const Context& ctx) : ctx_(ctx) {}

  std::map<PeerId, Joiner> joiners;
  // By member rank, as they were last proposed or committed.
  std::vector<PeerId> members;
  std::int64_t generation = 0;  // that runs, or ran until now; 0: none yet

  Joiner* find(PeerId peer);
  bool are_members(bool (*predicate)(const Joiner&)) const;
  template <typename Predicate>
  std::size_t count_members(Predicate predicate) const;

  // ---- of one
  bool is_ours(const Joiner& joiner) const;
  bool owns_rank(const Joiner& joiner, int rank) const;
  api::Failure failure_of(const Joiner& joiner, api::Failure failure) const;
  bool is_wanted(const Joiner& joiner) const;
  bool has_place(int slot) const;
  bool is_heard(const std::string& uid) const;
  bool is_waiting(const std::string& uid) const;
  bool is_slow(const Joiner& joiner) const;
  bool may_lead(const Joiner& joiner) const;

  // ---- of all
  // In the order that the record has for their slots. Until the commit their ranks are those of
  // before.
  void deal_ranks();
  bool are_members_ready() const;
  bool has_finished() const;
  bool has_trained_to_end() const;
  std::size_t heard_members() const;
  std::size_t least_members() const;  // with fewer it waits
  bool is_elastic() const;            // that is fewer than its target
  bool is_short() const;              // without those that are to go
  bool is_minority() const;
  bool has_to_go() const;           // the leading launcher
  bool has_to_end() const;          // … and nobody can lead after it
  bool has_others_to_lead() const;  // once a generation with them is committed
  const Joiner* heir() const;
  std::vector<std::string> program_addresses() const;
  std::optional<api::Straggler> straggler_of(const api::channel::Report& report) const;

  // ---- of what they hold (roster_state.cpp)
  NextStart start_by_reports() const;
  bool is_start_known() const;
  bool holds_state() const;
  bool holds_parts() const;  // each member one, and nobody the whole
  // It is at rest, and others have what it has: in memory or, where nobody holds the whole, storage
  // has all that it has to give.
  bool is_dispensable(const Joiner& joiner, bool with_unwanted) const;
  // The lowest that holds the state of `start`; -1: none.
  int source_rank(const NextStart& start) const;
  std::vector<PeerId> dropped() const;
  bool may_hold(const Joiner& joiner) const;
  // `with_unwanted`: members that are to go with the next change count, too.
  bool is_held_by_others(const Joiner& leaving, bool with_unwanted) const;

 private:
  bool is_unready(const Joiner& joiner) const;
  std::vector<ParkedReport> reports() const;  // of those who are parked
  bool is_all_accounted() const;

  const Context& ctx_;
};

template <typename Predicate>
std::size_t Roster::count_members(Predicate predicate) const {
  const auto count = std::ranges::count_if(
      members, [&](PeerId peer) { return std::invoke(predicate, joiners.at(peer)); });
  return static_cast<std::size_t>(count);
}

}  // namespace pawl::membership
