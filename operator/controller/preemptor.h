// Who has to leave so that others get room, or become smaller, at all times: whom that concerns
// (admission/court.h), what was decided and is in no view yet, and when to look again. Part of the
// placer.
//
//  1. Each gang that has nodes is a tenant, as its job's view says.
//  2. Once a second at most, and only if something has changed, those that wait are asked in the
//     order of the line. Who can get its room by that others leave is awaited by the line: it has
//     the hosts and the quota to itself from then on, until one before it needs them.
//  3. Those others have an order to leave until their views say that they do, and leave by their
//     own plans (core/preempt.cpp): that is written into their status, so it is carried through
//     whatever becomes of this process. An order whose cause is gone before is no order any more.
//
// After a crash those that leave already are enough for the first that might have sent them away
// (restore()); if it was for another one that they left, that one may have to send away others.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "operator/admission/court.h"
#include "operator/admission/line.h"

namespace pawl::controller {

struct Occupant {  // a tenant, and what it costs to send it away
  std::int64_t priority = 0;
  std::string queue;
  std::int64_t devices = 1;
  TimePoint placed_at, saved_at;             // work is lost since the later of the two
  bool is_leaving = false;                   // for whatever reason
  bool is_preempted = false;                 // for this one
  std::vector<admission::Spare> spare = {};  // pods that it can do without, or does from now on
  placement::Resources each = {};            // of its quota, what each of those takes
  bool is_shrinking = false;                 // the latter
  bool operator==(const Occupant&) const = default;
};

class Preemptor {
 public:
  // By the job's id; nothing: it has no nodes any more.
  void note(const std::string& id, const std::optional<Occupant>& occupant);
  void note_each(const std::string& id, placement::Resources each);  // by other names, that part
  void want() { is_wanted_ = has_news_ = true; }                     // something has changed
  // Who has to leave from now on, by their ids.
  std::vector<std::string> search(const admission::Stock& stock, admission::Line& line,
                                  TimePoint now);
  // After a crash, before anything is given away: who leaves already does so for those that wait.
  void restore(const admission::Stock& stock, admission::Line& line, TimePoint now);
  // Its pods end: its job is gone.
  void note_end(const std::string& id);
  struct Order {
    std::string asker, why;                // a sentence
    std::vector<admission::Spare> pods{};  // these leave; none: all
  };
  // Null: this one need not leave, or nobody waits for that any more.
  const Order* order_for(const std::string& id, const admission::Line& line) const;
  int leaving_for(const std::string& id) const;  // jobs
  // When to search, if nothing else happens.
  std::optional<TimePoint> next() const;

 private:
  void note_order(const std::string& id, const Occupant& occupant);
  admission::Court court(const admission::Stock& stock, TimePoint now) const;
  bool drop_orders(const admission::Line& line);                 // true if there were any
  using Awaited = std::map<std::string, std::set<std::string>>;  // hosts, by who waits
  void change(admission::Line& line, const Awaited& before, const Awaited& after);
  std::vector<std::string> order(const admission::Gang& gang, const admission::Eviction& eviction,
                                 admission::Court& court);

  std::map<std::string, Occupant> occupants_;
  std::map<std::string, Order> orders_;          // by who has to leave; not in its view yet
  std::map<std::string, std::string> left_for_;  // by who leaves
  bool is_wanted_ = true;
  TimePoint not_before_{};
  // Of the way through the line that is under way, which may take several turns: who was asked, and
  // whether something has changed since it began.
  std::set<std::string> asked_;
  bool has_news_ = false;
  std::optional<TimePoint> again_;
};

}  // namespace pawl::controller
