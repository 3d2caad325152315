#include "launcher/supervisor/run_state.h"

#include <fstream>
#include <sstream>
#include <string>

namespace pawl::launcher {

using membership::RunState;

membership::RunState run_state(pid_t pid) {
  constexpr unsigned long kExiting = 0x4;  // PF_EXITING of the kernel's flags, field 9 of stat
  const std::string at = "/proc/" + std::to_string(pid);
  std::ifstream file{at + "/stat"};
  std::string line;
  std::getline(file, line);
  const auto name_end = line.rfind(") ");  // the name may hold anything
  if (name_end == std::string::npos) return RunState::kEnds;
  std::istringstream fields{line.substr(name_end + 2)};
  char letter = '?';
  long ignored = 0;
  unsigned long flags = 0;
  fields >> letter;
  for (int i = 0; i < 5; ++i) fields >> ignored;  // ppid, pgrp, session, tty_nr, tpgid
  fields >> flags;
  if (letter == 'Z' || letter == 'X' || (flags & kExiting) != 0) return RunState::kEnds;
  if (letter == 'T') return RunState::kStopped;
  if (letter == 't') return RunState::kTraced;
  std::ifstream status{at + "/status"};
  for (std::string entry; std::getline(status, entry);) {
    if (entry == "CoreDumping:\t1") return RunState::kEnds;
  }
  return RunState::kRuns;
}

}  // namespace pawl::launcher
