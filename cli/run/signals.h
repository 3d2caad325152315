// SIGINT, SIGTERM and SIGHUP as a descriptor. Blocks them for this thread and all that it starts
// later; one instance.
#pragma once

#include "common/os/fd.h"

namespace pawl::cli {

class Signals {
 public:
  Signals();
  int fd() const { return fd_.get(); }
  // How many came since the last call.
  int take() const;

 private:
  os::Fd fd_;
};

}  // namespace pawl::cli
