// One member of a gang, in every launcher: joins the leader, enters the generations that it is
// shown, runs the local processes, brings them to rest between two generations, hands their shards
// to storage, and leaves with the exit code that tells the operator why. Pure; owned by Membership.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launcher/membership/context.h"
#include "launcher/membership/generations.h"
#include "launcher/membership/leader_link.h"

namespace pawl::membership {

class Member {
 public:
  explicit Member(Context& ctx);

  void start();
  void on_record();
  void on_record_gone(const std::string& why);
  void on_peer_up() { link_.on_up(); }
  void on_peer_down(const std::string& why) { link_.on_down(why); }
  void on_message(const Message& message);
  void on_process_said(const ProcessSaid& said);
  void on_process_exited(const ProcessExited& exited);
  void on_shard_written(const ShardWritten& written);
  void on_termination_asked(const std::string& interruption);
  void on_node_checked(const std::string& fault);
  void on_node_fault(const std::string& what);
  void on_tick();
  // After every input.
  void decide();
  void on_pulses(const std::vector<ProcessPulse>& pulses);
  void forgive_silence() { link_.forgive_silence(); }

  // Everything here is done: the code to exit with.
  std::optional<int> exit_code() const { return is_through_ ? exit_code_ : std::nullopt; }
  void say_api_reached() { link_.send(HasApi{}); }
  bool is_stopping() const { return exit_code_.has_value(); }
  // Its machine was looked at, or nobody can: until then it neither joins nor leads.
  bool is_fit() const { return !check_by_.has_value(); }
  // Since when there has been no way to the leader, where the gang can go on under another one.
  std::optional<SteadyPoint> leader_lost_since() const;

 private:
  struct Process {
    bool is_running = false;
    bool is_working = false;       // in the generation that was entered; else it is at rest
    Holding held;                  // of a process at rest
    std::int64_t welcomed_in = 0;  // the newest generation, this process or one that it replaced
    bool holds_part = false;       // of the state; also before it has said so
    std::string killed_why;        // by us
    bool is_hung = false;          // … because it neither went on nor ended
    std::optional<SteadyPoint> killed_at;
    ProcessPulse pulse;  // the last one
    // Since it changed, and since it is stopped by a signal: of our own time, in which we looked.
    std::chrono::nanoseconds silent{0}, stopped{0};
    std::optional<int> exit_code;
    std::optional<api::channel::Hello> hello;
  };
  // A report that the leader wants.
  struct Parking {
    std::int64_t generation = 0;
    SteadyPoint deadline{};
    bool is_reported = false, is_writing_told = false;
  };
  struct Write {
    WriteShard shard;
    int tries = 1;
    std::optional<SteadyPoint> retry_at;  // the last try has failed
    // Its process is gone, and the buffer with it once this try has ended.
    bool is_orphan = false;
  };

  // member_hang.cpp
  void see(Process& process, const ProcessPulse& pulse, std::chrono::nanoseconds time) const;
  std::optional<std::string> hang_of(const Process& process) const;
  void give_up_unkillable(int local_rank);
  void on_commit(const Commit& commit);
  void on_parked(int local_rank, const api::channel::Parked& parked);
  void on_park(const Park& park);
  void drive_parking();
  void tell_parked();
  void rest_alone();
  void end_if_others_have();
  bool is_at_rest() const;
  bool can_outlive(const ProcessExited& exited) const;
  void kill(int local_rank, std::string why);
  void outlive(const ProcessExited& exited);
  api::Failure failure_of(const ProcessExited& exited) const;
  void on_stop_gang(const StopGang& stop);
  void on_refused(const Refused& refused);
  void on_sealed(int local_rank, const api::channel::Sealed& sealed);
  void retry_writes();
  void start_processes(std::optional<Placement> placement);
  void tell_ready();
  void welcome();
  std::vector<api::channel::PeerAddress> neighbours_of(int rank) const;
  void report(bool is_urgent);
  // The first code counts, unless the new one is our own process's failure.
  void begin_stop(int code, bool is_saving, const std::string& why);
  void stop_processes(bool is_saving);
  void give_up(int code, const std::string& why);
  // The gang may go on without this launcher: another one may take its place.
  bool is_replaceable() const;
  void end_as_victim(const std::string& why);
  void forget_own_loss();
  void tell_victim(const std::string& why);
  void tell_left(const char* cause, const std::string& why);
  void fail_own(const ProcessExited& exited);
  bool is_of_end(const ProcessExited& exited) const;
  void set_ready(bool is_ready);
  int rank_of(int local_rank) const;
  bool is_native() const { return ctx_.keeps_processes(); }
  bool are_all(bool (*predicate)(const Process&)) const;

  Context& ctx_;
  LeaderLink link_;
  std::vector<Process> processes_;
  std::optional<SteadyPoint> check_by_;  // set: whether this machine is well is still looked at
  SteadyPoint looked_at_{};              // at their pulses
  std::optional<Commit> commit_;
  std::optional<Peers> peers_;
  int member_rank_ = -1;
  Standing standing_;
  std::optional<Parking> parking_;
  std::optional<SteadyPoint> rested_alone_;  // since when the leader was lost then
  std::optional<api::Failure> own_loss_;     // of a process, until the gang has outlived it
  int ready_told_on_ = 0;                    // which Join the leader got it after
  int finished_told_on_ = 0;                 // the same
  std::vector<Write> writes_;                // sealed, and neither stored nor given up
  std::optional<api::channel::Report> unsent_report_;
  SteadyPoint report_sent_{};

  bool is_finished_ = false;  // all processes exited 0 and the leader knows
  bool was_goodbye_said_ = false;
  std::optional<SteadyPoint> goodbye_deadline_;
  std::optional<SteadyPoint> leave_by_;  // told to terminate, and waiting for the leader's word
  std::string interruption_;             // why, where it is the machine that goes
  std::optional<int> exit_code_;         // set: stopping
  bool has_own_failure_ = false, is_through_ = false;
  bool is_program_blamed_ = false;      // … by the leader, which ended the gang for it
  bool is_ready_ = false;               // as SetReady said last
  std::optional<SteadyPoint> term_at_;  // when saving processes are told to end
  SteadyPoint stop_deadline_{};         // storage that hangs does not hold the pod for ever
};

}  // namespace pawl::membership
