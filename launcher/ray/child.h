// One program that a program of ours runs (`ray start`, or the job's driver): what it says goes on
// and is looked at, and it ends when it is told, or is ended. Owner thread only.
#pragma once

#include <sys/types.h>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string_view>

#include "common/base/clock.h"
#include "launcher/loop/poller.h"
#include "launcher/supervisor/spawn.h"

namespace pawl::launcher::ray {

class Child {
 public:
  using OnText = std::function<void(std::string_view)>;  // none: nobody looks
  static Result<std::unique_ptr<Child>> start(Poller& poller, const Clock& clock,
                                              const SpawnOptions& options, OnText on_text = {});
  ~Child();  // kills it

  void signal(int number) const;
  // TERM now, KILL after `grace`.
  void end(std::chrono::milliseconds grace);
  void on_tick();
  // SIGCHLD came. Everything of its process group that it has left is killed.
  void on_exited(int status);

  // Its own children, as they are now: has_lost_one() compares with them.
  void remember_children();
  bool has_lost_one() const;

  pid_t pid() const { return pid_; }
  bool is_running() const { return !code_; }
  int code() const { return code_.value_or(0); }  // 128 + signal
  bool is_ended_by_us() const { return is_ended_by_us_; }

 private:
  Child(Poller& poller, const Clock& clock, Spawned spawned, OnText on_text);
  void read(os::Fd& fd, int to);
  std::set<pid_t> children() const;

  Poller& poller_;
  const Clock& clock_;
  pid_t pid_;
  os::Fd out_, err_;
  OnText on_text_;
  std::set<pid_t> known_;
  bool is_ended_by_us_ = false;
  std::optional<SteadyPoint> kill_at_;
  std::optional<int> code_;
};

// Takes all that have ended; strays of others are nobody's here.
void reap(std::initializer_list<Child*> children);

}  // namespace pawl::launcher::ray
