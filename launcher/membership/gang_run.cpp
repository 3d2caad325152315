// The leader while the generation runs: checkpoints, requests of the operator, the record's
// reports, the end.
#include <algorithm>
#include <utility>

#include "common/api/contract.h"
#include "common/base/mutant.h"
#include "launcher/membership/gang.h"

namespace pawl::membership {
namespace {

api::WorkerGroupStatus without_tally(api::WorkerGroupStatus status) {
  status.tally = {};
  return status;
}

}  // namespace

void Gang::decide() {
  if (stage_ == Stage::kGathering && ctx_.record) {
    if (is_committed()) {
      enter_running();
    } else {
      prepare_commit();
    }
  }
  if (stage_ == Stage::kReforming && is_committed()) enter_running();
  if (lives()) drop_replaced();
  if (lives()) release_unwanted();
  if (lives() && roster_.has_to_go()) hand_over();
  if (stage_ == Stage::kRunning) tell_strayed();
  reform_for_size();
  if (stage_ == Stage::kRunning) send_peers();
  if (stage_ == Stage::kReforming && !proposal_) saves_.drive();
  if (is_reforming()) drive_reform();
  if (stage_ == Stage::kRunning) drive_requests();
  if (stage_ == Stage::kRunning || stage_ == Stage::kEnding) saves_.drive();
  if (stage_ == Stage::kRunning) drive_success();
  if (stage_ == Stage::kRunning || stage_ == Stage::kEnding) write_if_due();
  if (stage_ == Stage::kRunning && wants_finished_ && ctx_.record->status.is_finished) {
    broadcast(Goodbye{});
    stage_ = Stage::kDone;
  }
  if (stage_ == Stage::kEnding) drive_end();
}

void Gang::on_record(std::uint64_t read_id) {
  const std::int64_t newest = std::max(ctx_.record->spec.attempt, ctx_.record->status.attempt);
  if (newest > ctx_.id.attempt && !is_mutant(Mutant::kB40OldAttemptStays)) {
    end(StopReason::kStale, false, "attempt " + std::to_string(newest) + " has begun");
  }
  saves_.on_record(read_id);
}

void Gang::on_record_gone(const std::string& why) {
  end(StopReason::kGone, false, "the job is gone: " + why);
}

// All ranks have ended well, or the one that counts. A run whose result is not stored has not: a
// new attempt goes on from the checkpoint before, and saves again.
void Gang::drive_success() {
  if (!roster_.has_finished() || saves_.is_open()) return;
  if (const api::Failure* error = saves_.last_error()) return fail_gang(*error);
  tally_.on_end(ctx_.now.steady);
  wants_finished_ = true;
}

void Gang::on_published(const PublishDone& done) {
  if (saves_.on_published(done)) broadcast(Published{done.step});
}

void Gang::drive_requests() {
  const api::WorkerGroupSpec& spec = ctx_.record->spec;
  if (is_reforming()) return;  // then it can save again
  if (spec.is_stopping) {
    end(StopReason::kSuspended, true, "the job is suspended");
    return;
  }
  if (roster_.has_to_end() || is_last_) {
    end(StopReason::kDrained, true, "the leading launcher was told to terminate");
    return;
  }
  // What another framework saves is not seen here: it is asked, and checkpoint_done stays.
  const bool can_be_asked = are_peers_sent_ || !ctx_.keeps_processes();
  if (!saves_.is_asked_anew() || !can_be_asked) return;
  saves_.note_asked();
  broadcast(AskCheckpoint{});
}

// ---- the end

void Gang::fail_gang(api::Failure failure) {
  const std::string why = failure.pod + ": " + failure.message;
  remember(std::move(failure));
  end(StopReason::kFailed, false, why);
}

// Where a commit is under way it is the new generation's: that one has not outlived it.
std::int64_t Gang::generation_of_failures() const {
  return proposal_ ? proposal_->generation : roster_.generation;
}

void Gang::remember(api::Failure failure) {
  failures_.add(std::move(failure), generation_of_failures());
}

void Gang::end(StopReason reason, bool is_saving, const std::string& why) {
  if (stage_ == Stage::kEnding || stage_ == Stage::kDone) return;
  stage_ = Stage::kEnding;
  end_reason_ = reason;
  tally_.on_end(ctx_.now.steady);
  const auto& timings = ctx_.timings;
  ended_at_ = ctx_.now.steady;
  end_deadline_ = ended_at_ + timings.kill_grace + timings.goodbye_max +
                  (is_saving ? timings.save_grace : std::chrono::milliseconds{0});
  ctx_.note("gang_ends", std::string{stop_reason_name(reason)} + ": " + why);
  broadcast(StopGang{reason, is_saving, why, is_program_blamed_});
}

void Gang::drive_end() {
  // Nothing of a gone job may be published or written any more, nor when another gang runs.
  const bool is_void = end_reason_ == StopReason::kGone || ctx_.has_later_gang();
  const bool have_left = std::ranges::all_of(roster_.joiners, [this](const auto& entry) {
    return entry.second.has_left || entry.second.is_lost || !roster_.is_ours(entry.second);
  });
  // Once another attempt is asked for, the API server takes no word of this one.
  const bool is_written =
      ctx_.is_superseded() ||
      (writer_.is_free() && without_tally(desired()) == without_tally(ctx_.record->status));
  const bool knows_culprit = !failures_.has_failed(roster_.generation) ||
                             failures_.has_culprit(roster_.generation) ||
                             ctx_.now.steady - ended_at_ >= ctx_.timings.culprit_wait;
  const bool is_settled = have_left && !saves_.is_open() && is_written && knows_culprit;
  if (is_void || is_settled || ctx_.now.steady >= end_deadline_) stage_ = Stage::kDone;
}

// ---- the record

api::WorkerGroupStatus Gang::desired() const {
  api::WorkerGroupStatus next = ctx_.record->status;
  if (progress_.value()) next.progress = progress_.value();
  saves_.tell(next);
  next.is_finished = next.is_finished || wants_finished_;
  raise(next.tally.time, tally_.time(ctx_.now));
  // Victims are only of interest when nobody turns out to be the cause. Who was not heard for a
  // while and is back is not to be replaced.
  const bool is_waiting = ctx_.now.steady - ended_at_ < ctx_.timings.culprit_wait;
  failures_.tell(next.failures, !failures_.has_culprit(roster_.generation) && !is_waiting,
                 [this](const api::Failure& failure) { return is_wrong(failure); });
  return next;
}

// At once for what users and the operator wait for; progress alone only each reportSeconds; the
// tally with what is written anyway.
void Gang::write_if_due() {
  if (!writer_.is_free() || !ctx_.is_leader()) return;
  if (end_reason_ == StopReason::kGone || ctx_.is_superseded() || ctx_.has_later_gang()) return;
  api::WorkerGroupStatus next = desired();
  const api::WorkerGroupStatus& now = ctx_.record->status;
  const bool has_news = next.progress != now.progress;
  const std::chrono::seconds every{std::max(ctx_.record->spec.report_seconds, 1)};
  const bool is_due = has_news && (!was_progress_written_ || stage_ == Stage::kEnding ||
                                   ctx_.now.steady - last_write_ >= every);
  api::WorkerGroupStatus rest = next;
  rest.progress = now.progress;
  rest.tally = now.tally;
  if (!is_due && rest == now) return;
  was_progress_written_ = was_progress_written_ || has_news;
  last_write_ = ctx_.now.steady;
  writer_.write(std::move(next));
}

}  // namespace pawl::membership
