// Where an MPI job's programs stand, and what a launcher starts for them. Rank 0's worker gets
// `pawl-launch --mpi-run -- COMMAND` (run.h), each other one `pawl-launch --mpi-agent` (agent.h):
// for the gang these are its programs, one a worker, like any framework's. The command, which
// calls mpirun, runs on rank 0's worker alone. Pure, but for own_command().
#pragma once

#include <map>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "launcher/membership/action.h"
#include "launcher/settings.h"

namespace pawl::launcher::mpi {

inline constexpr char kRunOption[] = "--mpi-run";
inline constexpr char kAgentOption[] = "--mpi-agent";
inline constexpr char kRemoteOption[] = "--mpi-remote";
inline constexpr char kPlaceVariable[] = "PAWL_MPI";

struct Place {
  int rank = 0;                        // of the worker
  std::vector<std::string> addresses;  // of the workers, by rank, where their agents listen
  int slots = 1;                       // ranks of MPI that a worker has room for
  std::string key;                     // of this generation; who has it may run commands
  bool is_pod = true;                  // not `pawl run`, whose workers share this machine
};

// For a program of ours, as the one variable kPlaceVariable.
std::string encode_place(const Place& place);
// Takes it out of the environment: the user's programs do not get the key by it.
Result<Place> take_place(std::map<std::string, std::string>& env);

Place place_of(const Settings& settings, const membership::Placement& at);
// What the launcher starts on this worker.
std::vector<std::string> program(const Settings& settings, const membership::Placement& at);

// What starts this very program again from any image, be it by its own loader: our command line
// without the arguments of main().
std::vector<std::string> own_command(int argument_count);

}  // namespace pawl::launcher::mpi
