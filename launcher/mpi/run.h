// `pawl-launch --mpi-run -- COMMAND…`: the job's program on rank 0's worker. Connects to the agents
// of all other workers, gives the command what its mpirun needs (hosts.h), waits for it, and tells
// the agents the end, and with it their exit codes: 0 with it; else only a worker where something
// was killed blames itself, and all others end with 75.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "launcher/loop/poller.h"
#include "launcher/loop/signals.h"
#include "launcher/mpi/blame.h"
#include "launcher/mpi/hosts.h"
#include "launcher/mpi/wire.h"

namespace pawl::launcher::mpi {

struct RunOptions {
  std::vector<std::string> command, launcher;  // the user's; what starts this program again
  std::chrono::milliseconds dial_max{60'000};  // for all agents: the launchers begin together
};

class Run {
 public:
  // `env`: of the command, to which its own variables are added.
  Run(Place place, RunOptions options, std::map<std::string, std::string> env, const Clock& clock);
  ~Run();
  int run();

 private:
  struct Agent {
    std::string name;
    std::optional<Wire> wire;  // none: lost
    bool is_attending = false;
    std::optional<int> verdict;
    std::string host_name, lost_why;
  };
  Status dial_all();
  Status write_files();
  Status start();
  void service(std::size_t index);
  void lose(std::size_t index, const std::string& why);
  bool wait_for(bool (*is_there)(const Agent&), std::chrono::milliseconds timeout);
  void pass_output(os::Fd& fd, int to, BlameScan& scan);
  void on_signal(int signal);
  void on_exited(int status);
  // Its code, and the agents' in their order, by what is known of a failure.
  int judge(std::vector<int>& agent_codes);
  std::optional<std::size_t> rank_of(const std::string& host) const;
  void tell_end(const std::vector<int>& codes, const std::string& why);

  const Place place_;
  const RunOptions options_;
  std::map<std::string, std::string> env_;
  const Clock& clock_;
  std::vector<Host> hosts_;
  std::string folder_;
  std::unique_ptr<Poller> poller_;
  std::unique_ptr<Signals> signals_;
  std::vector<Agent> agents_;  // of the workers from 1 on
  pid_t pid_ = 0;
  os::Fd out_, err_;
  BlameScan out_scan_, err_scan_;
  bool was_told_ = false;
  std::optional<int> code_;  // of the command, when it has ended
};

// The whole of it, from main(): reads its place from the environment.
int run_command(RunOptions options, std::map<std::string, std::string> env, const Clock& clock);

}  // namespace pawl::launcher::mpi
