// What a gang's losses have cost: how often it was formed anew, and where its time went. The same
// numbers stand in WorkerGroup.status (measured by the leading launcher), in WorkerGroup.spec (what
// the job has counted so far, so that nothing is lost with a record) and in TrainingJob.status (the
// operator's sum). They only grow. Seconds of the gang's wall time, whatever its size. Values; any
// thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "common/base/clock.h"

namespace pawl::api {

// Generations that a gang began without a restart.
struct Recoveries {
  int in_place = 0;                     // after a loss
  int resizes = 0;                      // for another size, or because a worker came in
  std::map<std::string, int> by_cause;  // of in_place
  bool operator==(const Recoveries&) const = default;
};

// What the launchers have measured.
struct GangTime {
  std::int64_t attempt = 0;          // the newest that has trained
  std::optional<TimePoint> since;    // when it began to, by the leader's wall clock,
  std::int64_t counted_seconds = 0;  // and the sum of all accounts in here then
  std::int64_t generation = 0;  // the newest of programs that tell no steps, whose time is in here
  std::int64_t step = 0;        // the highest that was made; what is below it is made again
  std::int64_t productive_seconds = 0;
  std::map<std::string, int> lost_by_cause;  // seconds
  bool operator==(const GangTime&) const = default;
};

struct Tally {
  Recoveries recoveries;
  GangTime time;
  bool operator==(const Tally&) const = default;
};

// Of the job.
struct Goodput {
  std::int64_t productive_seconds = 0, lost_seconds = 0;
  std::optional<int> percent;  // productive of both; absent until a gang has trained
  std::map<std::string, int> lost_by_cause;
  // What the time is being lost to that is in none of them yet; "": the gang trains.
  std::string losing;
  std::int64_t before_seconds = 0;  // productive and lost before startTime, which a resume sets
  bool operator==(const Goodput&) const = default;
};

// Causes that the launchers measure; the others are the operator's, and those of restarts.
namespace lost {
inline constexpr char kRecovered[] = "RecoveredInPlace";
inline constexpr char kResized[] = "ResizedInPlace";
inline constexpr char kRedone[] = "Redone";
inline constexpr char kStarting[] = "Starting";
inline constexpr char kOther[] = "Other";
}  // namespace lost

// Both are readings of the same counters: of each the later one.
void raise(Recoveries& count, const Recoveries& other);
void raise(GangTime& time, const GangTime& other);
void raise(std::map<std::string, int>& lost_by_cause, const std::map<std::string, int>& others);
std::int64_t sum_of(const std::map<std::string, int>& counts);
std::int64_t sum_of(const GangTime& time);

}  // namespace pawl::api
