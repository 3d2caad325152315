#include "launcher/membership/loss_ledger.h"

#include <algorithm>
#include <array>

#include "common/api/contract.h"
#include "common/base/mutant.h"

namespace pawl::membership {
namespace {

constexpr std::int64_t kStepMax = 9'007'199'254'740'991,
                       kSecondsMax = 2'147'483'647;  // the schema's

// By Change; the first is no cause of a loss.
constexpr std::array kWords{"Resized",    "WorkerLeft",     "Connection",    "LeaderChanged",
                            "WorkerLost", api::kCauseError, api::kCauseHang, api::kCauseSignal};

}  // namespace

Change change_of(const std::string& cause) {
  if (cause == api::kCauseSignal) return Change::kSignal;
  return cause == api::kCauseHang ? Change::kHang : Change::kFailed;
}

void LossLedger::begin(const api::Tally& known, std::int64_t attempt) {
  known_ = known.time;
  attempt_ = attempt;
}

// What was lost before the first step of an attempt is a part of its start, which the operator
// sees from the beginning.
void LossLedger::on_change(Change change, SteadyPoint now) {
  change_ = std::max(change_.value_or(change), change);
  has_lost_ = has_lost_ || change != Change::kResized;
  if (since_ == Since::kStart) {
    take(productive_, now);
    known_.generation = generation_;
  } else if (since_ == Since::kNothing && known_.attempt == attempt_) {
    mark_ = now;
  }
  // Since the last step: the one that was broken off is lost with it.
  if (known_.attempt == attempt_) since_ = Since::kChange;
}

void LossLedger::on_proposal(SteadyPoint now) {
  if (since_ == Since::kChange) take(has_lost_ ? recovered_ : resized_, now);
}

void LossLedger::count(api::Recoveries& recoveries) const {
  if (is_mutant(Mutant::kI38RecoveryUncounted) && change_ == Change::kLeaderChanged) return;
  const Change change = change_.value_or(Change::kConnection);
  if (change == Change::kResized) {
    ++recoveries.resizes;
    return;
  }
  ++recoveries.in_place;
  ++recoveries.by_cause[kWords[static_cast<std::size_t>(change)]];
}

void LossLedger::on_commit(std::int64_t generation, std::int64_t start_step) {
  change_.reset();
  generation_ = generation;
  step_ = start_step;
}

void LossLedger::take(std::chrono::nanoseconds& account, SteadyPoint now) {
  account += now - mark_;
  mark_ = now;
}

void LossLedger::note_training(SteadyPoint since) {
  if (known_.attempt == attempt_) return;
  trains_since_ = since;
  known_.counted_seconds = sum_of(known_);
  known_.attempt = attempt_;
}

void LossLedger::on_step(std::int64_t step, SteadyPoint now) {
  step = std::clamp<std::int64_t>(step, 0, kStepMax);
  if (since_ == Since::kChange) {
    take(has_lost_ ? recovered_ : resized_, now);
  } else if (since_ == Since::kStart) {
    take(productive_, now);
    known_.generation = generation_;
  } else if (since_ == Since::kStep && step > step_) {
    const std::int64_t made = step - step_;
    const std::int64_t again = std::clamp<std::int64_t>(known_.step - step_, 0, made);
    const auto time = (now - mark_) / made;
    if (!is_mutant(Mutant::kI39RedoneIsNew)) redone_ += time * again;
    productive_ += time * (is_mutant(Mutant::kI39RedoneIsNew) ? made : made - again);
  }
  if (since_ == Since::kStep && step <= step_) return;
  since_ = Since::kStep;
  has_lost_ = false;
  mark_ = now;
  step_ = step;
  known_.step = std::max(known_.step, step);
  note_training(now);
}

void LossLedger::on_programs_start(SteadyPoint now) {
  if (since_ == Since::kStart) return;
  if (since_ == Since::kChange) take(has_lost_ ? recovered_ : resized_, now);
  since_ = Since::kStart;
  has_lost_ = false;
  mark_ = now;
  note_training(now);
}

void LossLedger::on_programs_ran(std::int64_t generation, SteadyPoint since, SteadyPoint now) {
  if (known_.generation >= generation) return;
  known_.generation = generation;
  note_training(since);
  productive_ += now - since;
}

void LossLedger::on_end(SteadyPoint now) {
  if (since_ == Since::kStart) {
    take(productive_, now);
    known_.generation = generation_;
  }
  since_ = Since::kNothing;
}

api::GangTime LossLedger::time(const Now& now) const {
  const auto seconds = [](std::chrono::nanoseconds time) {
    return std::chrono::duration_cast<std::chrono::seconds>(time).count();
  };
  api::GangTime time = known_;
  if (trains_since_)
    time.since =
        now.wall - std::chrono::duration_cast<TimePoint::duration>(now.steady - *trains_since_);
  time.productive_seconds += seconds(productive_);
  const std::array accounts{std::pair{api::lost::kRecovered, recovered_},
                            std::pair{api::lost::kResized, resized_},
                            std::pair{api::lost::kRedone, redone_}};
  for (const auto& [cause, account] : accounts) {
    const std::int64_t more = seconds(account);
    if (more <= 0) continue;
    int& known = time.lost_by_cause[cause];
    known = static_cast<int>(std::min(known + more, kSecondsMax));
  }
  return time;
}

}  // namespace pawl::membership
