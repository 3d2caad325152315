// Explores every order of events of a small gang with the production rules of generations.h: what a
// random schedule may miss. No clock, no links: an event that does not happen is a lost message, a
// partition or a stopped process, and bytes once sent may be used at any later time. Reports the
// shortest history that breaks an invariant. The idea of the model and what each rule closes:
// tests/sim/README.md.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace pawl::sim {

struct SearchBounds {
  int founders = 3;     // members of the first generation, of three launchers
  int generations = 3;  // that are ever committed
  int steps = 2;        // that are ever made
  int launcher_crashes = 1, process_crashes = 0;
  std::uint64_t states_max = 200'000'000;
};

struct SearchResult {
  std::uint64_t states = 0;
  std::string violation;             // "": none
  std::vector<std::string> history;  // that led to it
  bool is_complete = true;           // false: states_max was reached
};

SearchResult search_generations(const SearchBounds& bounds);

}  // namespace pawl::sim
