// The known bugs of common/base/mutant.h, one by one: is each caught, by which oracle, how soon?
// Each mutant runs in a process of its own, because some end in an abort or never end.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/mutant.h"

namespace pawl::sim {

struct MutantName {
  Mutant mutant;
  const char* name;       // "B03NoGate"
  bool is_quick = false;  // caught within a few seeds
};
const std::vector<MutantName>& mutants();

struct Kill {
  bool is_killed = false;
  std::string oracle;       // who saw it; "O13" for an abort
  std::uint64_t seeds = 0;  // that were run until then
  std::string experiment;   // of the exhaustive mode, if the seeds did not show it
};
// Seeds `first`, first + 1, …, at most `seeds_max`; then the exhaustive mode, if allowed.
Kill hunt(Mutant mutant, std::uint64_t first, std::uint64_t seeds_max, bool is_exhaustive);

}  // namespace pawl::sim
