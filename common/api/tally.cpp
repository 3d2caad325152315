#include "common/api/tally.h"

#include <algorithm>

namespace pawl::api {

namespace {

// A record is written with what a pod may do: its words are bounded, so that there is always room
// for the operator's own.
constexpr std::size_t kRecoveryCausesMax = 16, kLostCausesMax = 24;

void raise(std::map<std::string, int>& counts, const std::map<std::string, int>& others,
           std::size_t causes_max) {
  for (const auto& [cause, count] : others) {
    if (counts.size() >= causes_max && !counts.contains(cause)) continue;
    int& known = counts[cause];
    known = std::max(known, count);
  }
}

}  // namespace

void raise(std::map<std::string, int>& lost_by_cause, const std::map<std::string, int>& others) {
  raise(lost_by_cause, others, kLostCausesMax);
}

void raise(Recoveries& count, const Recoveries& other) {
  count.in_place = std::max(count.in_place, other.in_place);
  count.resizes = std::max(count.resizes, other.resizes);
  raise(count.by_cause, other.by_cause, kRecoveryCausesMax);
}

void raise(GangTime& time, const GangTime& other) {
  if (other.attempt > time.attempt || (other.attempt == time.attempt && !time.since)) {
    time.since = other.since;
    time.counted_seconds = other.counted_seconds;
  }
  time.attempt = std::max(time.attempt, other.attempt);
  time.generation = std::max(time.generation, other.generation);
  time.step = std::max(time.step, other.step);
  time.productive_seconds = std::max(time.productive_seconds, other.productive_seconds);
  raise(time.lost_by_cause, other.lost_by_cause);
}

std::int64_t sum_of(const std::map<std::string, int>& counts) {
  std::int64_t sum = 0;
  for (const auto& [cause, count] : counts) sum += count;
  return sum;
}

std::int64_t sum_of(const GangTime& time) {
  return time.productive_seconds + sum_of(time.lost_by_cause);
}

}  // namespace pawl::api
