// The line of gangs that wait for room: first those that have begun and lack members, then the
// others by queue. Of the queues the one goes first whose next gang borrows no quota, then the one
// with the smallest share; within one those go first that have their quota already, then it goes by
// priority, then by age, then by name. A round goes through it from the front, and books for each
// that fits before it looks at the next. Who does not fit does not hold up those behind it, until
// it has waited for long: then room is kept for it (reservation.h), and quota. Owner thread of the
// controller only; deterministic.
//
// 50,000 gangs may wait, of a few kinds. What is free only shrinks within a round: where one of a
// kind does not fit none of those behind it does, so a round looks at those that get room, and at
// one more of each kind. Between rounds it shrinks unless the ledger says otherwise: then only
// those that are new are looked at.
#pragma once

#include <compare>
#include <ext/pb_ds/assoc_container.hpp>
#include <ext/pb_ds/tree_policy.hpp>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "operator/admission/gang.h"
#include "operator/admission/quotas.h"
#include "operator/admission/round.h"

namespace pawl::admission {

// What is given away.
struct Stock {
  placement::Ledger& ledger;
  Quotas& quotas;
};

class Line {
 public:
  explicit Line(Patience patience = {}) : patience_(patience) {}
  Line(const Line&) = delete;  // it points into itself
  Line& operator=(const Line&) = delete;

  void join(Gang gang);  // again: what it asks for now
  void leave(const std::string& id);
  const Gang* find(const std::string& id) const;
  // No room there from now on where it was kept for others when last somebody asked.
  void close_kept(placement::Ledger& ledger, const Gang& gang, placement::Room& room) const;
  // Hosts where others make room for it: nobody else gets room there, nor its quota, until it has
  // left the line. None: it is not awaited any more.
  void await(const std::string& id, std::set<std::string> hosts);
  const std::map<std::string, std::set<std::string>>& awaited() const { return awaited_; }
  // Hosts that are kept for those that have waited for long, and go before it or have other queues;
  // but not for who has to borrow of those, where it has not.
  std::set<std::string> kept_before(const Gang& gang, const Quotas& quotas) const;
  // For whom others may have to make room: who waits for the whole of its gang, of each kind the
  // first, of queues that are FIFO only the first of all. In the order in which they go; those
  // for whom others make room already before other queues.
  std::vector<const Gang*> askers(const Quotas& quotas) const;
  std::size_t size() const { return waiting_.size(); }
  std::size_t waiting_in(const std::string& queue) const;  // and have not begun
  std::uint64_t changes() const { return changes_; }       // who came or went, so far

  // `is_freed`: since the round before something has become free, nodes or quota. Of who fits, and
  // of who has joined since the round before, in order of priority and age.
  std::vector<Verdict> round(const Stock& stock, bool is_freed, TimePoint now, const Book& book);

 private:
  struct Waiting;
  static bool precedes(const Gang& one, const Gang& other);  // of one queue
  struct Before {
    using is_transparent = void;
    bool operator()(const Waiting* one, const Waiting* other) const;
  };
  using Order = std::set<Waiting*, Before>;
  using Ranked = __gnu_pbds::tree<Waiting*, __gnu_pbds::null_type, Before, __gnu_pbds::rb_tree_tag,
                                  __gnu_pbds::tree_order_statistics_node_update>;
  // What gangs have in common of which none fits where one did not.
  struct Kind {
    std::string queue;
    placement::Shape shape;
    int required_depth = 0, units = 0, kept_units = 0;
    placement::Slices slices;
    bool is_limited = false;  // says for how long it runs
    bool preempts = true, is_refused = false;
    std::string apart;  // its id, where it is a kind of its own
    auto operator<=>(const Kind&) const = default;
  };
  struct Places {
    placement::Shape shape;
    int depth = 0;  // within domains of it
    placement::Slices slices;
    auto operator<=>(const Places&) const = default;
  };
  struct Room {
    Counted counted;
    int groups = 0;
  };
  struct Group {
    Order all, fresh, patient;  // fresh: since the last round
    std::map<Places, Room>::iterator room;
  };
  using Groups = std::map<Kind, Group>;
  enum class Part { kUnderway, kWaiting, kGrowth };  // in the order in which they go
  struct Lane {
    Part part = Part::kWaiting;
    std::string queue;  // of those that wait
    Groups groups;
    Ranked order;
    // Of the last round: for whom quota was kept, and who held up those behind it. When one of them
    // goes there is more for the others.
    const Waiting *claimant = nullptr, *stopped_at = nullptr;
  };
  struct Waiting {
    Gang gang;
    Lane* lane = nullptr;
    Groups::iterator group;
  };
  class Walk;

  Lane& lane_of(const Gang& gang);
  std::size_t size_of(Part part) const;
  void take_out(const std::string& id);
  void note_kept(const std::string& id, std::set<std::string> hosts);
  void note_patient(TimePoint now);
  std::vector<Verdict> pass(const Stock& stock, bool is_freed, TimePoint now, const Book& book);

  const Patience patience_;
  std::map<std::string, Waiting> waiting_;  // by id
  std::map<std::pair<Part, std::string>, Lane> lanes_;
  std::map<Places, Room> rooms_;                            // of all groups
  std::set<std::pair<TimePoint, std::string>> patient_at_;  // who is not yet, by when it will be
  // Hosts that were kept when their gangs were last passed by, by their ids. What is kept no longer
  // is free for all of those behind.
  std::map<std::string, std::set<std::string>> kept_, awaited_;
  bool is_released_ = false;
  std::uint64_t changes_ = 0;
};

}  // namespace pawl::admission
