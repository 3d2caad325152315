// `pawl-launch --mpi-agent`: on every worker but rank 0's it is the job's program. It runs what
// mpirun would have run by ssh (its daemon, which starts the ranks), for who knows the key of the
// generation, and lives as long as the job's own connection from `--mpi-run`. A command ends with
// the connection that asked for it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "common/base/clock.h"
#include "launcher/loop/poller.h"
#include "launcher/loop/signals.h"
#include "launcher/mpi/place.h"
#include "launcher/mpi/wire.h"
#include "launcher/supervisor/spawn.h"

namespace pawl::launcher::mpi {

class Agent {
 public:
  // `env`: of the commands.
  static Result<std::unique_ptr<Agent>> create(Place place, std::map<std::string, std::string> env,
                                               const Clock& clock);
  ~Agent();
  // Until the job has ended: 0 when it has ended well, the code of a failure that was here, 75 for
  // every other end.
  int run();

 private:
  struct Command {
    pid_t pid = 0;
    os::Fd out, err;
    bool is_running = true, is_ended_by_us = false, is_read = true;
    std::optional<SteadyPoint> kill_at;
  };
  struct Caller {
    Wire wire;
    SteadyPoint since;
    bool is_job = false, is_lost = false;
    std::optional<Command> command;
  };
  using Id = std::uint64_t;

  Agent(Place place, std::map<std::string, std::string> env, const Clock& clock);
  Status listen();
  void accept_all();
  void service(Id id);
  void on_frame(Id id, const Frame& frame);
  void start(Id id, const std::string& command);
  void watch_output(Id id);
  void pass_output(Id id, bool is_error);
  void on_signal(int signal);
  void reap();
  void on_exited(Id id, int code);
  void end_command(Command& command);
  void drop(Id id, const std::string& why);
  void on_tick();
  void hang_up();
  void finish(int code, const std::string& why);
  int verdict() const;
  bool is_running_any() const;

  Place place_;
  std::map<std::string, std::string> env_;
  const Clock& clock_;
  std::unique_ptr<Poller> poller_;
  std::unique_ptr<Signals> signals_;
  os::Fd listener_;
  Id last_id_ = 0;
  std::map<Id, Caller> callers_;
  std::int64_t oom_kills_;
  int own_code_ = 0;                   // of a command that something here has killed
  std::optional<SteadyPoint> end_at_;  // told to terminate, while mpirun may still end it in order
  bool was_told_ = false;
  std::optional<int> code_;  // ending
};

// The whole of it, from main(): reads its place from the environment.
int run_agent(std::map<std::string, std::string> env, const Clock& clock);

}  // namespace pawl::launcher::mpi
