// One way through the line: in which order gangs are looked at, and when no more of them need to
// be. Used by the line alone.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "operator/admission/line.h"

namespace pawl::admission {

class Line::Walk {
 public:
  Walk(Line& line, Round& round, Quotas& quotas, bool is_freed);
  void run();
  // In order of priority and age; `ahead` is left out.
  std::vector<Verdict> verdicts();
  // Into the lanes, who holds up others. True if some of that has become less.
  bool note_holders();
  // By id, of those for which something is kept now, or is known to be no longer.
  std::map<std::string, std::set<std::string>> kept() const;

 private:
  // Who of one kind is to be tried next, and for whom next something may be kept.
  struct Kinds {
    Group* group = nullptr;
    Order::iterator next, next_end, patient, patient_end;
  };
  // Who of a lane is to be looked at next.
  struct Candidate {
    Waiting* waiting = nullptr;
    Kinds* kind = nullptr;  // null: of a queue that is FIFO
    bool borrows = false;
    std::int64_t share = 0;
  };
  struct Track {  // through one lane
    Lane* lane = nullptr;
    bool is_fifo = false;
    std::vector<Kinds> kinds;
    Ranked::iterator head;                // FIFO: the end, when nobody else of it may go
    const Waiting* stopped_at = nullptr;  // FIFO: the first that got nothing
    std::optional<Candidate> candidate;
    bool is_stale = true;  // the candidate
    // The first that has waited for long: quota is kept for it from those behind it, and from the
    // beginning, as far as its queue need not borrow it, from other queues.
    const Waiting* claimant = nullptr;
    bool is_claim_set = false;  // the claimant was looked at
    // For whom others make room, and what is kept for all of them; then there is no claimant.
    std::set<const Waiting*> awaited;
    placement::Resources awaited_quota;
  };

  Track track_of(Lane& lane);
  void choose_claimant(Track& track);
  Track* next();
  void refresh(Track& track);
  static bool precedes(const Candidate& one, const Candidate& other);
  void visit(Track& track);
  void visit_head(Track& track, Waiting& waiting);
  Round::Try try_place(Track& track, Waiting& waiting);
  bool keep(Track& track, Waiting& waiting);
  // Of the least of it, and of so many units.
  std::optional<Shortage> shortage_of(const Track& track, const Gang& gang) const;
  std::optional<Shortage> shortage_of(const Track& track, const Gang& gang, int units) const;
  Verdict verdict_of(const Track& track, const Waiting& waiting);

  Line& line_;
  Round& round_;
  Quotas& quotas_;
  const bool is_freed_;
  bool has_news_ = false;
  bool is_complete_ = false;  // whoever is patient was looked at
  int tries_ = 0;             // kinds, and FIFO queues, of which somebody may still get something
  std::vector<Track> tracks_;
  std::map<const Waiting*, placement::Placement> placed_;
  std::map<const Waiting*, std::optional<Shortage>> claimed_;  // what a claimant lacks
  std::set<std::string> passed_by_;
};

}  // namespace pawl::admission
