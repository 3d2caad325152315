#include "tests/sim/peer_net.h"

#include <iterator>
#include <vector>

#include "tests/sim/worker.h"

namespace pawl::sim {

void PeerNet::break_one() {
  if (workers_.empty()) return;
  auto at = workers_.begin();
  std::advance(at, engine_.random().below(workers_.size()));
  at->second->break_peers();
}

bool PeerNet::blind_one(milliseconds time) {
  std::vector<std::string> all, leaders;
  for (const auto& [address, worker] : workers_) {
    all.push_back(address);
    if (worker->leads() && !worker->is_blind()) leaders.push_back(address);
  }
  if (all.empty()) return false;
  const std::vector<std::string>& some = leaders.empty() ? all : leaders;
  const std::string address = some[engine_.random().below(some.size())];
  engine_.trace(address + " does not reach the API server for " + std::to_string(time.count()) +
                " ms");
  find(address)->blind(true);
  engine_.after(time, [this, address] {
    if (Worker* worker = find(address)) worker->blind(false);
  });
  return true;
}

}  // namespace pawl::sim
