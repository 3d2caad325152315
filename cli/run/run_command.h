// `pawl run job.yaml`: a job on this machine, from the file to the exit code. Called by main, in a
// process that has one thread. Exit codes: 0 Complete, 1 Failed, 2 the file or the arguments are
// wrong, 130 interrupted.
#pragma once

#include "cli/run/options.h"

namespace pawl::cli {

inline constexpr int kExitComplete = 0, kExitFailed = 1, kExitUsage = 2, kExitInterrupted = 130;

int run_command(const RunOptions& options);

}  // namespace pawl::cli
