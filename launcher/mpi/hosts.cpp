#include "launcher/mpi/hosts.h"

#include <algorithm>

#include "common/os/fd.h"

namespace pawl::launcher::mpi {
namespace {

bool are_loopback(const Place& place) { return place.addresses.front().starts_with("127."); }

std::string quoted(const std::string& word) {
  std::string text = "'";
  for (const char letter : word) {
    if (letter == '\'') {
      text += "'\\''";
    } else {
      text += letter;
    }
  }
  return text + "'";
}

}  // namespace

std::vector<Host> hosts_of(const Place& place) {
  constexpr int kHostsInNet = 250;
  std::vector<Host> hosts;
  for (std::size_t rank = 0; rank < place.addresses.size(); ++rank) {
    const std::string& address = place.addresses[rank];
    const auto split = os::split_host_port(address);
    std::string name = split ? split->first : address;
    const auto number = static_cast<int>(rank);
    if (rank > 0 && are_loopback(place)) {
      name = "127.1." + std::to_string(number / kHostsInNet) + "." +
             std::to_string(number % kHostsInNet + 1);
    }
    hosts.push_back({std::move(name), address});
  }
  return hosts;
}

std::string open_mpi_hostfile(const std::vector<Host>& hosts, int slots) {
  std::string text;
  for (const Host& host : hosts) text += host.name + " slots=" + std::to_string(slots) + "\n";
  return text;
}

std::string hydra_hostfile(const std::vector<Host>& hosts, int slots) {
  std::string text;
  for (const Host& host : hosts) text += host.name + ":" + std::to_string(slots) + "\n";
  return text;
}

std::string agents_file(const std::vector<Host>& hosts) {
  std::string text;
  for (const Host& host : hosts) text += host.name + " " + host.address + "\n";
  return text;
}

Result<std::string> find_agent(std::string_view agents_file, const std::string& name) {
  std::string known;
  while (!agents_file.empty()) {
    const std::size_t end = std::min(agents_file.find('\n'), agents_file.size());
    const std::string_view line = agents_file.substr(0, end);
    agents_file.remove_prefix(std::min(end + 1, agents_file.size()));
    const std::size_t space = line.find(' ');
    if (space == std::string_view::npos) continue;
    if (line.substr(0, space) == name) return std::string{line.substr(space + 1)};
    known += (known.empty() ? "" : ", ") + std::string{line.substr(0, space)};
  }
  return fail(Code::kNotFound, "\"" + name + "\" is no worker of this job (" + known +
                                   "): leave out mpirun's own --host and --hostfile");
}

Files::Files(const std::string& folder)
    : open_mpi_hosts(folder + "/hostfile"),
      hydra_hosts(folder + "/hosts"),
      agents(folder + "/agents"),
      key(folder + "/key"),
      remote_shell(folder + "/pawl-rsh") {}

std::string remote_shell_script(const std::vector<std::string>& launcher,
                                const std::string& folder) {
  std::string text = "#!/bin/sh\nexec";
  for (const std::string& word : launcher) text += " " + quoted(word);
  return text + " " + kRemoteOption + " " + quoted(folder) + " \"$@\"\n";
}

void set_variables(std::map<std::string, std::string>& env, const Files& files, const Place& place,
                   bool is_root) {
  // Open MPI 4 (orte/mca/plm/rsh, orte/runtime/orte_mca_params.c). Without the tree the first
  // worker starts all daemons: only there is our program. A daemon that left its session would end
  // the call at once, and nobody would see it end.
  env["OMPI_MCA_plm_rsh_agent"] = files.remote_shell;
  env["OMPI_MCA_plm_rsh_no_tree_spawn"] = "1";
  env["OMPI_MCA_orte_leave_session_attached"] = "1";
  env["OMPI_MCA_orte_default_hostfile"] = files.open_mpi_hosts;
  // Open MPI 5 (PRRTE: src/mca/plm/ssh, src/runtime/prte_mca_params.c).
  env["PRTE_MCA_plm_ssh_agent"] = files.remote_shell;
  env["PRTE_MCA_plm_ssh_no_tree_spawn"] = "1";
  env["PRTE_MCA_prte_leave_session_attached"] = "1";
  env["PRTE_MCA_prte_default_hostfile"] = files.open_mpi_hosts;
  // MPICH's Hydra (src/pm/hydra: mpiexec/utils.c, lib/tools/bootstrap).
  env["HYDRA_LAUNCHER"] = "ssh";
  env["HYDRA_LAUNCHER_EXEC"] = files.remote_shell;
  env["HYDRA_HOST_FILE"] = files.hydra_hosts;
  // Intel MPI's (its Developer Reference, Hydra Environment Variables); it starts its proxies by
  // a tree of 16 branches, unless told not to.
  env["I_MPI_HYDRA_BOOTSTRAP"] = "ssh";
  env["I_MPI_HYDRA_BOOTSTRAP_EXEC"] = files.remote_shell;
  env["I_MPI_HYDRA_HOST_FILE"] = files.hydra_hosts;
  env["I_MPI_HYDRA_BRANCH_COUNT"] = "0";

  // Two pods on one node do not know of each other: both would bind their first rank to the node's
  // first core.
  env.try_emplace("OMPI_MCA_hwloc_base_binding_policy", "none");
  env.try_emplace("PRTE_MCA_hwloc_default_binding_policy", "none");
  // Open MPI refuses to run as root, to guard the machine. In a pod who is root is the template's
  // to say; under `pawl run` it is the user's machine, and the refusal says what to set.
  if (is_root && place.is_pod) {
    for (const char* name : {"OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM",
                             "PRTE_ALLOW_RUN_AS_ROOT", "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM"})
      env.try_emplace(name, "1");
  }
  // Open MPI leaves out the loopback interface, which may be the only one here. Its shared memory
  // goes by the machine's name and the number of a rank on it, which two workers here have alike.
  if (are_loopback(place)) {
    env.try_emplace("OMPI_MCA_btl", "self,tcp");
    env.try_emplace("OMPI_MCA_oob_tcp_if_include", "127.0.0.0/8");
    env.try_emplace("OMPI_MCA_btl_tcp_if_include", "127.0.0.0/8");
  }
}

}  // namespace pawl::launcher::mpi
