// Oracles over what losses have cost: the gang's record and the job's status against each other,
// and against the time that the simulated gangs have really trained.
#include <algorithm>

#include "common/api/codec.h"
#include "tests/sim/oracles.h"

namespace pawl::sim {

namespace {

using std::chrono::duration_cast;

constexpr seconds kRounding{2};

bool is_touched(const JobTruth& truth) {
  return truth.was_status_cut || std::ranges::any_of(truth.attempts, [](const auto& entry) {
           return entry.second.records > 0;
         });
}

std::string shrunken(const std::map<std::string, int>& before,
                     const std::map<std::string, int>& after) {
  for (const auto& [cause, count] : before) {
    const auto found = after.find(cause);
    if (found == after.end() || found->second < count) return cause;
  }
  return "";
}

int total(const api::Recoveries& recoveries) { return recoveries.in_place + recoveries.resizes; }

std::string in_seconds(seconds time) { return std::to_string(time.count()) + " s"; }

bool is_in(const api::Tally& tally, const api::TrainingJobStatus& status) {
  api::Recoveries recoveries = status.recoveries;
  raise(recoveries, tally.recoveries);
  return recoveries == status.recoveries &&
         shrunken(tally.time.lost_by_cause, status.goodput.lost_by_cause).empty() &&
         tally.time.productive_seconds <= status.goodput.productive_seconds;
}

bool has_ended(const api::TrainingJob& job) {
  return is_true(job, api::condition::kComplete) || is_true(job, api::condition::kFailed);
}

}  // namespace

// A commit after which the same attempt goes on counts one, and nothing else does.
void Oracles::i38_commits_are_counted(const local::Change& change) {
  if (change.before == nullptr || change.is_deletion) return;
  const auto before = api::decode_worker_group(*change.before);
  const auto after = api::decode_worker_group(*change.after);
  if (!before || !after) return;
  const api::WorkerGroupStatus &old_status = before->status, &status = after->status;
  const api::Recoveries& recoveries = status.tally.recoveries;
  if (api::sum_of(recoveries.by_cause) != recoveries.in_place)
    fail("I38", "the record's inPlace is not the sum of byCause");
  const int more = total(recoveries) - total(old_status.tally.recoveries);
  const bool is_commit = status.generation > old_status.generation;
  const bool goes_on = is_commit && old_status.generation > 0 && !old_status.lineage.empty() &&
                       old_status.lineage.back().attempt == status.attempt;
  const std::string uid = text_at_pointer(*change.after, "/metadata/ownerReferences/0/uid");
  if (goes_on) ++reformed_[uid];
  std::int64_t& told = truth_.jobs[uid].told_step;
  told = std::max(told, status.tally.time.step);
  if (is_touched(truth_.jobs[uid])) return;
  if (more != (goes_on ? 1 : 0))
    fail("I38", "generation " + std::to_string(status.generation) + " counts " +
                    std::to_string(more) + " recoveries");
  const api::GangTime &old_time = old_status.tally.time, &time = status.tally.time;
  if (time.productive_seconds < old_time.productive_seconds || time.step < old_time.step ||
      !shrunken(old_time.lost_by_cause, time.lost_by_cause).empty())
    fail("I39", "the record's account of the time went back");
}

void Oracles::i38_recoveries_are_told(const JobWrite& write) {
  const api::Recoveries &before = write.before.status.recoveries,
                        &after = write.after.status.recoveries;
  if (api::sum_of(after.by_cause) != after.in_place)
    fail("I38", "inPlace is not the sum of byCause");
  if (is_touched(write.truth)) return;
  if (after.in_place < before.in_place || after.resizes < before.resizes)
    fail("I38", "recoveries went back");
  const int known = reformed_[write.after.meta.uid];
  if (total(after) > known)
    fail("I38", std::to_string(total(after)) + " recoveries are told, of " + std::to_string(known));
  i38_what_was_seen_is_told(write);
}

void Oracles::see_group(const void* who, const nlohmann::json& group) {
  const auto seen = api::decode_worker_group(group);
  if (!seen) return;
  sights_[who][text_at_pointer(group, "/metadata/ownerReferences/0/uid")].push_back(
      Sight{engine_.elapsed(), seen->status.tally});
}

// What the operator has seen of the gang's own counts is in whatever it writes: by all that may
// have written, this long ago, so that it can have decided on nothing before. (What it has not seen
// when it writes that the job is over, is told by nobody: no write waits for counts.)
void Oracles::i38_what_was_seen_is_told(const JobWrite& write) {
  const milliseconds latest = engine_.elapsed() - seconds{60} - truth_.blind;
  const api::TrainingJobStatus& status = write.after.status;
  const std::string& uid = write.after.meta.uid;
  const bool is_told = std::ranges::any_of(sights_, [&](const auto& view) {
    const auto found = view.second.find(uid);
    if (found == view.second.end()) return true;
    return std::ranges::all_of(found->second, [&](const Sight& sight) {
      return sight.since > latest || is_in(sight.tally, status);
    });
  });
  if (!is_told && !has_ended(write.before))
    fail("I38", "counts of the record are not told that were seen a minute ago");
}

void Oracles::i39_time_is_accounted(const JobWrite& write) {
  const api::Goodput &before = write.before.status.goodput, &after = write.after.status.goodput;
  if (api::sum_of(after.lost_by_cause) != after.lost_seconds)
    fail("I39", "lostSeconds is not the sum of byCause");
  if (is_touched(write.truth)) return;
  if (after.productive_seconds < before.productive_seconds ||
      !shrunken(before.lost_by_cause, after.lost_by_cause).empty())
    fail("I39", "an account of the time went back");
  // A step of the clock is time to the operator, and its view may be behind the record by so much.
  // What launchers could tell of only after the operator had ended their attempt, and had accounted
  // for all of its time, is counted twice until the next sum.
  const seconds late =
      seconds{30} + duration_cast<seconds>(truth_.blind) + duration_cast<seconds>(truth_.unheard);
  const auto& start = write.after.status.start_time;
  if (knobs_.clock_step > 0 || !start) return;
  const auto sum = seconds{after.productive_seconds + after.lost_seconds};
  const auto end = write.after.status.completion_time;
  const auto now = end ? *end : engine_.clock().now();
  const auto whole = seconds{after.before_seconds} + duration_cast<seconds>(now - *start);
  if (sum > whole + late)
    fail("I39", in_seconds(sum) + " are accounted for, of " + in_seconds(whole));
  const bool was_stopping =
      std::ranges::any_of(write.before.status.conditions, [](const api::Condition& condition) {
        return condition.type == api::condition::kSuspended && condition.reason != "Resumed";
      });
  if (has_ended(write.after) && !has_ended(write.before) && !was_stopping &&
      sum + kRounding < whole)
    fail("I39",
         "only " + in_seconds(sum) + " are accounted for in the end, of " + in_seconds(whole));
  i39_steps_are_productive(write);
}

// Of gangs that tell their steps, from above: each generation's first one is a part of what it took
// to come to it, and what a leader has not told is lost with it. Steps that nobody was told of are
// new ones to who makes them again.
void Oracles::i39_steps_are_productive(const JobWrite& write) {
  if (write.after.spec.runtime_kind != api::RuntimeKind::kNative) return;
  const api::Goodput& goodput = write.after.status.goodput;
  const seconds productive{goodput.productive_seconds};
  const auto trained = duration_cast<seconds>(write.truth.trained + write.truth.untold);
  if (productive > trained + kRounding)
    fail("I39",
         in_seconds(productive) + " are productive, of " + in_seconds(trained) + " of new steps");
  const auto found = goodput.lost_by_cause.find(api::lost::kRedone);
  const seconds redone{found == goodput.lost_by_cause.end() ? 0 : found->second};
  if (redone > write.truth.redone + kRounding)
    fail("I39", in_seconds(redone) + " are made again, of " +
                    in_seconds(duration_cast<seconds>(write.truth.redone)));
}

}  // namespace pawl::sim
