// Drives the two sides through one sequence and says where they differ; makes a sequence that
// differs as short as it gets.
#pragma once

#include <optional>

#include "sequence_server.h"

namespace pawl::conformance {

struct Difference {
  std::size_t step = 0;  // of the sequence; its size: beyond the steps
  std::string what;      // with both sides' words
};

class SequenceRunner {
 public:
  explicit SequenceRunner(SequenceServer& server, std::string prefix)
      : server_(server), prefix_(std::move(prefix)) {}

  // In a namespace of its own. Empty: alike.
  std::optional<Difference> run(const std::vector<Step>& steps, std::uint64_t seed);
  // Drops steps as long as what is left still differs. At most `runs_max` runs.
  std::vector<Step> shrink(std::vector<Step> steps, std::uint64_t seed, int runs_max);

  std::size_t requests = 0, events = 0;

 private:
  SequenceServer& server_;
  std::string prefix_;
  int namespaces_ = 0;
};

}  // namespace pawl::conformance
