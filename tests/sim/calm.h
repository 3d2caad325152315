// When a launcher may turn seldom: weeks of a gang that has settled must pass in seconds (Pace in
// knobs.h). Without a pace of its own it turns as ever.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "launcher/membership/membership.h"
#include "tests/sim/engine.h"
#include "tests/sim/knobs.h"

namespace pawl::sim {

class Calm {
 public:
  Calm(const Engine& engine, const Pace& pace)
      : engine_(engine), pace_(pace), last_news_(engine.elapsed()) {}
  // True: it was calm and is not any more, so that its next turn must not be waited for.
  bool is_ended_by(const membership::Input& input);
  milliseconds tick_every() const;
  membership::Timings timings() const;
  std::uint64_t turn = 0;  // of the ticks only the newest chain goes on

 private:
  bool is_calm() const;
  bool is_news(const membership::Input& input);

  const Engine& engine_;
  const Pace& pace_;
  milliseconds last_news_;
  std::optional<std::pair<api::WorkerGroupSpec, std::int64_t>> known_;  // … and its generation
};

}  // namespace pawl::sim
