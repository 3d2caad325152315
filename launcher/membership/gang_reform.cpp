// The leader when a process is lost or a collective fails: all members park and report, and the
// next generation goes on from the best state that is held (design §5, rules 2, 3 and 6).
#include <algorithm>
#include <utility>

#include "common/api/contract.h"
#include "launcher/membership/gang.h"

namespace pawl::membership {

void Gang::on_process_lost(Joiner& joiner, const api::Failure& failure) {
  joiner.ready.reset();
  joiner.parked.reset();  // of what it reported, a part is gone
  // The failure policy may have been edited since its launcher looked.
  const bool is_judged = !ctx_.keeps_processes() && !was_killed(failure);
  if (!ctx_.record->spec.is_in_place && !is_judged) return fail_gang(failure);
  if (!ctx_.keeps_processes()) return on_program_lost(failure);
  remember(failure);
  if (stage_ != Stage::kRunning && stage_ != Stage::kReforming) return;
  if (std::exchange(joiner.lost_in, roster_.generation) == roster_.generation)
    return begin_reform(failure.message, change_of(failure.cause));
  if (saves_.confirmed() > joiner.lost_at || has_stored_since(joiner.stored_then))
    joiner.losses = 0;
  joiner.lost_at = saves_.confirmed();
  joiner.stored_then = saves_.publications();
  if (++joiner.losses > ctx_.timings.reforms_max) {
    give_up_reform("the processes of " + joiner.join.pod + " were killed " +
                   std::to_string(joiner.losses) + " times without a new step");
    return;
  }
  begin_reform(failure.message, change_of(failure.cause));
}

void Gang::on_broken(const Joiner& joiner, const Broken& broken) {
  if (broken.generation != roster_.generation) return;
  if (broken.unreached_rank >= 0) note_unreached(joiner, broken);
  if (stage_ == Stage::kRunning)
    begin_reform(joiner.join.pod + ": " + broken.why, Change::kConnection);
}

void Gang::begin_reform(const std::string& why, Change change) {
  is_explained_ = true;  // whatever a foreign program says of its own end
  break_up(why, change);
}

void Gang::break_up(const std::string& why, Change change) {
  const bool is_running = stage_ == Stage::kRunning && !roster_.has_finished();
  if (is_running || stage_ == Stage::kReforming) tally_.on_change(change, ctx_.now.steady);
  if (!is_running) return;
  const bool is_blameless = change <= Change::kWorkerLeft;
  is_blameless_ = is_blameless;
  has_left_out_ = false;
  save_first_.forget();
  for (const PeerId peer : roster_.members) {
    Joiner& joiner = roster_.joiners.at(peer);
    joiner.is_new = joiner.is_new && saves_.confirmed() <= next_.step;
  }
  // A drain or another size says nothing of a foreign program.
  const bool is_trouble = ctx_.keeps_processes() || !is_blameless;
  reforms_ = has_got_on() ? 1 : reforms_ + (is_trouble ? 1 : 0);
  reformed_at_ = std::max(reformed_at_, saves_.confirmed());
  reformed_with_ = saves_.publications();
  reform_why_ = why;
  stage_ = Stage::kReforming;
  if (reforms_ > ctx_.timings.reforms_max && (ctx_.keeps_processes() || is_explained_)) {
    give_up_reform(std::to_string(reforms_) + " times in a row without a new step");
    return;
  }
  reform_deadline_ = ctx_.now.steady + ctx_.timings.reform_max;
  start_.forget();
  if (!broken_since_) broken_since_ = ctx_.now.steady;
  ctx_.note("gang_parks", "confirmed step " + std::to_string(saves_.confirmed()) + "; " + why,
            true);
  park_all();
}

void Gang::park_all() {
  proposal_.reset();
  const bool is_calm = is_blameless_ && roster_.count_members(&Joiner::is_awaited) == 0;
  for (const PeerId peer : roster_.members) {
    Joiner& joiner = roster_.joiners.at(peer);
    joiner.parked.reset();
    if (!joiner.is_lost) send(peer, Park{roster_.generation, is_calm});
  }
}

// The failure that began it is the cause of the end then; without one nobody is to blame.
void Gang::give_up_reform(const std::string& why, const Joiner* culprit) {
  const std::string text = "the gang was broken (" + reform_why_ + "): " + why;
  if (!is_explained_) blame_program();
  if (failures_.has_failed(roster_.generation)) return end(StopReason::kFailed, false, text);
  const bool is_networks = !apart_.is_empty();  // fault
  if ((is_blameless_ || is_networks) && culprit == nullptr)
    return end(StopReason::kDrained, false, text);
  api::Failure failure{.cause = api::kCauseUnknown,
                       .message = text,
                       .attempt = ctx_.id.attempt,
                       .time = ctx_.now.wall};
  fail_gang(culprit != nullptr ? roster_.failure_of(*culprit, std::move(failure))
                               : std::move(failure));
}

void Gang::note_step(std::int64_t step) {
  if (ctx_.keeps_processes() && step <= next_.step) return;
  tally_.on_step(step, ctx_.now.steady);
  if (step > next_.step) apart_.forget();
  if (!broken_since_ || step <= next_.step) return;
  const auto time =
      std::chrono::duration_cast<std::chrono::milliseconds>(ctx_.now.steady - *broken_since_);
  broken_since_.reset();
  ctx_.note("generation_runs", "generation " + std::to_string(roster_.generation) + " made step " +
                                   std::to_string(step) + ", " + std::to_string(time.count()) +
                                   " ms after the one before it was broken");
}

// Steps that are made again are not new; where no memory outlives a loss, what is stored of them is
// a gain.
bool Gang::has_stored_since(int publications) const {
  return roster_.holds_parts() && saves_.publications() > publications;
}

bool Gang::has_got_on() const {
  if (has_stored_since(reformed_with_)) return true;
  if (ctx_.keeps_processes() || saves_.confirmed() > 0) return saves_.confirmed() > reformed_at_;
  return ctx_.now.steady - running_since_ >= ctx_.timings.foreign_proven;
}

bool Gang::tells_steps() const {
  return ctx_.keeps_processes() || progress_.value() || ctx_.record->status.progress;
}

bool Gang::is_reforming() const {
  return stage_ == Stage::kReforming || (stage_ == Stage::kRunning && reform_deadline_);
}

void Gang::drive_reform() {
  if (ends_at_rest()) return;
  if (stage_ == Stage::kReforming) {
    if (roster_.has_trained_to_end()) {
      if (writer_.is_free()) fill_places();
      return close_reform();
    }
    settle_places();
  }
  const bool are_parked =
      stage_ == Stage::kReforming && roster_.are_members([](const Joiner& joiner) {
        return joiner.parked.has_value() && !joiner.is_released;
      });
  if (are_parked && ctx_.record->status.generation > roster_.generation) {
    // A write of ours that had been given up was applied all the same: what was promised is void.
    roster_.generation = ctx_.record->status.generation;
    return park_all();
  }
  if (are_parked && (is_judging() || gives_up_when_parked() || parts())) return;
  // Those that are not up yet are left out after a while, where somebody holds the state.
  const bool is_unready = is_enough() && roster_.holds_state() && !roster_.are_members_ready();
  const bool is_waiting = !may_go_on() || is_unready;
  const auto start = are_parked && !is_waiting ? best_start() : std::nullopt;
  // An API server that is away is waited for, with the state in memory; nobody else is for ever.
  if (!start && ctx_.now.steady >= *reform_deadline_) return give_up_after_deadline();
  if (start && writer_.is_free() && ctx_.is_leader()) propose(*start);
}

// Where one has passed the closing barrier all have, and end well, but for those that the order
// found before it.
void Gang::close_reform() {
  // Nobody comes in any more.
  std::erase_if(roster_.members, [this](PeerId peer) {
    Joiner& joiner = roster_.joiners.at(peer);
    if (joiner.is_newcomer) joiner.member_rank = -1;
    return joiner.is_newcomer;
  });
  if (roster_.has_finished()) {
    stage_ = Stage::kRunning;
    reform_deadline_.reset();
    return;
  }
  const bool cannot_end = roster_.count_members([this](const Joiner& joiner) {
    const bool has_rested = joiner.parked && joiner.parked->has_rested;
    const bool is_gone = joiner.is_lost && ctx_.now.steady >= joiner.rejoin_by;
    return !joiner.is_finished && (has_rested || is_gone);
  }) > 0;
  if (cannot_end) return give_up_reform("a rank had trained to the end already");
  if (ctx_.now.steady >= *reform_deadline_) give_up_after_deadline();
}

// A place that is empty is waited for as long as it takes: to begin again would need the same pod,
// and the state in memory would be gone. The operator learns of the loss from the pod, or from the
// record where the pod looks well.
void Gang::settle_places() {
  if (writer_.is_free()) {  // what is being written names who has the places now
    drop_unwanted();
    fill_places();
    add_newcomers();
    drop_surplus();
    if (ctx_.record->spec.is_stopping || roster_.has_to_end()) {
      close_places();  // all go together, and save
    } else {
      release_leaving();
      leave_out();
    }
  }
  if (!may_go_on()) reform_deadline_ = ctx_.now.steady + ctx_.timings.reform_max;
  bool is_late = has_told_wrongly();
  is_late = tell_strayed() || is_late;
  for (const PeerId peer : roster_.members) {
    Joiner& joiner = roster_.joiners.at(peer);
    if (!joiner.is_awaited()) continue;
    reform_deadline_ = ctx_.now.steady + ctx_.timings.reform_max;
    if (ctx_.now.steady - joiner.lost_since < ctx_.timings.loss_told_wait) continue;
    is_late = true;
    tell_silence(joiner, "not heard by the new leader");
  }
  if (is_late) write_if_due();
}

// It names somebody as silent who is heard again: the operator must not act on it.
bool Gang::is_wrong(const api::Failure& failure) const {
  if (!lives() || failure.attempt != ctx_.id.attempt || !is_silence(failure)) return false;
  return roster_.is_waiting(failure.pod_uid) ||
         (failure.generation == roster_.generation && roster_.is_heard(failure.pod_uid));
}

bool Gang::has_told_wrongly() const {
  return std::ranges::any_of(ctx_.record->status.failures,
                             [this](const api::Failure& failure) { return is_wrong(failure); });
}

void Gang::give_up_after_deadline() {
  std::string silent;
  const Joiner* first_silent = nullptr;
  for (const PeerId peer : roster_.members) {
    const Joiner& joiner = roster_.joiners.at(peer);
    if (joiner.is_finished) continue;
    const bool is_there =
        stage_ == Stage::kReforming ? joiner.parked.has_value() : joiner.ready.has_value();
    if (is_there) continue;
    silent += (silent.empty() ? "" : ", ") + joiner.join.pod;
    if (first_silent == nullptr) first_silent = &joiner;
  }
  const auto limit = std::chrono::duration_cast<std::chrono::seconds>(ctx_.timings.reform_max);
  give_up_reform("it could not go on within " + std::to_string(limit.count()) + " s, and did not " +
                     (silent.empty() ? "get an answer from its storage: see that the checkpoint "
                                       "volume or bucket can be read"
                                     : "hear from " + silent),
                 first_silent);
}

// Of what is held and what is stored.
std::optional<NextStart> Gang::best_start() {
  const NextStart start = roster_.start_by_reports();
  if (start.source == Source::kMemory) return start;
  // What is being stored or published may be the newest that there is.
  const bool is_writing =
      !roster_.are_members([](const Joiner& joiner) { return !joiner.parked->is_writing; });
  if (start.source == Source::kWait || is_writing || saves_.is_open()) return std::nullopt;
  if (!start_.select()) return std::nullopt;
  if (start.base > 0 && start.step > start_.chosen().step) return start;
  return NextStart{Source::kStorage, 0, start_.chosen().step};
}

}  // namespace pawl::membership
