// The workers as mpirun is told of them: its list of hosts, and the variables by which Open MPI,
// MPICH and Intel MPI find that list and the program that they call in place of ssh. Pure.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "launcher/mpi/place.h"

namespace pawl::launcher::mpi {

struct Host {
  std::string name;     // as mpirun knows it: an address, so that nobody asks a name server
  std::string address;  // where its agent listens
};

// By rank. The workers of `pawl run` share one address, and an MPI takes equal hosts for one: all
// but the first get an address of their own in 127.1.0.0/16, which none of them takes for its own.
std::vector<Host> hosts_of(const Place& place);

std::string open_mpi_hostfile(const std::vector<Host>& hosts, int slots);  // "10.0.0.1 slots=8"
std::string hydra_hostfile(const std::vector<Host>& hosts, int slots);     // "10.0.0.1:8"
// For the program in place of ssh: "NAME ADDRESS" a line.
std::string agents_file(const std::vector<Host>& hosts);
Result<std::string> find_agent(std::string_view agents_file, const std::string& name);

// The files that `--mpi-run` writes into a folder that nobody else may read.
struct Files {
  explicit Files(const std::string& folder);
  std::string open_mpi_hosts, hydra_hosts, agents, key, remote_shell;
};
// The program in place of ssh: a script, because a loader may have to be named.
std::string remote_shell_script(const std::vector<std::string>& launcher,
                                const std::string& folder);

// What the user's command finds beside what it has. What makes it start at all is ours; of the
// rest the user's own choice stands.
void set_variables(std::map<std::string, std::string>& env, const Files& files, const Place& place,
                   bool is_root);

}  // namespace pawl::launcher::mpi
