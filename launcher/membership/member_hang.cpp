// A process that neither goes on nor ends (design §5, rule 13). Each launcher judges its own: who
// waits for other ranks beats while it waits, so that only the culprit falls silent. It is killed,
// and then it is as one that was killed by anybody.
#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <utility>

#include "common/base/mutant.h"
#include "launcher/membership/member.h"

namespace pawl::membership {
namespace {

using std::chrono::microseconds;

std::string seconds_text(std::chrono::nanoseconds time) {
  std::array<char, 40> text{};
  std::snprintf(text.data(), text.size(), "%.3g s", std::chrono::duration<double>(time).count());
  return text.data();
}

}  // namespace

void Member::kill(int local_rank, std::string why) {
  Process& process = processes_[static_cast<std::size_t>(local_rank)];
  process.killed_why = std::move(why);
  process.killed_at = ctx_.now.steady;
  ctx_.act(KillProcess{local_rank});
}

// Our own pause is no silence of theirs: a look counts for as much as one usually takes.
void Member::on_pulses(const std::vector<ProcessPulse>& pulses) {
  if (pulses.empty()) return;
  const std::chrono::nanoseconds time =
      std::clamp<std::chrono::nanoseconds>(ctx_.now.steady - looked_at_, {}, ctx_.timings.look_max);
  looked_at_ = ctx_.now.steady;
  for (const ProcessPulse& pulse : pulses) {
    Process& process = processes_[static_cast<std::size_t>(pulse.local_rank)];
    see(process, pulse, time);
    if (!process.is_running || is_stopping()) continue;
    if (process.killed_at) {
      give_up_unkillable(pulse.local_rank);
    } else if (auto why = hang_of(process)) {
      process.is_hung = true;
      kill(pulse.local_rank, std::move(*why));
    }
  }
}

// Who is held by a debugger is looked after, and who ends needs no help.
void Member::see(Process& process, const ProcessPulse& pulse, std::chrono::nanoseconds time) const {
  const bool is_excused = pulse.state == RunState::kTraced || pulse.state == RunState::kEnds;
  const bool has_moved = pulse.beats != process.pulse.beats || is_excused;
  const bool is_still_stopped =
      pulse.state == RunState::kStopped && process.pulse.state == RunState::kStopped;
  process.silent = has_moved ? std::chrono::nanoseconds{0} : process.silent + time;
  process.stopped = is_still_stopped ? process.stopped + time : std::chrono::nanoseconds{0};
  process.pulse = pulse;
}

std::optional<std::string> Member::hang_of(const Process& process) const {
  const ProcessPulse& pulse = process.pulse;
  const Timings& timings = ctx_.timings;
  if (is_mutant(Mutant::kB45HangUnseen)) return std::nullopt;
  const std::string where = std::string(" in phase ") + api::phase_name(pulse.phase) + " of step " +
                            std::to_string(pulse.step);
  if (pulse.state == RunState::kStopped && process.stopped >= timings.stopped_max) {
    return "it has been stopped by a signal for " + seconds_text(process.stopped) +
           (pulse.beats > 0 ? "," + where : "");
  }
  if (pulse.beats == 0 || pulse.phase == api::Phase::kOther) return std::nullopt;
  const bool is_known = pulse.usual.count() > 0;
  const microseconds least =
      pulse.phase == api::Phase::kData ? timings.hang_data : timings.hang_min;
  const microseconds limit =
      is_known ? std::max(least, pulse.usual * timings.hang_factor) : timings.hang_first;
  if (process.silent < limit) return std::nullopt;
  return "it has not moved for " + seconds_text(process.silent) + where +
         (is_known ? " (99 of 100 times it does within " + seconds_text(pulse.usual) + ")" : "");
}

// Storage or a driver that holds it in the kernel. Nobody can take its place while it is there, and
// the others need not wait to learn that.
void Member::give_up_unkillable(int local_rank) {
  const Process& process = processes_[static_cast<std::size_t>(local_rank)];
  if (ctx_.now.steady - *process.killed_at < ctx_.timings.kill_grace) return;
  fail_own({.local_rank = local_rank,
            .exit_code = 128 + SIGKILL,
            .signal = SIGKILL,
            .message = "and it does not end: storage or a driver holds it in the kernel"});
}

}  // namespace pawl::membership
