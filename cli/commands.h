// The commands that read a cluster, each with its arguments as given behind its name; the value is
// the exit code. They write to standard output and standard error. Blocking; main's thread.
#pragma once

#include <string>
#include <vector>

namespace pawl::cli {

// Exit codes of status, why and logs; kExitUsage (2) as everywhere.
inline constexpr int kExitFound = 0;
inline constexpr int kExitNotFound = 1;  // there is no such job, or the cluster could not be asked

int status_command(const std::vector<std::string>& arguments);
int why_command(const std::vector<std::string>& arguments);
int logs_command(const std::vector<std::string>& arguments);

}  // namespace pawl::cli
