// The network between workers: who listens where, and what breaks in it.
#pragma once

#include <map>
#include <string>

#include "tests/sim/engine.h"

namespace pawl::sim {

class Worker;
class PeerNet {
 public:
  explicit PeerNet(Engine& engine) : engine_(engine) {}
  void listen(const std::string& address, Worker& worker) { workers_[address] = &worker; }
  void leave(const std::string& address) { workers_.erase(address); }
  Worker* find(const std::string& address) const {
    const auto found = workers_.find(address);
    return found == workers_.end() ? nullptr : found->second;
  }
  // Every connection of one random worker breaks.
  void break_one();
  // One does not reach the API server for a while; of those that lead, if there are. False: nobody
  // is there.
  bool blind_one(milliseconds time);

 private:
  Engine& engine_;
  std::map<std::string, Worker*> workers_;
};

}  // namespace pawl::sim
