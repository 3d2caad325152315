// The leader of a gang whose programs are another framework's. They hold nothing that a gang could
// go on from: with each generation all of them are started again, in the pods that stay, and load
// what they saved themselves (design §5, rule 12). When a rank is lost its peers fail within
// milliseconds, with codes of their own that say nothing of why; so all come to rest first, and
// then it is seen who was the first.
#include <csignal>
#include <utility>

#include "common/api/contract.h"
#include "common/base/mutant.h"
#include "launcher/membership/gang.h"

namespace pawl::membership {
bool was_killed(const api::Failure& failure) {
  constexpr int kShellBase = 128;  // a shell says so with a code
  const int code = failure.exit_code.value_or(0);
  const int signal = failure.signal.value_or(code > kShellBase ? code - kShellBase : 0);
  return signal == SIGKILL || signal == SIGTERM || signal == SIGINT || signal == SIGHUP;
}

void Gang::on_program_lost(const api::Failure& failure) {
  if (!lives()) return;
  const bool explains = was_killed(failure);
  const bool is_victim =
      failure.cause == api::kCauseVictim;  // code 75: not its fault. It explains nobody's
  if (explains || is_victim) remember(failure);
  if (!explains && !is_victim) failures_.add_program_end(failure);
  if (stage_ == Stage::kRunning) {
    is_explained_ = explains || roster_.has_to_go();  // it stops its own programs
    break_up(failure.message, change_of(failure.cause));
  } else if (explains) {
    is_explained_ = true;
    if (stage_ == Stage::kReforming) tally_.on_change(change_of(failure.cause), ctx_.now.steady);
  }
}

// In a gang that is broken too often, too: first it is seen who broke it.
bool Gang::gives_up_when_parked() {
  if (ctx_.keeps_processes() || reforms_ <= ctx_.timings.reforms_max) return false;
  give_up_reform(std::to_string(reforms_) + " times in a row without getting on");
  return true;
}

// Nothing is committed that would only be stopped again.
bool Gang::ends_at_rest() {
  if (ctx_.keeps_processes() || stage_ != Stage::kReforming) return false;
  if (ctx_.record->spec.is_stopping) {
    end(StopReason::kSuspended, true, "the job is suspended");
  } else if (roster_.has_to_end()) {
    end(StopReason::kDrained, true, "the leading launcher was told to terminate");
  }
  return stage_ != Stage::kReforming;
}

void Gang::note_programs_start() {
  reform_deadline_.reset();
  if (!broken_since_) return;
  const auto time =
      std::chrono::duration_cast<std::chrono::milliseconds>(ctx_.now.steady - *broken_since_);
  broken_since_.reset();
  ctx_.note("generation_runs", "generation " + std::to_string(roster_.generation) +
                                   ": all programs are started again, " +
                                   std::to_string(time.count()) +
                                   " ms after the one before it was broken");
}

// All are at rest. Where nothing was lost, what may have been has a moment to be heard of. Of a
// gang that does not go on in place a loss that explains the ends has ended it already.
bool Gang::is_judging() {
  if (is_explained_ && !is_mutant(Mutant::kI37VictimBlamed)) {
    failures_.forget_program_ends();
    // Nor are those named that say themselves that it was not their fault.
    failures_.forget_victims(roster_.generation);
  }
  const bool goes_on = ctx_.keeps_processes() || ctx_.record->spec.is_in_place;
  const auto& ends = failures_.program_ends();
  if (ends.empty() && goes_on) return false;
  const bool has_peers = roster_.members.size() * static_cast<std::size_t>(ctx_.id.processes) > 1;
  if (has_peers && broken_since_ && ctx_.now.steady < *broken_since_ + ctx_.timings.culprit_wait)
    return true;
  const std::string why =
      ends.empty() ? reform_why_ : ends.front().pod + ": " + ends.front().message;
  blame_program();
  end(StopReason::kFailed, false, why);
  return true;
}

void Gang::blame_program() {
  is_program_blamed_ = true;
  failures_.blame_programs(generation_of_failures());
}

}  // namespace pawl::membership
