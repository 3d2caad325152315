// The leader while the generation runs: checkpoints, requests of the operator, the record's
// reports, the end.
#include <algorithm>
#include <utility>

#include "common/api/contract.h"
#include "common/base/mutant.h"
#include "launcher/membership/gang.h"

namespace pawl::membership {
namespace {

constexpr std::size_t kFailuresMax = 16;

bool is_same(const api::Failure& a, const api::Failure& b) {
  return a.attempt == b.attempt && a.generation == b.generation && a.pod_uid == b.pod_uid &&
         a.rank == b.rank && a.cause == b.cause;
}

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
  if (lives() && has_to_go()) hand_over();
  if (stage_ == Stage::kRunning) tell_strayed();
  reform_for_size();
  if (stage_ == Stage::kRunning) send_peers();
  if (stage_ == Stage::kReforming && !proposal_) drive_checkpoints();
  if (is_reforming()) drive_reform();
  if (stage_ == Stage::kRunning) drive_requests();
  if (stage_ == Stage::kRunning || stage_ == Stage::kEnding) drive_checkpoints();
  if (stage_ == Stage::kRunning) drive_success();
  if (stage_ == Stage::kRunning || stage_ == Stage::kEnding) write_if_due();
  if (stage_ == Stage::kRunning && wants_finished_ && ctx_.record->status.is_finished) {
    broadcast(Goodbye{});
    stage_ = Stage::kDone;
  }
  if (stage_ == Stage::kEnding) drive_end();
}

bool Gang::has_finished() const {
  for (std::size_t rank = 0; rank < members_.size(); ++rank) {
    const bool is_first = rank == 0;
    if (!is_first && ctx_.record->spec.is_rank0_enough) break;
    if (!is_first && ctx_.is_parameter_server(static_cast<int>(rank), members_.size())) break;
    const auto joiner = joiners_.find(members_[rank]);
    if (joiner == joiners_.end() || !joiner->second.is_finished) return false;
  }
  return !members_.empty();
}

void Gang::on_record(std::uint64_t read_id) {
  const std::int64_t newest = std::max(ctx_.record->spec.attempt, ctx_.record->status.attempt);
  if (newest > ctx_.id.attempt && !is_mutant(Mutant::kB40OldAttemptStays)) {
    end(StopReason::kStale, false, "attempt " + std::to_string(newest) + " has begun");
  }
  // An attempt that is only asked for has no gang yet, and gets none while this pod lives; what is
  // sealed here is still the newest of the run. Once it has one, nothing of ours is published.
  if (has_later_gang()) return publishing_.reset();
  if (!publishing_ || publishing_->is_sent || publishing_->retry_at) return;
  if (read_id < publishing_->read_id) return;
  // The fence before the manifest: still our attempt, our generation, our leadership.
  const bool is_ours =
      ctx_.is_leader() && ctx_.record->status.generation == publishing_->generation;
  if (!is_ours) {
    ctx_.note("publication_refused", "the record has moved on", true);
    publishing_.reset();
    return;
  }
  publishing_->is_sent = true;
  if (publishing_->shards.empty()) publishing_->shards = ledger_.take(publishing_->step);
  const std::vector<ShardDone>& shards = publishing_->shards;
  ctx_.act(PublishCheckpoint{publishing_->step, ctx_.id.attempt, publishing_->generation,
                             static_cast<int>(shards.size()), shards.front().manifest_json, shards,
                             ctx_.record->status.lineage});
}

bool Gang::has_later_gang() const { return ctx_.record->status.attempt > ctx_.id.attempt; }
bool Gang::is_superseded() const { return ctx_.record->spec.attempt > ctx_.id.attempt; }

void Gang::on_record_gone(const std::string& why) {
  end(StopReason::kGone, false, "the job is gone: " + why);
}

void Gang::drive_checkpoints() {
  for (const std::int64_t lost : ledger_.take_lost()) {
    ctx_.act(DiscardCheckpoint{lost, ctx_.id.attempt, generation_});
  }
  const auto step = ledger_.publishable();
  if (is_publishing()) return;
  if (step) {  // newer than one that waits for another try
    publishing_ = Publishing{*step, generation_, writer_.ask_for_record()};
  } else if (publishing_ && ctx_.now.steady >= *publishing_->retry_at) {
    publishing_->retry_at.reset();
    publishing_->is_sent = false;
    publishing_->read_id = writer_.ask_for_record();
  }
}

void Gang::give_up_save(std::int64_t step, const Joiner& whose, int rank, const std::string& why) {
  ctx_.note("checkpoint_lost", "step " + std::to_string(step) + ": " + why, true);
  note_checkpoint_failure(step, why);
  if (save_error_ && save_error_->step > step) return;
  api::Failure failure{.rank = rank,
                       .node = whose.join.node,
                       .cause = "Error",
                       .message = "the checkpoint of step " + std::to_string(step) +
                                  ", the last one, could not be stored: " + why,
                       .time = ctx_.now.wall};
  save_error_ = SaveError{step, failure_of(whose, std::move(failure))};
}

void Gang::on_published(const PublishDone& done) {
  if (!publishing_ || !publishing_->is_sent || publishing_->step != done.step) return;
  if (!done.error.empty()) {
    ctx_.note("checkpoint_failed", "step " + std::to_string(done.step) + ": " + done.error, true);
    const bool is_current = publishing_->generation == generation_;
    if (is_current && ++publishing_->tries < ctx_.timings.save_tries) {
      publishing_->retry_at =
          ctx_.now.steady + ctx_.timings.save_retry_first * (1 << (publishing_->tries - 1));
      return;
    }
    give_up_save(done.step, joiners_.at(kSelfPeer), -1, done.error);
    publishing_.reset();
    return;
  }
  publishing_.reset();
  checkpoint_failures_ = api::CheckpointFailures{};
  api::CheckpointStatus checkpoint = done.checkpoint;
  const auto& before = checkpoint_ ? checkpoint_ : ctx_.record->status.checkpoint;
  checkpoint.count = (before ? before->count : 0) + 1;
  checkpoint.time = ctx_.now.wall;
  checkpoint_ = std::move(checkpoint);
  if (asked_checkpoint_ > checkpoint_done_ && done.step > asked_at_step_) {
    checkpoint_done_ = asked_checkpoint_;
  }
  broadcast(Published{done.step});
}

// All ranks have ended well, or the one that counts. A run whose result is not stored has not: a
// new attempt goes on from the checkpoint before, and saves again.
void Gang::drive_success() {
  if (!has_finished() || publishing_) return;
  if (save_error_ && save_error_->step >= ledger_.newest()) return fail_gang(save_error_->failure);
  tally_.on_end(ctx_.now.steady);
  wants_finished_ = true;
}

// Once a step, though every rank may have failed to write its shard.
void Gang::note_checkpoint_failure(std::int64_t step, const std::string& why) {
  if (step == failed_step_) return;
  failed_step_ = step;
  const auto& before =
      checkpoint_failures_ ? *checkpoint_failures_ : ctx_.record->status.checkpoint_failures;
  const bool is_too_long = std::cmp_greater(why.size(), api::kMessageBytesMax / 2);
  checkpoint_failures_ = api::CheckpointFailures{
      before.count + 1, "step " + std::to_string(step) + ": " + (is_too_long ? "(too long)" : why),
      ctx_.now.wall};
}

void Gang::drive_requests() {
  const api::WorkerGroupSpec& spec = ctx_.record->spec;
  if (is_reforming()) return;  // then it can save again
  if (spec.is_stopping) {
    end(StopReason::kSuspended, true, "the job is suspended");
    return;
  }
  if (has_to_end()) {
    end(StopReason::kDrained, true, "the leading launcher was told to terminate");
    return;
  }
  // What another framework saves is not seen here: it is asked, and checkpoint_done stays.
  const bool can_be_asked = are_peers_sent_ || !ctx_.keeps_processes();
  if (spec.checkpoint_now <= asked_checkpoint_ || !can_be_asked) return;
  asked_checkpoint_ = spec.checkpoint_now;
  asked_at_step_ = ledger_.confirmed();
  broadcast(AskCheckpoint{});
}

// ---- the end

void Gang::fail_gang(api::Failure failure) {
  const std::string why = failure.pod + ": " + failure.message;
  remember(std::move(failure));
  end(StopReason::kFailed, false, why);
}

void Gang::remember(api::Failure failure) {
  // Another launcher's words must not be able to make the record unwritable.
  if (std::cmp_greater(failure.message.size(), api::kMessageBytesMax))
    failure.message = "(message too long)";
  // Where a commit is under way it is the new generation's: that one has not outlived it.
  failure.generation = proposal_ ? proposal_->generation : generation_;
  if (std::cmp_greater(failure.log_tail.size(), api::kLogTailBytesMax)) failure.log_tail.clear();
  // The first ones tell what happened, and the record has room for so many.
  const bool is_victim = failure.cause == "Victim";
  const auto alike = std::ranges::count_if(
      failures_, [&](const api::Failure& known) { return (known.cause == "Victim") == is_victim; });
  if (std::cmp_less(alike, kFailuresMax)) failures_.push_back(std::move(failure));
}

// What stands in the record is not said again, however many have pushed it out since.
void Gang::forget_told_failures() {
  std::erase_if(failures_, [this](const api::Failure& failure) {
    return failure.generation < generation_ &&
           std::ranges::any_of(
               ctx_.record->status.failures,
               [&](const api::Failure& known) { return is_same(known, failure); });
  });
}

// What the gang has outlived is no cause of its end.
bool Gang::has_failed() const {
  return std::ranges::any_of(
      failures_, [this](const api::Failure& failure) { return failure.generation >= generation_; });
}

bool Gang::has_culprit() const {
  return std::ranges::any_of(failures_, [this](const api::Failure& failure) {
    return failure.generation >= generation_ && failure.cause != "Victim";
  });
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
  const bool is_void = end_reason_ == StopReason::kGone || has_later_gang();
  const bool have_left = std::ranges::all_of(joiners_, [this](const auto& entry) {
    return entry.second.has_left || entry.second.is_lost || !is_ours(entry.second);
  });
  // Once another attempt is asked for, the API server takes no word of this one.
  const bool is_written =
      is_superseded() ||
      (writer_.is_free() && without_tally(desired()) == without_tally(ctx_.record->status));
  const bool knows_culprit =
      !has_failed() || has_culprit() || ctx_.now.steady - ended_at_ >= ctx_.timings.culprit_wait;
  const bool is_settled = have_left && !publishing_ && is_written && knows_culprit;
  if (is_void || is_settled || ctx_.now.steady >= end_deadline_) stage_ = Stage::kDone;
}

// ---- the record

api::WorkerGroupStatus Gang::desired() const {
  api::WorkerGroupStatus next = ctx_.record->status;
  if (progress_.value()) next.progress = progress_.value();
  if (checkpoint_) next.checkpoint = checkpoint_;
  if (checkpoint_failures_) next.checkpoint_failures = *checkpoint_failures_;
  next.checkpoint_done = std::max(next.checkpoint_done, checkpoint_done_);
  next.is_finished = next.is_finished || wants_finished_;
  raise(next.tally.time, tally_.time());
  // Who was not heard for a while and is back is not to be replaced.
  std::erase_if(next.failures, [this](const api::Failure& failure) { return is_wrong(failure); });
  // Victims are only of interest when nobody turns out to be the cause.
  const bool is_waiting = ctx_.now.steady - ended_at_ < ctx_.timings.culprit_wait;
  for (const api::Failure& failure : failures_) {
    if (failure.cause == "Victim" && (has_culprit() || is_waiting)) continue;
    if (is_wrong(failure)) continue;
    const bool is_known = std::ranges::any_of(
        next.failures, [&](const api::Failure& known) { return is_same(known, failure); });
    if (!is_known) next.failures.push_back(failure);
  }
  if (next.failures.size() > kFailuresMax) {
    next.failures.erase(next.failures.begin(),
                        next.failures.end() - static_cast<std::ptrdiff_t>(kFailuresMax));
  }
  return next;
}

// At once for what users and the operator wait for; progress alone only each reportSeconds; the
// tally with what is written anyway.
void Gang::write_if_due() {
  if (!writer_.is_free() || !ctx_.is_leader()) return;
  if (end_reason_ == StopReason::kGone || is_superseded() || has_later_gang()) return;
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
