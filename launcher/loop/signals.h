// Signals as readable events. block() in main before any thread exists, so that no thread ever
// takes one. Owner thread.
#pragma once

#include <functional>
#include <memory>

#include "common/os/fd.h"
#include "launcher/loop/poller.h"

namespace pawl::launcher {

class Signals {
 public:
  // TERM, INT, CHLD, and those that are passed on to the processes: HUP, QUIT, USR1, USR2, WINCH.
  static void block();
  static Result<std::unique_ptr<Signals>> create(Poller& poller,
                                                 std::function<void(int signal)> on_signal);
  ~Signals();

 private:
  Signals(Poller& poller, os::Fd fd) : poller_(poller), fd_(std::move(fd)) {}
  Poller& poller_;
  os::Fd fd_;
};

}  // namespace pawl::launcher
