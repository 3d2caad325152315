// The leader's half of the decision, alive in the one launcher that the record names: gathers
// members, commits one generation after another, collects shards and publishes checkpoints, reports
// progress, ends the gang. Level-triggered: decide() compares the record with what it should say,
// so a lost or conflicting write is simply decided again. Pure; owned by Membership.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/api/contract.h"
#include "launcher/membership/apart_ledger.h"
#include "launcher/membership/failure_log.h"
#include "launcher/membership/flap_ledger.h"
#include "launcher/membership/loss_ledger.h"
#include "launcher/membership/progress_view.h"
#include "launcher/membership/record_writer.h"
#include "launcher/membership/roster.h"
#include "launcher/membership/save_first.h"
#include "launcher/membership/saves.h"
#include "launcher/membership/start_choice.h"

namespace pawl::membership {

class Gang {
 public:
  // The record names us as leader. A generation of this attempt that stands there is taken over.
  Gang(Context& ctx, RecordWriter& writer);

  void on_message(PeerId peer, const Message& message);
  void on_peer_down(PeerId peer, const std::string& why);
  void on_record(std::uint64_t read_id);
  void on_record_gone(const std::string& why);
  void on_selected(const CheckpointSelected& selected) { start_.on_selected(selected); }
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
  void send(PeerId peer, Message message);
  void broadcast(const Message& message);

  // gang.cpp: the commit
  // The joiner for each slot, in the order of slots; empty until the gang may begin.
  std::vector<PeerId> full_gang() const;
  void prepare_commit();
  void propose(const NextStart& start);
  bool is_committed() const;
  void enter_running();
  void send_peers();

  // gang_members.cpp
  bool is_open() const;
  void on_join(PeerId peer, const Join& join);
  std::optional<Refused> refusal_of(const Join& join) const;
  void drop_older_connections(PeerId peer, const std::string& uid);
  void lose(PeerId peer, const std::string& why);
  void on_leaving(Joiner& joiner);
  void on_left(Joiner& joiner);
  void end_without_leader(const Joiner& joiner);
  void mark_lost(Joiner& joiner);
  void release_leaving();
  void take_over();
  void drop_replaced();
  void fill_places();
  void close_places();

  // gang_size.cpp
  bool is_almost_through() const;
  bool has_started() const;  // to train, in this generation
  // Asks for a checkpoint where one is due first. True: a change that can wait may begin.
  bool save_before_change();
  void reform_for_size();
  std::optional<std::pair<std::string, Change>> change_of_size() const;
  void drop_unwanted();
  void release_unwanted();
  void add_newcomers();
  std::vector<PeerId> newcomers() const;
  void hand_over();

  // gang_elastic.cpp
  bool is_enough() const;
  bool is_too_small() const;
  bool may_go_on() const;
  bool may_begin_with(const std::map<int, PeerId>& by_slot) const;
  bool has_had_its_time(const Joiner& joiner) const;
  bool is_unproven(const Joiner& joiner) const;
  bool is_gone(const Joiner& joiner) const;
  bool is_idle(const Joiner& joiner) const;
  void leave_out();
  void leave_out(PeerId peer);
  void wait_outside(Joiner& joiner);
  void tell_silence(Joiner& joiner, const std::string& why, const char* cause = api::kCauseUnknown);
  bool tell_strayed();
  void choose_newcomers(std::vector<PeerId>& found, std::size_t missing) const;

  // gang_spares.cpp
  bool will_be_left_out(const Joiner& joiner) const;
  std::size_t staying_members() const;
  bool has_surplus() const;
  bool has_enough_without_spares(const std::map<int, PeerId>& by_slot) const;
  void keep_first(std::map<int, PeerId>& by_slot) const;
  void choose_spares(std::vector<PeerId>& found, std::size_t missing) const;
  void drop_surplus();

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
  bool has_stored_since(int publications) const;
  void note_step(std::int64_t step);
  std::optional<NextStart> best_start();

  // gang_apart.cpp
  void note_unreached(const Joiner& joiner, const Broken& broken);
  bool parts();  // true: from a member that others do not reach

  // gang_deputy.cpp
  void seek_deputy();
  void on_api_reached(const Joiner& joiner);

  // gang_foreign.cpp
  void on_program_lost(const api::Failure& failure);
  void note_programs_start();
  bool is_judging();  // … whose fault that is
  bool gives_up_when_parked();
  bool ends_at_rest();
  void blame_program();

  // gang_run.cpp
  void drive_requests();
  void drive_success();
  void drive_end();
  void end(StopReason reason, bool is_saving, const std::string& why);
  void fail_gang(api::Failure failure);
  void remember(api::Failure failure);
  std::int64_t generation_of_failures() const;
  api::WorkerGroupStatus desired() const;
  void write_if_due();

  Context& ctx_;
  RecordWriter& writer_;
  Stage stage_ = Stage::kGathering;
  Roster roster_{ctx_};
  StartChoice start_{ctx_};
  Saves saves_{ctx_, writer_, roster_};
  SaveFirst save_first_{ctx_, roster_, saves_};
  ApartLedger apart_{ctx_, roster_};  // since they were last seen to make a step together
  FlapLedger flaps_{ctx_};
  FailureLog failures_;
  ProgressView progress_;
  LossLedger tally_;
  Deputy deputy_;
  std::vector<Joiner> strayed_;  // who waited to be let in and is not heard any more
  PeerId vacancies_ = 0;

  std::optional<api::WorkerGroupStatus> proposal_;
  NextStart next_;  // of the generation that was proposed or committed last
  SteadyPoint gathers_since_{}, running_since_{};
  SteadyPoint joined_at_{};  // when a member was last heard for the first time, or again
  bool are_peers_sent_ = false;

  std::string reform_why_;
  bool is_blameless_ = false;  // nobody is known to have failed
  bool has_left_out_ = false;  // since the gang was broken last
  bool is_last_ = false;       // the generation that was proposed last only saves, and ends
  // Until when the generation after a change has to run.
  std::optional<SteadyPoint> reform_deadline_;
  // Since when no step was made: told with the first one of the new generation.
  std::optional<SteadyPoint> broken_since_;
  int reforms_ = 0;               // since the last new step
  std::int64_t reformed_at_ = 0;  // the newest confirmed step then
  int reformed_with_ = 0;         // checkpoints, by us
  bool is_explained_ = false, is_program_blamed_ = false;

  bool wants_finished_ = false;
  StopReason end_reason_ = StopReason::kFailed;
  SteadyPoint ended_at_{}, end_deadline_{};
  SteadyPoint last_write_{};
  bool was_progress_written_ = false;
};

}  // namespace pawl::membership
