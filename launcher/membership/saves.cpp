#include "launcher/membership/saves.h"

#include <algorithm>
#include <utility>

#include "common/api/contract.h"

namespace pawl::membership {

void Saves::begin_generation(std::int64_t start_step) {
  ledger_.begin_generation(static_cast<int>(roster_.members.size()) * ctx_.id.processes,
                           start_step);
  asked_ = done_ = ctx_.record->status.checkpoint_done;
  stored_ = -1;
}

void Saves::on_shard_failed(const ShardFailed& failed, const Joiner& whose) {
  give_up(failed.step, whose, failed.rank, failed.why);
  ledger_.drop(failed.step, failed.rank);
}

void Saves::on_record(std::uint64_t read_id) {
  // An attempt that is only asked for has no gang yet, and gets none while this pod lives; what is
  // sealed here is still the newest of the run. Once it has one, nothing of ours is published.
  if (ctx_.has_later_gang()) return publishing_.reset();
  if (!publishing_ || publishing_->is_sent || publishing_->retry_at) return;
  if (read_id < publishing_->read_id) return;
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

bool Saves::on_published(const PublishDone& done) {
  if (!publishing_ || !publishing_->is_sent || publishing_->step != done.step) return false;
  if (!done.error.empty()) {
    ctx_.note("checkpoint_failed", "step " + std::to_string(done.step) + ": " + done.error, true);
    const bool is_current = publishing_->generation == roster_.generation;
    if (is_current && ++publishing_->tries < ctx_.timings.save_tries) {
      publishing_->retry_at =
          ctx_.now.steady + ctx_.timings.save_retry_first * (1 << (publishing_->tries - 1));
      return false;
    }
    give_up(done.step, roster_.joiners.at(kSelfPeer), -1, done.error);
    publishing_.reset();
    return false;
  }
  if (publishing_->generation == roster_.generation) stored_ = done.step;
  ++publications_;
  publishing_.reset();
  failures_ = api::CheckpointFailures{};
  api::CheckpointStatus checkpoint = done.checkpoint;
  const auto& before = checkpoint_ ? checkpoint_ : ctx_.record->status.checkpoint;
  checkpoint.count = (before ? before->count : 0) + 1;
  checkpoint.time = ctx_.now.wall;
  checkpoint_ = std::move(checkpoint);
  if (asked_ > done_ && done.step > asked_at_step_) done_ = asked_;
  return true;
}

void Saves::drive() {
  for (const std::int64_t lost : ledger_.take_lost()) {
    ctx_.act(DiscardCheckpoint{lost, ctx_.id.attempt, roster_.generation});
  }
  const auto step = ledger_.publishable();
  if (is_publishing()) return;
  if (step) {  // newer than one that waits for another try
    publishing_ = Publishing{*step, roster_.generation, writer_.ask_for_record()};
  } else if (publishing_ && ctx_.now.steady >= *publishing_->retry_at) {
    publishing_->retry_at.reset();
    publishing_->is_sent = false;
    publishing_->read_id = writer_.ask_for_record();
  }
}

void Saves::forget_retry() {
  if (publishing_ && !is_publishing()) publishing_.reset();
}

void Saves::give_up(std::int64_t step, const Joiner& whose, int rank, const std::string& why) {
  ctx_.note("checkpoint_lost", "step " + std::to_string(step) + ": " + why, true);
  note_failure(step, why);
  if (error_ && error_->step > step) return;
  api::Failure failure{.rank = rank,
                       .node = whose.join.node,
                       .cause = api::kCauseError,
                       .message = "the checkpoint of step " + std::to_string(step) +
                                  ", the last one, could not be stored: " + why,
                       .time = ctx_.now.wall};
  error_ = SaveError{step, roster_.failure_of(whose, std::move(failure))};
}

// Once a step, though every rank may have failed to write its shard.
void Saves::note_failure(std::int64_t step, const std::string& why) {
  if (step == failed_step_) return;
  failed_step_ = step;
  const auto& before = failures_ ? *failures_ : ctx_.record->status.checkpoint_failures;
  const bool is_too_long = std::cmp_greater(why.size(), api::kMessageBytesMax / 2);
  failures_ = api::CheckpointFailures{
      before.count + 1, "step " + std::to_string(step) + ": " + (is_too_long ? "(too long)" : why),
      ctx_.now.wall};
}

bool Saves::is_asked_anew() const { return ctx_.record->spec.checkpoint_now > asked_; }

void Saves::note_asked() {
  asked_ = ctx_.record->spec.checkpoint_now;
  asked_at_step_ = ledger_.confirmed();
}

const api::Failure* Saves::last_error() const {
  return error_ && error_->step >= ledger_.newest() ? &error_->failure : nullptr;
}

void Saves::tell(api::WorkerGroupStatus& status) const {
  if (checkpoint_) status.checkpoint = checkpoint_;
  if (failures_) status.checkpoint_failures = *failures_;
  status.checkpoint_done = std::max(status.checkpoint_done, done_);
}

}  // namespace pawl::membership
