// One simulated run: everything of tests/sim put together, its two phases, and what came of it.
// Safety phase: faults at the rates of the knobs, oracles on. Liveness phase: faults stop, and
// everything must come to its end within a bound, and then be quiet.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/sim/operator_process.h"
#include "tests/sim/oracles.h"

namespace pawl::sim {

struct RunResult {
  std::optional<Failure> failure;
  std::uint64_t hash = 0, events = 0, operator_writes = 0;
  std::map<std::string, std::uint64_t> faults;
  std::vector<std::string> trace;
};

class World {
 public:
  World(std::uint64_t seed, Knobs knobs, bool is_recording);
  ~World();

  // The whole run. `story` (null: the seed's own) replaces what the user and the faults do.
  RunResult run(const std::function<void(World&)>& story = nullptr);
  // Within a story: everything that is due in this time.
  void pass(milliseconds time) { engine.run_until(engine.elapsed() + time); }
  RunResult result();

  // For stories.
  void begin_faults();
  // At random times, so far apart on average, until the faults stop.
  void every(milliseconds mean, std::function<void()> action);
  void every(int per_minute, std::function<void()> action);
  void respawn();     // what has ended makes room for something new
  void make_noise();  // something that may look like anything to every gang that runs now

  Knobs knobs;
  Engine engine;
  Truth truth;
  ApiServer api;
  PeerNet net{engine};
  Training training;
  Oracles oracles;
  People people;
  Nodes nodes;
  OperatorProcess operator_process, second_operator;  // the second one if knobs.operators > 1

 private:
  std::vector<OperatorProcess*> operators();
  OperatorProcess& any_operator();
  void check_leader(const OperatorProcess& sender, const kube::HttpRequest& request);
  void each_link(const std::function<void(Link&)>& action);
  void play();
  void inject_api_faults();
  void inject_node_faults();
  void inject_people();
  void stop_faults();
  void converge();
  void be_quiet();
};

// The run of a seed as `./dev sim --seeds 1 --seed S` makes it.
RunResult run_seed(std::uint64_t seed, bool is_recording);

}  // namespace pawl::sim
