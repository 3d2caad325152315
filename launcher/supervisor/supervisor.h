// The local training processes: starts, reaps (everything, as PID 1 must), stops with TERM and then
// KILL, forwards signals, keeps the last lines of each for its failure message. Owner thread only.
#pragma once

#include <sys/types.h>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "common/base/clock.h"
#include "launcher/loop/inbox.h"
#include "launcher/membership/action.h"
#include "launcher/standby/standby_set.h"
#include "launcher/supervisor/log_pump.h"
#include "launcher/supervisor/spawn.h"

namespace pawl::launcher {

using membership::ProcessExited;

class Supervisor {
 public:
  // on_exited: once for each process that was started, after its log tail is there.
  // before_exit: at once when its end is seen, to read what it still said on its channel.
  struct Events {
    std::function<void(int local_rank)> before_exit;
    std::function<void(ProcessExited)> on_exited;
  };
  Supervisor(const Clock& clock, std::shared_ptr<Inbox> inbox, std::unique_ptr<LogPump> logs,
             Events events);
  ~Supervisor();  // kills what is left

  // From now on programs are started from these, where one is ready.
  void use(std::unique_ptr<StandbySet> standbys) { standbys_ = std::move(standbys); }
  Status start(int local_rank, const SpawnOptions& options, const std::string& error_file);
  void set_first_rank(int rank) { logs_->set_first_rank(rank); }
  void stop_all(std::chrono::milliseconds grace);
  // At once; its end is reported as of one that anybody killed.
  void kill(int local_rank);
  // The process was asked to stop by other means: its exit is then no failure of its own.
  void mark_told(int local_rank);
  void forward(int signal);
  // SIGCHLD came: takes every child that ended, ours and orphans that fell to us.
  void reap();
  void on_tick();
  // Nothing of a process that does not run. `worker`: the process below it that does the work,
  // where that is known and another one (a shell may have started it).
  std::optional<membership::RunState> state_of(int local_rank, pid_t worker = 0) const;

 private:
  struct Process {
    pid_t pid = 0;
    bool is_running = false, was_told = false, is_killed_by_us = false;
    std::string error_file;
    std::optional<ProcessExited> ended;  // waits for its log tail, and for what it has left
    bool has_tail = false;
    SteadyPoint started_at{}, ended_at{};
  };
  void on_ended(int local_rank, int status);
  bool is_any_running() const;
  bool is_any_told() const;
  void on_tail(int local_rank, const std::string& tail);
  bool end_strays() const;
  void look_after_standbys();
  void tell_ends();
  void signal_group(const Process& process, int signal) const;

  const Clock& clock_;
  std::shared_ptr<Inbox> inbox_;
  std::unique_ptr<LogPump> logs_;
  Events events_;
  std::unique_ptr<StandbySet> standbys_;  // none: nobody stands by
  std::map<int, Process> processes_;
  std::optional<SteadyPoint> kill_at_;
  std::int64_t oom_kills_;  // seen so far
};

}  // namespace pawl::launcher
