#include "trainer-runtime/trainer/pulse.h"

#include <unistd.h>
#include <charconv>
#include <utility>

#include "common/api/contract.h"
#include "common/os/process.h"
#include "trainer-runtime/trainer/trace.h"

namespace pawl::trainer {

Pulse::Pulse(const Clock& clock, int page_fd) : clock_(clock) {
  if (auto memory = os::SharedMemory::map(page_fd, sizeof(api::PulsePage)))
    memory_ = std::move(*memory);
}

Pulse Pulse::of_launcher(const Clock& clock) {
  const auto number = os::env(api::kEnvPulseFd);
  int fd = -1;
  if (number) std::from_chars(number->data(), number->data() + number->size(), fd);
  return fd < 0 ? Pulse{clock} : Pulse{clock, fd};
}

void Pulse::begin_generation() {
  auto* at = page();
  if (at == nullptr) return;
  at->process.store(::getpid(), std::memory_order_relaxed);
  for (auto& phase : at->times) {
    for (auto& count : phase) count.store(0, std::memory_order_relaxed);
  }
}

void Pulse::enter(api::Phase phase) {
  beat();
  phase_ = phase;
  if (trace_ != nullptr) trace_->enter(api::phase_name(phase));
  if (auto* at = page()) {
    at->phase.store(static_cast<std::uint32_t>(phase), std::memory_order_release);
    at->beats.fetch_add(1, std::memory_order_release);
  }
}

void Pulse::enter(api::Phase phase, std::int64_t step) {
  if (auto* at = page()) at->step.store(step, std::memory_order_relaxed);
  enter(phase);
}

void Pulse::beat() {
  auto* at = page();
  if (at == nullptr) return;
  const SteadyPoint now = clock_.steady_now();
  if (last_ != SteadyPoint{}) api::count_time(*at, phase_, now - last_);
  last_ = now;
  at->beats.fetch_add(1, std::memory_order_release);
}

}  // namespace pawl::trainer
