// What is free: every machine, what each pod takes that is bound to it (a terminating one as well,
// as long as it is there), and what is promised to pods that are not bound yet. Whoever decides
// books the gang here before the next decision is made, so that nothing is given away twice. Owner
// thread only.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "operator/placement/booking.h"
#include "operator/placement/clearing.h"
#include "operator/placement/host.h"
#include "operator/placement/placement.h"

namespace pawl::placement {

// Of the members of one gang.
struct Shape {
  Resources requests;
  Demands demands;
  auto operator<=>(const Shape&) const = default;
};

// What fits on each host, by its number, when all that is booked there has ended, but for fixtures
// and what is lasting.
struct Outlook {
  static constexpr TimePoint kUnknown = TimePoint::max();
  const std::vector<int>& units;
  const std::vector<TimePoint>& at;  // the latest end; of a host without any the first of all times
};

class Ledger {
 public:
  // Keys of the levels' labels, coarse to fine.
  explicit Ledger(std::vector<std::string> labels);
  Ledger(const Ledger&) = delete;  // it points into itself
  Ledger& operator=(const Ledger&) = delete;

  // True if that is news. A host's bookings stay when it goes, and count again when it is back.
  bool set_host(Host host);
  bool drop_host(const std::string& name);
  // True if something has become free by it. By a name of the pod. What is seen goes
  // before what was promised, wherever it is bound; what is no longer seen is promised still.
  bool see_pod(const std::string& pod, Booking booking);
  bool drop_pod(const std::string& pod);
  void promise(const std::string& pod, Booking booking);
  void withdraw(const std::string& pod);  // a promise; what is seen stays
  // When the last pod of this owner will have ended, at the latest; nothing: nobody knows.
  void expect_end(const std::string& owner, std::optional<TimePoint> end);

  // References are good until the next call that changes something.
  const Topology& topology();
  const Room& room(const Shape& shape);
  Outlook outlook(const Shape& shape);  // good for as long as the room
  // What would fit on each host if it were well, and nothing but fixtures were there: of the most
  // that it ever had, since devices are gone for a while when a machine starts anew.
  const std::vector<int>& units_ever(const Shape& shape);
  int most_ever(const Shape& shape, const Ask& ask);  // … in one domain that is deep enough
  struct Extent {
    int hosts = 0;   // that such a pod may be on, once they are well
    Resources most;  // of what it asks for, that one of these has for it
  };
  Extent extent_of(const Shape& shape);
  std::uint64_t changes_ever() const { return changes_ever_; }  // of what that counts, so far
  // What of each owner may be taken out, in two groups one after the other: the spare pods of it,
  // by their keys, then its others. Fixtures stay.
  struct Leaver {
    std::string owner;
    std::vector<std::string> spare;
  };
  Clearing clearing(const Shape& shape, std::span<const Leaver> leavers);
  const Host* find(const std::string& name) const;
  std::optional<int> number_of(const std::string& host) const;  // in topology(), as it was last
  // More of one of these is booked there than there is.
  bool is_overbooked(const std::string& host, const Resources& requests) const;
  std::size_t pods() const { return pods_.size(); }

 private:
  struct Pod;
  // By column.
  using Needs = std::vector<std::pair<std::size_t, std::int64_t>>;
  struct Row {  // of a host, which may be gone
    std::optional<Host> host;
    std::vector<std::int64_t> free;          // by column; below 0 where too much is booked
    std::vector<std::int64_t> taken, fixed;  // by those that will end, and by fixtures
    std::vector<std::int64_t> most;          // that it had
    int bookings = 0;
    std::vector<const Pod*> pods;  // that are no fixtures
    int number = -1;               // in the topology
  };
  struct Pod {
    std::optional<Booking> seen, promised;
    const Row* row = nullptr;  // where it is booked
    Needs takes;               // what of it
    TimePoint end = Outlook::kUnknown;
    const Booking* counted() const { return seen ? &*seen : promised ? &*promised : nullptr; }
  };
  struct Owner {
    std::optional<TimePoint> end;                           // as far as it is known
    std::vector<std::pair<const std::string*, Pod*>> pods;  // with their keys
  };
  struct Known {  // a room, as of the first `changes` entries of changed_
    Shape shape;
    Needs needs;
    std::vector<bool> may_host;  // by the host's number
    Room room;
    std::vector<int> units_after;  // when all have ended that will
    std::size_t changes = 0;
    std::vector<int> units_ever = {};
    std::map<std::array<int, 3>, int> most_ever = {};  // by depth, and slices; as asked for
    std::uint64_t ever_as_of = 0;                      // changes of that
  };
  std::size_t column_of(const std::string& resource);
  void book(const std::string& key, Pod& pod, int sign);
  void note_owner(const std::string& key, Pod& pod, int sign);
  TimePoint end_of(const Booking& booking) const;
  void note_end(const Row& row);
  template <typename Change>
  void change_pod(const std::string& pod, Change&& change);
  void note_change(int host);
  void rebuild();
  Known& counted(const Shape& shape);
  Known& known_room(const Shape& shape);
  static int units_of(const Row& row, const Needs& needs, bool is_emptied);
  void count(const Row& row, Known& known) const;

  const std::vector<std::string> labels_;
  std::map<std::string, Row> rows_;  // by host
  std::map<std::string, Pod> pods_;
  std::map<std::string, Owner> owners_;
  std::map<std::string, std::size_t> columns_;
  std::optional<Topology> topology_;  // nothing: a host or its labels have changed
  std::vector<Row*> by_number_;
  std::vector<TimePoint> end_by_number_;  // of the last pod there
  std::vector<int> changed_;  // hosts whose bookings changed, since the topology was built
  std::list<Known> rooms_;    // the last that were asked for come first
  std::uint64_t changes_ever_ = 1;
};

}  // namespace pawl::placement
