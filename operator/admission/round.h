// One round of the line, as far as it is about nodes: who fits where, and for whom what is kept.
// What is free only shrinks within it: a domain holds no more than what it held when it was counted
// last. Used by the line alone.
#pragma once

#include <array>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "operator/admission/gang.h"

namespace pawl::admission {

// Books the members of a gang, so that the ledger knows of them.
using Book = std::function<void(const Gang&, const placement::Placement&)>;

// What one domain holds at most, for all gangs of one shape within domains of one depth.
struct Most {
  int units = std::numeric_limits<int>::max();
  int changes = -1;  // that were made before it was counted
};
// By level of what may be used: the hosts of so many reservations; at last, all that is free.
using Counted = std::array<Most, Patience::kGangsMax + 1>;

class Round {
 public:
  Round(placement::Ledger& ledger, const Patience& patience, TimePoint now, const Book& book)
      : ledger_(ledger), patience_(patience), now_(now), book_(book) {}

  struct Try {
    std::optional<placement::Placement> placement;  // booked
    bool is_hopeless = false;                       // nor will others get it that ask for as much
  };
  // With as many units of `more` as there is room for.
  Try try_place(const Gang& gang, int more, Counted& counted);
  bool may_fit(const Gang& gang, Counted& counted) { return may_fit(gang, counted, kAll); }

  // Others make room for it on these hosts: from the beginning nobody else may use them.
  void keep_awaited(const Gang& gang, const std::set<std::string>& hosts);
  // It stays in line: keeps room for it from those behind it, if it may. False: no domain will ever
  // hold it.
  bool keep_for(const Gang& gang);
  // Some domain will hold it one day, if it is beside nobody.
  bool is_possible(const Gang& gang);
  bool is_all_kept() const { return is_all_kept_; }
  const Reservation* kept_for(const Gang& gang) const;  // null: nothing
  // By the gang's id.
  std::map<std::string, std::set<std::string>> kept_hosts() const;

 private:
  struct Kept {
    const Gang* gang = nullptr;
    Reservation reservation;
    bool is_awaited = false;
  };
  static constexpr std::size_t kAll = Patience::kGangsMax;
  bool may_fit(const Gang& gang, Counted& counted, std::size_t level);
  void release(const Gang& gang);
  bool may_use(const Gang& gang, const Kept& kept) const;
  std::size_t level_of(const Gang& gang) const;
  const placement::Room& without_kept(const Gang& gang);
  std::optional<placement::Placement> place_in(const placement::Room& room, const Gang& gang,
                                               int more);

  placement::Ledger& ledger_;
  const Patience& patience_;
  const TimePoint now_;
  const Book& book_;
  int changes_ = 0;  // bookings, and reservations
  bool is_all_kept_ = false;
  std::vector<Kept> kept_;
  std::vector<bool> is_kept_;  // by the host's number
  placement::Room rest_;       // of the gang that is looked at
};

}  // namespace pawl::admission
