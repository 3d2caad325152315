// What the kernel says of a process that has not been reaped: whether it can go on by itself. From
// /proc/PID/stat and status (proc(5)); nothing is held, so that each call costs two short reads.
// Any thread.
#pragma once

#include <sys/types.h>

#include "launcher/membership/action.h"

namespace pawl::launcher {

// kEnds also of one that is gone.
membership::RunState run_state(pid_t pid);

}  // namespace pawl::launcher
