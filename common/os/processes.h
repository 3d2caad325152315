// What /proc says about the processes of this machine: parents, sessions and environments. For
// those who must leave no process behind (the launcher, the keeper of `pawl run`), and for --chaos,
// which must find one. Any thread; a process may be gone by the time one acts.
#pragma once

#include <sys/types.h>
#include <optional>
#include <string>
#include <vector>

namespace pawl::os {

struct ProcessInfo {
  pid_t pid = 0, parent = 0, session = 0;
  bool is_zombie = false;
  std::string name;  // of the program, at most 15 bytes, or what it calls itself
};

std::vector<ProcessInfo> list_processes();
// All processes below `ancestor`, without itself.
std::vector<ProcessInfo> descendants_of(pid_t ancestor);
// Whether the process was started with exactly this "NAME=value". Nothing while that cannot be
// said: in the middle of exec, of its end, or when it is gone.
std::optional<bool> has_environment(pid_t pid, const std::string& entry);

}  // namespace pawl::os
