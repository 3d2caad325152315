// Candidates for one Lease above the embedded API store, in virtual time: machines without a
// thread, requests and answers that are delayed, lost or late, nodes that stop and go on, wall
// clocks that step. At each instant it checks that at most one candidate leads.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/local/api_store.h"
#include "common/base/json.h"
#include "operator/leader/lease.h"

namespace pawl::test {

using std::chrono::milliseconds;
using std::chrono::seconds;

// What the network does with one request; each delay is of one way.
struct Passage {
  milliseconds there{5}, back{5};
  bool is_lost_there = false, is_lost_back = false;
  bool is_refused = false;  // connection refused: surely not applied
};

class LeaseWorld {
 public:
  struct Candidate {
    std::string identity;
    std::unique_ptr<leader::LeaseMachine> machine;
    local::Watch watch;
    bool is_watching = true;
    std::uint64_t asked = 0;  // number of the request under way; answers to others are too late
    SteadyPoint times_out = SteadyPoint::max();
    bool is_write = false;
    SteadyPoint stopped_until = SteadyPoint::min();
    seconds wall_offset{0};
    int reads = 0, writes = 0;
  };

  explicit LeaseWorld(int count, std::uint64_t seed = 1)
      : random_(seed), store_(clock, Random{seed}) {
    for (int i = 0; i < count; ++i) add();
  }

  // A process starts; also the next life of one that was killed.
  Candidate& add();

  // Its requests may still arrive.
  void kill(std::size_t index) { candidates.erase(candidates.begin() + static_cast<long>(index)); }

  void run(milliseconds time, milliseconds tick = milliseconds{10});

  // Runs until `claim` holds; how long that took. At most `most`.
  milliseconds run_until(const std::function<bool()>& claim, seconds most = seconds{60});

  Candidate* leader();
  std::size_t index_of(const Candidate& wanted) const;
  // The lease as it is stored, empty if there is none.
  nlohmann::json lease();
  void patch_lease(const nlohmann::json& patch);
  kube::HttpResponse handle(const kube::HttpRequest& request) { return store_.handle(request); }

  std::function<Passage(const Candidate&, const kube::HttpRequest&)> passage;
  FakeClock clock;
  std::vector<std::unique_ptr<Candidate>> candidates;
  std::vector<int> statuses;  // of the answers, in the order of the store

 private:
  struct Travelling {
    std::uint64_t number = 0;
    SteadyPoint arrives;
    milliseconds back{0};
    bool is_answered = true;
    kube::HttpRequest request;
  };
  struct Returning {
    std::uint64_t number = 0;
    SteadyPoint arrives;
    Result<kube::HttpResponse> answer;
  };

  void step();
  void deliver();
  void turn(Candidate& candidate);
  void end(Candidate& candidate, const Result<kube::HttpResponse>& answer);
  void send(Candidate& candidate, kube::HttpRequest request);
  void show(Candidate& candidate);

  Random random_;
  local::ApiStore store_;
  int next_name_ = 0;
  std::uint64_t next_number_ = 1;
  std::vector<Travelling> there_;
  std::vector<Returning> back_;
};

}  // namespace pawl::test
