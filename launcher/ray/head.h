// `pawl-launch --ray-head -- COMMAND…`: the job's program on rank 0's worker. Connects to the
// programs of all other workers (node.h), starts the head of Ray, has them join it, and then runs
// the command, the driver. Tells the others the end, and with it their exit codes: 0 with the
// driver's 0; where Ray was lost, its worker blames itself, and all others end with 75.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "launcher/loop/poller.h"
#include "launcher/loop/signals.h"
#include "launcher/mpi/wire.h"
#include "launcher/ray/child.h"
#include "launcher/ray/start.h"

namespace pawl::launcher::ray {

struct HeadOptions {
  std::vector<std::string> command;             // the user's
  std::chrono::milliseconds dial_max{60'000};   // for all workers: the launchers begin together
  std::chrono::milliseconds join_max{180'000};  // from Ray's start to the last node's
};

class Head {
 public:
  // `env`: of the command, to which its own variables are added.
  Head(Place place, HeadOptions options, std::map<std::string, std::string> env,
       const Clock& clock);
  ~Head();
  int run();

 private:
  struct Peer {
    std::string name;
    std::optional<mpi::Wire> wire;  // none: lost
    bool has_joined = false;
    std::optional<int> verdict;
    std::string lost_why;
  };
  Status start();
  Status dial_all(SteadyPoint give_up);
  Status start_head();
  Status join_all();
  Status start_driver();
  void service(std::size_t index);
  void lose(std::size_t index, const std::string& why);
  void on_verdict(std::size_t index, int code);
  void on_signal(int signal);
  void on_ray_ended();
  void on_driver_ended();
  void turn(std::chrono::milliseconds timeout);
  template <typename Condition>
  bool wait_for(std::chrono::milliseconds timeout, Condition condition);
  // Of a driver that has failed: its own, or 75 where Ray was lost somewhere.
  int judge();
  void finish(int code, const std::string& why);
  void tell_end();
  void await_peers();

  const Place place_;
  const HeadOptions options_;
  std::map<std::string, std::string> env_;
  const Clock& clock_;
  std::string folder_, address_;  // of Ray's session; of its head
  std::unique_ptr<Poller> poller_;
  std::unique_ptr<Signals> signals_;
  std::vector<Peer> peers_;  // of the workers from 1 on
  std::unique_ptr<Child> ray_, driver_;
  StartScan scan_;
  bool was_told_ = false;
  std::optional<int> code_;  // ending
  std::string why_;
};

// The whole of it, from main(): reads its place from the environment.
int run_head(HeadOptions options, std::map<std::string, std::string> env, const Clock& clock);

}  // namespace pawl::launcher::ray
