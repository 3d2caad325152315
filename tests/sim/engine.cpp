#include "tests/sim/engine.h"

#include <algorithm>
#include <cstdio>
#include <utility>

namespace pawl::sim {

void Engine::after(milliseconds delay, Work work) {
  queue_.push({elapsed_ + std::max(delay, milliseconds{0}), ++sequence_, std::move(work)});
}

bool Engine::run_until(milliseconds end) {
  while (!is_stopped_ && !queue_.empty() && queue_.top().time <= end) {
    // top() is const only so that the order stays; this event leaves the queue at once.
    Event event = std::move(const_cast<Event&>(queue_.top()));  // NOLINT
    queue_.pop();
    elapsed_ = event.time;
    event.work();
  }
  if (!is_stopped_) elapsed_ = std::max(elapsed_, end);
  return !is_stopped_;
}

void Engine::trace(std::string_view line) {
  if (!is_recording_) return;
  char time[32];
  std::snprintf(time, sizeof time, "%9.3f ", static_cast<double>(elapsed_.count()) / 1000);
  lines_.push_back(time + std::string{line});
}

}  // namespace pawl::sim
