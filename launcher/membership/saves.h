// The leader's half of a checkpoint: what the members have sealed becomes one manifest, once every
// rank's shard of a confirmed step is there and the record has been read again after that (the
// fence: still our attempt, our generation, our leadership). Pure; owned by Gang.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "launcher/membership/checkpoint_ledger.h"
#include "launcher/membership/record_writer.h"
#include "launcher/membership/roster.h"

namespace pawl::membership {

class Saves {
 public:
  Saves(Context& ctx, RecordWriter& writer, const Roster& roster)
      : ctx_(ctx), writer_(writer), roster_(roster) {}

  // The record's newest generation runs, or was taken over; its members are in the roster.
  void begin_generation(std::int64_t start_step);
  void on_shard(const ShardDone& shard) { ledger_.add(shard); }
  void on_shard_failed(const ShardFailed& failed, const Joiner& whose);
  void confirm(std::int64_t step) { ledger_.confirm(step); }
  std::int64_t confirmed() const { return ledger_.confirmed(); }

  void on_record(std::uint64_t read_id);
  // True: the members are to hear of it.
  bool on_published(const PublishDone& done);
  void drive();
  void forget_retry();  // of a generation that is over

  // The operator asks for one. True: it is to be passed on to the members.
  bool is_asked_anew() const;
  void note_asked();

  // A checkpoint is on its way to its manifest, …
  bool is_open() const { return publishing_.has_value(); }
  bool is_publishing() const {  // … and not waiting for another try
    return publishing_ && !publishing_->retry_at;
  }
  bool is_storing() const { return is_publishing() && publishing_->is_sent; }
  std::int64_t stored() const { return stored_; }  // the newest step of this generation; -1: none
  int publications() const { return publications_; }  // by us, in all generations
  // The newest state that anybody sealed could not be stored.
  const api::Failure* last_error() const;
  void tell(api::WorkerGroupStatus& status) const;

 private:
  struct Publishing {
    std::int64_t step = 0, generation = 0;
    std::uint64_t read_id = 0;
    bool is_sent = false;
    int tries = 0;
    std::optional<SteadyPoint> retry_at = {};  // the last try has failed
    std::vector<ShardDone> shards = {};        // by rank
  };
  struct SaveError {
    std::int64_t step = 0;
    api::Failure failure;
  };

  void give_up(std::int64_t step, const Joiner& whose, int rank, const std::string& why);
  void note_failure(std::int64_t step, const std::string& why);

  Context& ctx_;
  RecordWriter& writer_;
  const Roster& roster_;
  CheckpointLedger ledger_;
  std::optional<Publishing> publishing_;
  std::optional<SaveError> error_;                   // of the newest step that was given up
  std::optional<api::CheckpointStatus> checkpoint_;  // published by us, newest
  std::optional<api::CheckpointFailures> failures_;  // once one was saved or lost
  std::int64_t failed_step_ = -1, stored_ = -1;
  int publications_ = 0;
  std::int64_t asked_ = 0, asked_at_step_ = 0, done_ = 0;  // done_: what was asked for
};

}  // namespace pawl::membership
