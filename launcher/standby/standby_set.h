// Processes that stand by for the programs of this worker: a program that has to be started again
// after a loss takes a ready one, whose imports (most of a PyTorch program's start) are behind it.
// Used by the Supervisor, on its thread.
//
// 1. When a program has run for a while, and memory is there for it, a process is started with
//    the program's command around standby.py, the worker's environment, and one end of a socket.
// 2. It imports, and sends one byte: ready.
// 3. To become the program it is sent 8 bytes, little-endian, the length of what follows, with the
//    descriptors of channel and pulse (SCM_RIGHTS); then what the program's environment has more
//    than its own, or other: "NAME=value\0" each.
// What does not go that way costs nothing: the program is started as it was before.
#pragma once

#include <sys/types.h>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/os/fd.h"
#include "launcher/standby/memory_room.h"
#include "launcher/supervisor/spawn.h"

namespace pawl::launcher {

inline constexpr std::chrono::seconds kPauseFirst{600};

struct StandbyOptions {
  std::vector<std::string> command;         // of the programs
  std::string folder;                       // ours, writable; standby.py is put there
  std::chrono::milliseconds after{15'000};  // that a program has run
  // What processes of a rank have before they have their place.
  std::function<std::map<std::string, std::string>(int local_rank)> env;
  std::function<std::int64_t()> room = [] { return memory_room(); };
};

class StandbySet {
 public:
  // Nothing where nobody can stand by for such a command (standby_command.h), or the folder cannot
  // be written to.
  static std::unique_ptr<StandbySet> create(StandbyOptions options, const Clock& clock, Log& log);
  ~StandbySet();  // kills them

  // Looks after them. `running_since`: the programs, by local rank.
  void on_tick(const std::map<int, SteadyPoint>& running_since);
  // The process that has become the program of `options`, whose kept_fds are channel and pulse;
  // nothing when none is ready.
  std::optional<Spawned> take(int local_rank, const SpawnOptions& options);
  // Whether it is one of these, or the leader of its process group, which is the same.
  bool has(pid_t pid) const;
  // A child has ended: whether it was one of these, and ended by itself.
  bool on_ended(pid_t pid);

 private:
  struct Standby {
    Spawned process;
    std::map<std::string, std::string> env;
    os::Fd socket;
    SteadyPoint started{};
    bool is_ready = false;
  };
  StandbySet(StandbyOptions options, std::string script, const Clock& clock, Log& log);
  void start(int local_rank);
  void look_at(int local_rank, Standby& standby);
  void look_at_memory(SteadyPoint now);
  void end(Standby& standby);
  void give_up(int local_rank, const std::string& why);

  const StandbyOptions options_;
  const std::string script_;  // path of standby.py
  const Clock& clock_;
  Log& log_;
  std::map<int, Standby> standbys_;
  std::set<int> hopeless_;  // ranks for which one has failed: never again
  std::set<pid_t> ending_;  // killed, not yet reaped
  std::int64_t room_ = 0;   // bytes, as of the last look at the memory
  SteadyPoint look_again_{}, start_again_{};
  std::chrono::seconds pause_{kPauseFirst};  // after memory was short; doubles
};

}  // namespace pawl::launcher
