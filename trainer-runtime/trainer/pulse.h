// Says in the launcher's page (common/api/pulse.h) where the training thread is. What is usual is
// of one generation: another number of ranks makes other shards, other rings and other neighbours
// on the host. One thread.
#pragma once

#include "common/api/pulse.h"
#include "common/base/clock.h"
#include "common/os/shared_memory.h"

namespace pawl::trainer {

class Trace;

class Pulse {
 public:
  // Nobody looks.
  explicit Pulse(const Clock& clock) : clock_(clock) {}
  // Nobody looks at what cannot be mapped.
  Pulse(const Clock& clock, int page_fd);
  // On the page that the launcher gave, if it gave one.
  static Pulse of_launcher(const Clock& clock);

  void begin_generation();
  void enter(api::Phase phase);
  void enter(api::Phase phase, std::int64_t step);
  // It moves, in the phase where it is.
  void beat();
  // What it enters, this learns, too; null: nobody.
  void tell(Trace* trace) { trace_ = trace; }

 private:
  api::PulsePage* page() {
    return memory_.bytes().empty() ? nullptr
                                   : reinterpret_cast<api::PulsePage*>(memory_.bytes().data());
  }

  const Clock& clock_;
  os::SharedMemory memory_;
  api::Phase phase_ = api::Phase::kOther;
  SteadyPoint last_{};
  Trace* trace_ = nullptr;
};

}  // namespace pawl::trainer
