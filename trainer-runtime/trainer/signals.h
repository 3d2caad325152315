// SIGTERM and SIGINT as something that is read, so that no handler and no global is needed. Made in
// main before any thread, which inherits the blocked signals.
#pragma once

#include "common/os/fd.h"

namespace pawl::trainer {

class Signals {
 public:
  // Blocks both signals in this thread and its children.
  static Result<Signals> open();
  // Whether one came, ever.
  bool has_come();
  int fd() const { return fd_.get(); }

 private:
  explicit Signals(os::Fd fd) : fd_(std::move(fd)) {}
  os::Fd fd_;
  bool has_come_ = false;
};

}  // namespace pawl::trainer
