// Carries the processes' standard output and error to our own, on a thread of its own: a container
// runtime that does not read must slow down the processes, not the launcher's heartbeats. Keeps the
// last bytes of each process for its failure message. With more than one process each line begins
// with its rank. Methods from the owner thread.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "common/base/result.h"
#include "common/os/fd.h"

namespace pawl::launcher {

class LogPump {
 public:
  // `prefixes`: whether lines get "[rank] ". out and err are where they go (1 and 2).
  static Result<std::unique_ptr<LogPump>> start(bool prefixes, int out, int err);
  ~LogPump();  // what is still in the pipes is carried over, unless the reader does not take it

  void add(int local_rank, os::Fd out, os::Fd err);
  // Of the gang's first rank here, once it is known; until then lines carry local ranks.
  void set_first_rank(int rank);
  // Called on the pump's thread, after everything that the process wrote so far was read.
  void ask_tail(int local_rank, std::function<void(std::string tail)> answer);

 private:
  class Impl;
  explicit LogPump(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace pawl::launcher
