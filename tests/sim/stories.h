// Runs whose course is written down: small scenarios, which the exhaustive mode repeats with one
// fault at each possible place (after Sieve), and long cluster lives.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tests/sim/world.h"

namespace pawl::sim {

struct Story {
  std::string name;
  std::function<void(World&)> run;
  bool has_queues = false;    // and the operator decides on nodes
  bool asks_by_pods = false;  // … or the scheduler, of pods without one
};
const std::vector<Story>& stories();
// A process that starts now sees this kind (empty: all kinds) as it was twenty seconds ago.
void show_past(World& world, const std::string& plural, seconds time);

// What is done to a story, and at which of the operator's writes (counted from 1).
enum class Blow {
  kNone,
  kCrashBefore,  // the write is lost with the process
  kCrashAfter,   // it is applied, nobody hears of it
  kLoseReply,    // it is applied, the answer is lost
  kHideEvents,   // what happens in the next seconds is seen by a new list only
  kStalePods,    // after a write of the record: the process dies, the next one sees no new pods
  kTimeTravel    // before a deletion: the process dies, the next one sees the past
};
const char* blow_name(Blow blow);
struct Experiment {
  std::string story;
  Blow blow = Blow::kNone;
  std::uint64_t at = 0;
  std::string text() const;  // "suspend:crash-after:12", as --scenario takes it
};
bool parse_experiment(const std::string& text, Experiment& out);
RunResult run_experiment(const Experiment& experiment, bool is_recording);

struct Exploration {
  std::uint64_t runs = 0, faults = 0, hash = 0;
  std::vector<std::pair<Experiment, Failure>> failures;
};
// All experiments of one story, or of all ("").
Exploration explore(const std::string& story, bool goes_on);

// Node churn, spot storms and API outages for so many hours of virtual time.
RunResult run_hours(std::uint64_t seed, int hours, bool is_recording);

}  // namespace pawl::sim
