// A gang that waits for room, and what it is told. Values; any thread.
#pragma once

#include <chrono>
#include <compare>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "operator/admission/quotas.h"
#include "operator/admission/reservation.h"
#include "operator/placement/ledger.h"

namespace pawl::admission {

struct Gang {
  std::string id;  // "namespace/name" of its job
  // Has begun, and waits for members that it lacks: before all others; for those that it can do
  // without: after all others.
  bool is_underway = false, is_growth = false;
  std::int64_t priority = 0;  // the higher go first
  bool preempts = true;       // who has a lower one may have to leave for it
  bool is_refused = false;    // again and again where it was placed: nobody leaves for it
  TimePoint since;            // of two with the same priority the older goes first
  std::optional<TimePoint> waits_since;         // for this room; nothing: it can do without
  std::optional<std::chrono::seconds> run_max;  // it will have ended after that
  placement::Shape shape;
  placement::Ask ask;               // without `beside`; the least that it can do with
  int more_units = 0;               // beyond those: as many as there is room and quota for
  bool is_enough = false;           // it can do without
  std::vector<std::string> beside;  // machines of those of its members that it has to be near
  std::vector<std::string> own;     // of all of them that stay; as `beside` where that is all
  // Machines that count only where nothing else holds it, and it cannot do without, in the order in
  // which they failed.
  std::vector<std::string> avoided;
  std::string queue;  // "": of none
  // What a member takes of quota, where that goes by other names than in its shape.
  std::optional<placement::Resources> charged;
  int kept_units = 0;  // members that need no quota of it: it has that
  // From an attempt before: it goes before the others of its queue, which wait for what it has.
  bool keeps_quota = false;
};

// For the same room and quota, with the same right to it.
bool is_same_wish(const Gang& one, const Gang& other);
// In the topology as it is now.
placement::Ask ask_of(placement::Ledger& ledger, const Gang& gang);
int charged_units(const Gang& gang, int units);
// What it takes of the quota of its queue with so many units, with the least of them.
placement::Resources charge_of(const Gang& gang, int units);
placement::Resources charge_of(const Gang& gang);
int units_of(const placement::Placement& placement);

struct Verdict {
  std::string id;
  std::optional<placement::Placement> placement;  // booked, and no longer in line
  int ahead = 0;                     // in line before it: gangs of its queue, and all underway
  std::optional<Reservation> kept;   // for it
  bool is_passed_over = false;       // it would fit, where room is kept for others
  std::optional<Shortage> shortage;  // of quota
  bool is_behind = false;            // its queue is FIFO, and another gang is before it
};

// For whom room is kept.
struct Patience {
  std::chrono::seconds wait_max{300};  // who has waited for longer
  // Of those the first in line; and others as long as what is kept for all of them is no more than
  // this part of all hosts, so that not all stand idle for a few.
  static constexpr std::size_t kGangsMax = 4;
  int part_of_hosts = 10;
};

}  // namespace pawl::admission
