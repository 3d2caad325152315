// The leader's half of the decision, alive in the one launcher that the record names: gathers
// members, commits one generation after another, collects shards and publishes checkpoints, reports
// progress, ends the gang. Level-triggered: decide() compares the record with what it should say,
// so a lost or conflicting write is simply decided again. Pure; owned by Membership.
#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "launcher/membership/checkpoint_ledger.h"
#include "launcher/membership/context.h"
#include "launcher/membership/gang_parts.h"
#include "launcher/membership/generations.h"
#include "launcher/membership/loss_ledger.h"
#include "launcher/membership/progress_view.h"
#include "launcher/membership/record_writer.h"

namespace pawl::membership {

class Gang {
 public:
  // The record names us as leader. A generation of this attempt that stands there is taken over.
  Gang(Context& ctx, RecordWriter& writer);

  void on_message(PeerId peer, const Message& message);
  void on_peer_down(PeerId peer, const std::string& why);
  void on_record(std::uint64_t read_id);
  void on_record_gone(const std::string& why);
  void on_selected(const CheckpointSelected& selected);
  void on_published(const PublishDone& done);
  void on_tick();
  void decide();
  void forgive_silence();
  // Another launcher leads now, or our slot has another pod: the members are left to it.
  void dissolve();

  // gang_deputy.cpp: another member leads, as this one does not reach the API server.
  bool is_deposed_by(PeerId peer, const api::WorkerGroup& group) const;
  void follow(PeerId leader);  // tells the others who leads

  bool is_done() const { return stage_ == Stage::kDone; }
  bool lives() const { return stage_ == Stage::kRunning || stage_ == Stage::kReforming; }

 private:
  enum class Stage { kGathering, kRunning, kReforming, kEnding, kDone };

  void on_member_message(Joiner& joiner, const Message& message);

  // gang_members.cpp
  bool is_open() const;
  void on_join(PeerId peer, const Join& join);
  std::optional<Refused> refusal_of(const Join& join) const;
  void drop_older_connections(PeerId peer, const std::string& uid);
  bool is_ours(const Joiner& joiner) const;
  bool owns_rank(const Joiner& joiner, int rank) const;
  api::Failure failure_of(const Joiner& joiner, api::Failure failure) const;
  void lose(PeerId peer, const std::string& why);
  void on_leaving(Joiner& joiner);
  void on_left(Joiner& joiner);
  void end_without_leader(const Joiner& joiner);
  void mark_lost(Joiner& joiner);
  void release_leaving();
  // `with_unwanted`: members that are to go with the next change count, too.
  bool is_held_by_others(const Joiner& leaving, bool with_unwanted) const;
  static bool is_awaited(const Joiner& joiner);
  void take_over();
  void drop_replaced();
  void fill_places();
  void close_places();
  void forget_silence(const std::string& uid);
  bool is_heard(const std::string& uid) const;
  bool is_waiting(const std::string& uid) const;
  bool has_trained_to_end() const;

  // gang_size.cpp
  bool is_wanted(const Joiner& joiner) const;
  bool is_almost_through() const;
  bool has_started() const;  // to train, in this generation
  void reform_for_size();
  void drop_unwanted();
  bool holds_state() const;
  bool is_start_known() const;
  void release_unwanted();
  void add_newcomers();
  std::vector<PeerId> newcomers() const;
  std::vector<PeerId> dropped() const;
  bool has_place(int slot) const;
  bool has_to_go() const;   // the leading launcher
  bool has_to_end() const;  // … and nobody can lead after it
  const Joiner* heir() const;
  bool may_lead(const Joiner& joiner) const;
  void hand_over();

  // gang_elastic.cpp
  template <typename Predicate>
  std::size_t count_members(Predicate predicate) const;
  std::size_t heard_members() const;
  std::size_t least_members() const;  // with fewer it waits
  bool is_elastic() const;            // that is fewer than its target
  bool is_short() const;              // without those that are to go
  bool is_enough() const;
  bool may_go_on() const;
  bool may_begin_with(std::size_t members) const;
  bool has_had_its_time(const Joiner& joiner) const;
  bool is_minority() const;
  bool is_unready(const Joiner& joiner) const;
  bool are_members_ready() const;
  bool is_slow(const Joiner& joiner) const;
  bool is_unproven(const Joiner& joiner) const;
  void leave_out();
  void leave_out(PeerId peer);
  void tell_silence(Joiner& joiner, const std::string& why, const char* cause = "Unknown");
  bool tell_strayed();
  void note_flap(const std::string& node, int weight);
  bool is_held_back(const Joiner& joiner) const;
  void choose_newcomers(std::vector<PeerId>& found, std::size_t missing) const;

  // The joiner for each slot, in the order of slots; empty until the gang may begin.
  std::vector<PeerId> full_gang() const;
  void prepare_commit();
  // True when it is known what storage has to start from.
  bool select_start();
  void propose(const NextStart& start);
  bool is_committed() const;
  bool has_finished() const;
  void enter_running();
  // The lowest that holds the start state; -1: none.
  int source_rank() const;

  // gang_reform.cpp
  void on_process_lost(Joiner& joiner, const api::Failure& failure);
  void on_broken(const Joiner& joiner, const Broken& broken);
  // Nobody is known to have failed where `change` is of a worker that goes or comes.
  void begin_reform(const std::string& why, Change change);
  void break_up(const std::string& why, Change change);
  void park_all();
  void drive_reform();
  void close_reform();
  void settle_places();
  bool is_wrong(const api::Failure& failure) const;
  bool has_told_wrongly() const;
  // `culprit`: who is blamed where nothing is known to have failed.
  void give_up_reform(const std::string& why, const Joiner* culprit = nullptr);
  void give_up_after_deadline();
  bool is_reforming() const;  // until the new generation runs
  bool tells_steps() const;   // or has, in this run
  bool has_got_on() const;    // since the gang was broken last

  // gang_apart.cpp
  void note_unreached(const Joiner& joiner, const Broken& broken);
  void forget_apart();
  bool is_apart(const Apart& pair) const;
  std::string apart_text(const Joiner& joiner) const;
  bool parts();  // true: from a member that others do not reach

  // gang_deputy.cpp
  void seek_deputy();
  void on_api_reached(const Joiner& joiner);

  // gang_foreign.cpp
  void on_program_lost(const api::Failure& failure);
  void note_programs_start();
  std::vector<std::string> program_addresses() const;
  bool is_judging();  // … whose fault that is
  bool gives_up_when_parked();
  bool ends_at_rest();
  void blame_program();
  void note_step(std::int64_t step);
  std::optional<api::Straggler> straggler_of(const api::channel::Report& report) const;
  NextStart start_by_reports() const;
  std::optional<NextStart> best_start();
  std::vector<ParkedReport> reports() const;  // of those who are parked
  bool is_all_accounted() const;
  // A checkpoint is on its way to its manifest, and not waiting for another try.
  bool is_publishing() const { return publishing_ && !publishing_->retry_at; }

  void send_peers();
  void drive_checkpoints();
  void note_checkpoint_failure(std::int64_t step, const std::string& why);
  void drive_requests();
  void drive_success();
  void give_up_save(std::int64_t step, const Joiner& whose, int rank, const std::string& why);
  void drive_end();
  // A higher attempt has a gang, or is asked for.
  bool has_later_gang() const;
  bool is_superseded() const;
  void end(StopReason reason, bool is_saving, const std::string& why);
  void fail_gang(api::Failure failure);
  void remember(api::Failure failure);
  void forget_told_failures();
  bool has_failed() const;
  bool has_culprit() const;
  api::WorkerGroupStatus desired() const;
  void write_if_due();

  void send(PeerId peer, Message message);
  void broadcast(const Message& message);
  bool are_members(bool (*predicate)(const Joiner&)) const;
  Joiner* find(PeerId peer);

  Context& ctx_;
  RecordWriter& writer_;
  Stage stage_ = Stage::kGathering;
  std::map<PeerId, Joiner> joiners_;
  std::vector<PeerId> members_;  // by member rank, as they were last proposed or committed
  std::optional<api::WorkerGroupStatus> proposal_;
  bool is_selecting_ = false, is_selected_ = false;
  CheckpointSelected start_;
  std::optional<SteadyPoint> select_at_;
  NextStart next_;               // of the generation that was proposed or committed last
  std::int64_t generation_ = 0;  // that runs, or ran until now; 0: none yet
  std::string reform_why_;
  bool is_blameless_ = false;  // nobody is known to have failed
  // Until when the generation after a change has to run.
  std::optional<SteadyPoint> reform_deadline_;
  // Since when no step was made: told with the first one of the new generation.
  std::optional<SteadyPoint> broken_since_;
  SteadyPoint running_since_{};   // the generation
  int reforms_ = 0;               // since the last new step
  std::int64_t reformed_at_ = 0;  // the newest confirmed step then
  bool are_peers_sent_ = false;
  SteadyPoint gathers_since_{};
  bool has_left_out_ = false;           // since the gang was broken last
  std::vector<Joiner> strayed_;         // who waited to be let in and is not heard any more
  SteadyPoint joined_at_{};             // when a member was last heard for the first time, or again
  std::map<std::string, Flaps> flaps_;  // by node
  std::vector<Apart> apart_;            // since they were last seen to make a step together
  std::set<std::string> parted_;        // UIDs that are not let in again
  PeerId vacancies_ = 0;
  Deputy deputy_;

  CheckpointLedger ledger_;
  std::optional<Publishing> publishing_;
  std::optional<SaveError> save_error_;              // of the newest step that was given up
  std::optional<api::CheckpointStatus> checkpoint_;  // published by us, newest
  std::optional<api::CheckpointFailures> checkpoint_failures_;  // once one was saved or lost
  std::int64_t failed_step_ = -1;
  ProgressView progress_;
  LossLedger tally_;
  std::int64_t asked_checkpoint_ = 0, asked_at_step_ = 0, checkpoint_done_ = 0;
  bool wants_finished_ = false;

  std::vector<api::Failure> failures_;
  // Ends of other frameworks' programs, by codes of their own, since the gang was broken: no
  // failures where something else was lost that explains them.
  std::vector<api::Failure> program_ends_;
  bool is_explained_ = false, is_program_blamed_ = false;
  StopReason end_reason_ = StopReason::kFailed;
  SteadyPoint ended_at_{}, end_deadline_{};
  SteadyPoint last_write_{};
  bool was_progress_written_ = false;
};

template <typename Predicate>
std::size_t Gang::count_members(Predicate predicate) const {
  const auto count =
      std::ranges::count_if(members_, [&](PeerId peer) { return predicate(joiners_.at(peer)); });
  return static_cast<std::size_t>(count);
}

}  // namespace pawl::membership
