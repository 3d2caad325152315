// Takes the launcher's own log lines to standard error on a thread of its own: a container runtime
// that does not read must not stop heartbeats and the exit. Lines are dropped, and counted, when
// too many wait. Made by main.cpp, after the signals are blocked.
#pragma once

#include <memory>
#include <string_view>

#include "common/base/result.h"

namespace pawl::launcher {

class LogWriter {
 public:
  static constexpr int kLinesMax = 4096;

  static Result<std::unique_ptr<LogWriter>> start(int fd);
  ~LogWriter();
  // What waits is written, unless the reader does not take it; nothing is written afterwards.
  void finish();
  // Any thread; never waits.
  void write(std::string_view line);

 private:
  class Impl;
  explicit LogWriter(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace pawl::launcher
