// A process that neither goes on nor ends (design §5, rule 13). Each launcher judges its own: who
// waits for other ranks beats while it waits, so that only the culprit falls silent. It is killed,
// and then it is as one that was killed by anybody.
#include <algorithm>
#include <array>
#include <cstdio>
#include <utility>

#include "common/base/mutant.h"
#include "launcher/membership/member.h"

namespace pawl::membership {
namespace {

std::string seconds_text(std::chrono::microseconds time) {
  std::array<char, 40> text{};
  std::snprintf(text.data(), text.size(), "%.3g s", std::chrono::duration<double>(time).count());
  return text.data();
}

std::chrono::microseconds micros(std::chrono::nanoseconds time) {
  return std::chrono::duration_cast<std::chrono::microseconds>(time);
}

}  // namespace

Member::Process Member::new_process() const {
  Process process;
  process.is_running = true;
  process.moved_at = process.ran_at = ctx_.now.steady;
  return process;
}

// Our own pause is no silence of theirs.
void Member::forgive_silence() {
  link_.forgive_silence();
  for (Process& process : processes_) process.moved_at = process.ran_at = ctx_.now.steady;
}

void Member::kill(int local_rank, std::string why) {
  processes_[static_cast<std::size_t>(local_rank)].killed_why = std::move(why);
  ctx_.act(KillProcess{local_rank});
}

void Member::on_pulses(const std::vector<ProcessPulse>& pulses) {
  for (const ProcessPulse& pulse : pulses) {
    Process& process = processes_[static_cast<std::size_t>(pulse.local_rank)];
    // Who is held by a debugger is looked after.
    const bool is_held = pulse.state == RunState::kTraced;
    if (is_held || pulse.beats != process.pulse.beats) process.moved_at = ctx_.now.steady;
    const bool is_still_stopped =
        pulse.state == RunState::kStopped && process.pulse.state == RunState::kStopped;
    if (!is_still_stopped) process.ran_at = ctx_.now.steady;
    process.pulse = pulse;
    if (!process.is_running || !process.killed_why.empty() || is_stopping()) continue;
    if (auto why = hang_of(process)) kill(pulse.local_rank, std::move(*why));
  }
}

std::optional<std::string> Member::hang_of(const Process& process) const {
  const ProcessPulse& pulse = process.pulse;
  const Timings& timings = ctx_.timings;
  const std::string where = std::string(" in phase ") + api::phase_name(pulse.phase) + " of step " +
                            std::to_string(pulse.step);
  if (is_mutant(Mutant::kB45HangUnseen)) return std::nullopt;
  const auto stopped = micros(ctx_.now.steady - process.ran_at);
  if (pulse.state == RunState::kStopped && stopped >= timings.hang_min) {
    return "it has been stopped by a signal for " + seconds_text(stopped) +
           (pulse.beats > 0 ? "," + where : "");
  }
  if (pulse.beats == 0 || pulse.phase == api::Phase::kOther) return std::nullopt;
  const bool is_known = pulse.usual.count() > 0;
  const std::chrono::microseconds limit =
      is_known
          ? std::max<std::chrono::microseconds>(timings.hang_min, pulse.usual * timings.hang_factor)
          : timings.hang_first;
  const auto silent = micros(ctx_.now.steady - process.moved_at);
  if (silent < limit) return std::nullopt;
  return "it has not moved for " + seconds_text(silent) + where +
         (is_known ? " (99 of 100 times it does within " + seconds_text(pulse.usual) + ")" : "");
}

}  // namespace pawl::membership
