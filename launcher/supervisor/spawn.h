// Starts one process: own process group, signals as a fresh program expects them, dies with the
// launcher, standard output and error into pipes, some extra descriptors kept. Owner thread only
// (the death signal belongs to it).
#pragma once

#include <sys/types.h>
#include <map>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/os/fd.h"

namespace pawl::launcher {

struct SpawnOptions {
  std::vector<std::string> command;        // looked up in PATH
  std::map<std::string, std::string> env;  // the whole environment
  std::vector<int> kept_fds;               // stay open under the same numbers
};

struct Spawned {
  pid_t pid = 0;
  os::Fd out, err;  // the reading ends
};

// Invalid or Io, by errno.
Code code_of_exec(int error);
// Invalid when the command cannot be started now or ever (absent, no permission, no program), Io
// for what may pass (a stale handle of the volume that it lies on, no memory), with the reason.
Result<Spawned> spawn(const SpawnOptions& options);

}  // namespace pawl::launcher
