// `pawl-launch --mpi-remote FOLDER [OPTIONS] HOST COMMAND…`: what mpirun calls in place of ssh, by
// the script in the folder that `--mpi-run` made. Has the host's agent run the command, passes its
// output on, and ends with its exit code; 255, as ssh, where there is no way to it.
#pragma once

#include <string>
#include <vector>

namespace pawl::launcher::mpi {

inline constexpr int kNoRemote = 255;

int run_remote(const std::vector<std::string>& arguments);

}  // namespace pawl::launcher::mpi
