// What an MPI asks of the program in place of ssh: "HOST COMMAND…" among options that mean nothing
// here (of ssh and rsh: -x, -n, -l USER, -o KEY=VALUE, …). Pure.
#pragma once

#include <string>
#include <vector>

#include "common/base/result.h"

namespace pawl::launcher::mpi {

struct RemoteCommand {
  std::string host;
  std::string command;  // of a shell: the words as they are, joined by blanks, as ssh joins them
};

Result<RemoteCommand> parse_remote_command(const std::vector<std::string>& words);

}  // namespace pawl::launcher::mpi
