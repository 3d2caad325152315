// Between two generations: how a member brings its processes to rest, says what they hold, and
// replaces those that were killed.
#include <algorithm>
#include <utility>

#include "common/api/contract.h"
#include "launcher/membership/member.h"

namespace pawl::membership {

namespace channel = api::channel;

// By order, or because a collective failed under it. Either way it contributes nothing more to the
// generation, and nothing brings it back into it.
void Member::on_parked(int local_rank, const channel::Parked& parked) {
  Process& process = processes_[static_cast<std::size_t>(local_rank)];
  if (!process.is_working || is_stopping()) return;
  process.is_working = false;
  process.held = {parked.generation, parked.step};
  standing_.promise(standing_.entered());
  const Broken broken{standing_.entered(), parked.why, rank_of(local_rank), parked.unreached_rank};
  if (parking_) {  // what the others noticed of it came first
    if (broken.unreached_rank >= 0) link_.send(broken);
    return;
  }
  ctx_.note("process_parked", "rank " + std::to_string(broken.rank) + " at step " +
                                  std::to_string(parked.step) + ": " + parked.why);
  report(true);
  link_.send(broken);
}

void Member::on_park(const Park& park) {
  if (is_stopping() || (parking_ && parking_->generation > park.generation)) return;
  if (parking_ && parking_->generation == park.generation) {
    parking_->is_reported = false;  // asked again, on a new connection
    return;
  }
  standing_.promise(park.generation);
  parking_ = Parking{park.generation, ctx_.now.steady + ctx_.timings.park_max, false};
  if (!is_native()) {
    const bool may_save = park.is_calm || ctx_.is_leaving;
    const auto& timings = ctx_.timings;
    if (!is_at_rest()) ctx_.act(StopProcesses{may_save ? timings.save_grace : timings.kill_grace});
    return;
  }
  for (std::size_t i = 0; i < processes_.size(); ++i) {
    if (processes_[i].is_working) ctx_.act(TellProcess{static_cast<int>(i), channel::Park{}});
  }
}

// Cut off, and soon another pod may have this one's place: nobody else ends what runs here.
void Member::rest_alone() {
  const auto lost_since = leader_lost_since();
  if (is_native() || is_stopping() || !lost_since || is_at_rest()) return;
  if (ctx_.now.steady < *lost_since + ctx_.timings.foreign_alone || rested_alone_ == lost_since)
    return;
  rested_alone_ = lost_since;
  ctx_.note("programs_end", "the leading launcher is not heard", true);
  standing_.promise(standing_.entered());
  ctx_.act(StopProcesses{ctx_.timings.kill_grace});
}

// A program of another framework comes to rest by its end.
bool Member::is_at_rest() const {
  return std::ranges::none_of(processes_, [this](const Process& process) {
    return is_native() ? process.is_working : process.is_running;
  });
}

// A process that does not come to rest holds up all the others: another one takes its place, and
// their state.
void Member::drive_parking() {
  if (!parking_ || is_stopping()) return;
  if (ctx_.now.steady >= parking_->deadline) {
    const auto limit = std::chrono::duration_cast<std::chrono::seconds>(ctx_.timings.park_max);
    parking_->deadline = ctx_.now.steady + ctx_.timings.park_max;
    for (std::size_t i = 0; i < processes_.size(); ++i) {
      const bool is_traced = processes_[i].pulse.state == RunState::kTraced;
      const bool is_busy = is_native() ? processes_[i].is_working : processes_[i].is_running;
      if (!is_busy || is_traced || processes_[i].killed_at) continue;
      kill(static_cast<int>(i),
           "it did not come to rest within " + std::to_string(limit.count()) + " s");
    }
  }
  // What is on its way to storage may be the newest that there is: the end of it is told, too.
  const bool has_written = parking_->is_writing_told && writes_.empty();
  if ((!parking_->is_reported || has_written) && is_at_rest()) tell_parked();
}

void Member::tell_parked() {
  parking_->is_reported = true;
  parking_->is_writing_told = !writes_.empty();
  Parked parked{.generation = parking_->generation, .is_writing = parking_->is_writing_told};
  for (const Process& process : processes_) {
    const Holding held = process.is_running ? process.held : Holding{};
    parked.held.push_back(held);
    // One that holds nothing may have come in the place of one that did; not where each has a part
    // alone.
    const bool may_have_held = is_native() && !process.holds_part &&
                               process.welcomed_in == parking_->generation && held.generation == 0;
    parked.has_never_held =
        parked.has_never_held || has_surely_never_held(parking_->generation, held, may_have_held);
    parked.has_ended = parked.has_ended || process.exit_code == 0;
    parked.has_rested = parked.has_rested || process.exit_code != 0;
  }
  report(true);
  link_.send(std::move(parked));
}

// A process that was killed says nothing of the program: another one may do. One that ended with a
// code of its own is the failure policy's to judge, and so is every end that the policy names.
// Where memory is short another one is killed as well: the operator makes the micro-batch smaller.
// A program of another framework ends with a code of its own when a peer is lost, too: the leader
// tells the two apart, also in a gang that ends either way.
bool Member::can_outlive(const ProcessExited& exited) const {
  const bool may_be_a_victim =
      is_native() ? exited.signal != 0 : exited.exit_code != api::kExitFatal;
  const bool may_go_on = !exited.is_out_of_memory && standing_.entered() > 0 && !is_stopping() &&
                         !is_finished_ && ctx_.record;
  const bool is_judged = !is_native() && !was_killed(failure_of(exited));
  return may_be_a_victim && may_go_on && (is_judged || ctx_.record->spec.is_in_place);
}

void Member::outlive(const ProcessExited& exited) {
  Process& process = processes_[static_cast<std::size_t>(exited.local_rank)];
  api::Failure failure = failure_of(exited);
  ctx_.note("process_lost", failure.message, true);
  // Whoever comes in its place has not what this one may have contributed to.
  standing_.promise(standing_.entered());
  Process next;
  next.is_running = is_native();
  next.welcomed_in = process.welcomed_in;
  next.holds_part = process.holds_part;
  process = std::move(next);
  // What is being written will be there without it; nothing of it can be tried again.
  for (Write& write : writes_) {
    if (write.shard.local_rank != exited.local_rank) continue;
    write.is_orphan = true;
    if (!write.retry_at) continue;
    link_.send(ShardFailed{write.shard.rank, write.shard.generation, write.shard.step,
                           "its process was lost before it could be tried again"});
  }
  std::erase_if(writes_, [](const Write& write) { return write.is_orphan && write.retry_at; });
  ready_told_on_ = 0;
  if (parking_) parking_->is_reported = false;
  report(true);
  link_.send(ProcessLost{failure});
  if (is_native() || !own_loss_) own_loss_ = std::move(failure);
  if (is_native()) ctx_.act(ReplaceProcess{exited.local_rank});
}

}  // namespace pawl::membership
