// The line of gangs that wait for room: first those that have begun and lack members, then the
// others; each by priority, then by age, then by name. A round goes through it from the front, and
// books for each that fits before it looks at the next. Who does not fit does not hold up those
// behind it. Owner thread of the controller only; deterministic.
//
// 50,000 gangs may wait, of a few shapes. What is free only shrinks within a round, and between
// rounds unless the ledger says so: a round looks at all when something has become free, else at
// those that are new, and ends where the smallest gangs behind would not fit either.
#pragma once

#include <compare>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "common/base/clock.h"
#include "operator/placement/ledger.h"

namespace pawl::admission {

struct Gang {
  std::string id;             // "namespace/name" of its job
  bool is_underway = false;   // has begun, and waits for members: before all others
  std::int64_t priority = 0;  // the higher go first
  TimePoint since;            // of two with the same priority the older goes first
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
};

class Line {
 public:
  // Books the members of a gang, so that the ledger knows of them.
  using Book = std::function<void(const Gang&, const placement::Placement&)>;

  void join(Gang gang);  // again: what it asks for now
  void leave(const std::string& id);
  const Gang* find(const std::string& id) const;
  std::size_t size() const { return order_.size(); }

  // `is_freed`: since the round before something has become free. Of who fits, and of who has
  // joined since the round before, in the order of the line.
  std::vector<Verdict> round(placement::Ledger& ledger, bool is_freed, const Book& book);

 private:
  // Compared in the order of the line.
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
  };
  using Groups = std::map<std::pair<placement::Shape, int>, Group>;
  struct Waiting {
    Gang gang;
    Groups::iterator group;
    bool is_new = true;
  };
  class Round;
  using Order = std::map<Place, Waiting>;

  Order order_;
  std::map<std::string, Order::iterator> places_;  // by id
  Groups groups_;                                  // of those in line
  int new_ = 0;                                    // how many are
};

}  // namespace pawl::admission
