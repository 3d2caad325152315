// The line of gangs that wait for room: first those that have begun and lack members, then the
// others; each by priority, then by age, then by name. A round goes through it from the front, and
// books for each that fits before it looks at the next. Who does not fit does not hold up those
// behind it, until it has waited for long: then room is kept for it (reservation.h). Owner thread
// of the controller only; deterministic.
//
// 50,000 gangs may wait, of a few shapes. What is free only shrinks within a round, and between
// rounds unless the ledger says so: a round looks at all when something has become free, else at
// those that are new, and ends where the smallest gangs behind would not fit either.
#pragma once

#include <chrono>
#include <compare>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "common/base/clock.h"
#include "operator/admission/reservation.h"
#include "operator/placement/ledger.h"

namespace pawl::admission {

struct Gang {
  std::string id;                        // "namespace/name" of its job
  bool is_underway = false;              // has begun, and waits for members: before all others
  std::int64_t priority = 0;             // the higher go first
  TimePoint since;                       // of two with the same priority the older goes first
  std::optional<TimePoint> waits_since;  // for this room; nothing: it can do without
  std::optional<std::chrono::seconds> run_max;  // it will have ended after that
  placement::Shape shape;
  placement::Ask ask;               // without `beside`
  std::vector<std::string> beside;  // machines of its members that stay
  std::set<std::string> avoided;    // machines that count only where nothing else holds it
};

// In the topology as it is now.
placement::Ask ask_of(placement::Ledger& ledger, const Gang& gang);

struct Verdict {
  std::string id;
  std::optional<placement::Placement> placement;  // booked, and no longer in line
  int ahead = 0;                                  // in line before it
  std::optional<Reservation> kept;                // for it
  bool is_passed_over = false;                    // it would fit, where room is kept for others
};

// For whom room is kept.
struct Patience {
  std::chrono::seconds wait_max{300};  // who has waited for longer
  // Of those the first in line; and others as long as what is kept for all of them is no more than
  // this part of all hosts, so that not all stand idle for a few.
  static constexpr std::size_t kGangsMax = 4;
  int part_of_hosts = 10;
};

class Line {
 public:
  // Books the members of a gang, so that the ledger knows of them.
  using Book = std::function<void(const Gang&, const placement::Placement&)>;

  explicit Line(Patience patience = {}) : patience_(patience) {}

  void join(Gang gang);  // again: what it asks for now
  void leave(const std::string& id);
  const Gang* find(const std::string& id) const;
  // What is free, but for what was kept for others when last somebody asked.
  placement::Room room_beside_kept(placement::Ledger& ledger, const Gang& gang) const;
  std::size_t size() const { return order_.size(); }

  // `is_freed`: since the round before something has become free. Of who fits, and of who has
  // joined since the round before, in the order of the line.
  std::vector<Verdict> round(placement::Ledger& ledger, bool is_freed, TimePoint now,
                             const Book& book);

 private:
  // Compared in the order of the line.
  struct Place {
    bool is_underway;
    std::int64_t priority;
    TimePoint since;
    std::string id;
    std::strong_ordering operator<=>(const Place& other) const {
      return std::tie(other.is_underway, other.priority, since, id) <=>
             std::tie(is_underway, priority, other.since, other.id);
    }
    bool operator==(const Place&) const = default;
  };
  // Gangs of one shape within domains of one depth.
  struct Group {
    std::map<int, int> sizes;  // gangs by how many members they ask for
    std::size_t number = 0;    // in this round
    int limited = 0;           // gangs that say for how long they run
  };
  using Groups = std::map<std::pair<placement::Shape, int>, Group>;
  struct Waiting {
    Gang gang;
    Groups::iterator group;
    bool is_new = true;
  };
  class Round;
  using Order = std::map<Place, Waiting>;
  std::vector<Verdict> pass(placement::Ledger& ledger, bool is_freed, TimePoint now,
                            const Book& book);
  void take_out(const std::string& id);
  void note_kept(const std::string& id, std::set<std::string> hosts);

  const Patience patience_;
  Order order_;
  std::map<std::string, Order::iterator> places_;  // by id
  Groups groups_;                                  // of those in line
  int new_ = 0;                                    // how many are
  // Hosts that were kept when their gangs were last passed by, by their ids. What is kept no longer
  // is free for all of those behind.
  std::map<std::string, std::set<std::string>> kept_;
  bool is_released_ = false;
};

}  // namespace pawl::admission
