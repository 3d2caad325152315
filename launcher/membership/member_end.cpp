// How a member ends: its processes exit, are stopped, or the gang is.
#include <algorithm>
#include <csignal>
#include <utility>

#include "common/api/contract.h"
#include "launcher/membership/member.h"

namespace pawl::membership {

namespace channel = api::channel;

void Member::on_process_exited(const ProcessExited& exited) {
  Process& process = processes_[static_cast<std::size_t>(exited.local_rank)];
  // Killed, and not yet gone when it was told: its end is news all the same.
  const bool is_news = !exited.was_told || (!is_native() && exited.was_killed && !is_stopping());
  if (exited.exit_code != 0 && is_news && can_outlive(exited)) return outlive(exited);
  process.is_running = process.is_working = false;
  process.exit_code = exited.exit_code;
  // Told to make room for the next generation, it may well say that with 0; it has not finished.
  if (!is_native() && exited.was_told && !is_stopping()) process.exit_code.reset();
  if (exited.exit_code != 0 && !exited.was_told && !is_of_end(exited)) fail_own(exited);
}

// A gang that ends, and not for its programs, has been told so, and this launcher has written it
// down: what a foreign program makes of the loss of its peers before the signal reaches it is no
// failure of it.
bool Member::is_of_end(const ProcessExited& exited) const {
  const bool is_judged = !is_native() && is_stopping() && !has_own_failure_ && !is_program_blamed_;
  return is_judged && exited.exit_code != api::kExitFatal && !exited.is_out_of_memory &&
         !was_killed(failure_of(exited));
}

api::Failure Member::failure_of(const ProcessExited& exited) const {
  // 75 says "not my fault": a peer or the network failed under it.
  const bool is_victim = exited.exit_code == api::kExitRetry;
  const Process& process = processes_[static_cast<std::size_t>(exited.local_rank)];
  // It may have ended by something else just before.
  const bool is_ours = process.killed_at && exited.signal == SIGKILL && !exited.is_out_of_memory;
  api::Failure failure{
      .rank = rank_of(exited.local_rank),
      .pod = ctx_.id.pod,
      .node = ctx_.id.node,
      .pod_uid = ctx_.id.self.uid,
      .exit_code = exited.exit_code,
      .cause = is_ours && process.is_hung ? api::kCauseHang
               : is_victim                ? api::kCauseVictim
               : exited.is_out_of_memory  ? api::kCauseOutOfMemory
               : exited.signal != 0       ? api::kCauseSignal
                                          : api::kCauseError,
      .message = "rank " + std::to_string(rank_of(exited.local_rank)) +
                 (exited.signal != 0 ? " was killed by signal " + std::to_string(exited.signal)
                                     : " exited with code " + std::to_string(exited.exit_code)),
      .log_tail = exited.log_tail,
      .attempt = ctx_.id.attempt,
      .time = ctx_.now.wall};
  if (exited.signal != 0) failure.signal = exited.signal;
  if (is_ours) failure.message = "killed, because " + process.killed_why;
  if (!exited.message.empty()) failure.message += ": " + exited.message;
  return failure;
}

void Member::fail_own(const ProcessExited& exited) {
  api::Failure failure = failure_of(exited);
  ctx_.note("process_failed", failure.message, true);
  if (has_own_failure_) return;
  has_own_failure_ = true;
  link_.send(Exit{failure});
  ctx_.act(WriteTermination{std::move(failure)});
  if (is_stopping()) {
    exit_code_ = exited.exit_code;
    return;
  }
  begin_stop(exited.exit_code, false, "a process of this launcher failed");
}

void Member::on_stop_gang(const StopGang& stop) {
  switch (stop.reason) {
    case StopReason::kSuspended:
      return begin_stop(api::kExitDrained, stop.is_saving, "the job is suspended");
    case StopReason::kDrained:
      // Of a gang that ends. Who only leaves its place to another has nothing to tell, or has told
      // that it is the machine; then the exit code says which of the two it is.
      if (stop.is_saving && !is_stopping() && interruption_.empty()) tell_victim(stop.why);
      return begin_stop(leave_by_ && !(stop.is_saving && !interruption_.empty()) ? api::kExitDrained
                                                                                 : api::kExitRetry,
                        stop.is_saving, stop.why);
    case StopReason::kGone:
      return begin_stop(api::kExitDrained, false, stop.why);
    case StopReason::kStale:
      return begin_stop(api::kExitRetry, false, stop.why);
    case StopReason::kFailed:
      is_program_blamed_ = stop.is_program_blamed;
      if (!is_program_blamed_) forget_own_loss();
      return end_as_victim(stop.why);
  }
}

// What the loss of a peer did to a foreign program is no failure of it.
void Member::forget_own_loss() {
  if (!is_native() && own_loss_ && !was_killed(*own_loss_)) own_loss_.reset();
}

// One rank was enough, or all that count. A foreign program may go on without it for ever; of a
// parameter server that is what was asked.
void Member::end_if_others_have() {
  if (is_native() || is_finished_ || is_stopping()) return;
  const bool is_server =
      commit_ && ctx_.is_parameter_server(member_rank_, commit_->group.status.members.size());
  begin_stop(is_server ? api::kExitDone : api::kExitRetry, false, "the job has finished");
}

void Member::end_as_victim(const std::string& why) {
  if (is_stopping()) return;
  if (own_loss_) {  // which the gang has not outlived
    ctx_.act(WriteTermination{*own_loss_});
    return begin_stop(own_loss_->exit_code.value_or(api::kExitUser), false, why);
  }
  tell_victim(why);
  begin_stop(api::kExitRetry, false, why);
}

void Member::tell_victim(const std::string& why) { tell_left(api::kCauseVictim, why); }

void Member::tell_left(const char* cause, const std::string& why) {
  ctx_.act(WriteTermination{api::Failure{.rank = commit_ ? rank_of(0) : -1,
                                         .pod = ctx_.id.pod,
                                         .node = ctx_.id.node,
                                         .pod_uid = ctx_.id.self.uid,
                                         .cause = cause,
                                         .message = why,
                                         .attempt = ctx_.id.attempt,
                                         .time = ctx_.now.wall}});
}

void Member::begin_stop(int code, bool is_saving, const std::string& why) {
  if (is_stopping()) return;
  exit_code_ = code;
  ctx_.note("stopping", why);
  set_ready(false);
  const auto& timings = ctx_.timings;
  stop_deadline_ = ctx_.now.steady + timings.save_grace + timings.kill_grace + timings.goodbye_max;
  stop_processes(is_saving);
}

void Member::stop_processes(bool is_saving) {
  const auto& timings = ctx_.timings;
  const bool can_be_told =
      is_saving && is_native() &&
      std::ranges::any_of(processes_, [](const Process& process) { return process.is_working; });
  for (std::size_t i = 0; i < processes_.size(); ++i) {
    if (!processes_[i].is_running || !can_be_told) continue;
    ctx_.act(TellProcess{static_cast<int>(i), channel::Stop{.is_saving = true}});
  }
  if (can_be_told) {
    term_at_ = ctx_.now.steady + timings.save_grace;
  } else {
    ctx_.act(StopProcesses{is_saving ? timings.save_grace : timings.kill_grace});
  }
}

bool Member::is_replaceable() const {
  return commit_ && !is_finished_ && ctx_.record && ctx_.record->spec.has_successors;
}

std::optional<SteadyPoint> Member::leader_lost_since() const {
  return is_replaceable() && !link_.is_joined() ? link_.failing_since() : std::nullopt;
}

// The leader says when to go: at once where the gang stops, else when the others have its state.
void Member::on_termination_asked(const std::string& interruption) {
  if (is_stopping() || leave_by_) return;
  if (is_finished_ && !interruption.empty()) return;  // there is nothing left to leave
  const std::string why = interruption.empty() ? "told to terminate" : interruption;
  interruption_ = interruption;
  if (!interruption.empty()) tell_left(api::kCauseInterrupted, why);
  report(true);
  link_.send(Leaving{});
  ctx_.is_leaving = true;
  if (is_replaceable()) {
    leave_by_ = ctx_.now.steady + ctx_.timings.save_grace;
    // It may save beside the others' coming to rest, and whether they are heard or not.
    if (!is_native()) ctx_.act(StopProcesses{ctx_.timings.save_grace});
    return ctx_.note("leaving", why);
  }
  if (commit_ && interruption.empty()) tell_victim(why);
  begin_stop(api::kExitDrained, commit_.has_value(), why);
}

void Member::on_node_checked(const std::string& fault) {
  const bool was_waiting = !is_fit();
  check_by_.reset();
  if (!fault.empty()) return on_node_fault(fault);
  if (was_waiting && ctx_.record && !is_stopping()) link_.retarget();
}

// What runs here can neither be trusted nor, perhaps, be asked anything: it ends at once. The
// others hold what it held, and another pod, elsewhere, takes its place. Where nobody may, or all
// are still to begin, the attempt ends; either way the exit code says which of the two.
void Member::on_node_fault(const std::string& what) {
  if (is_stopping() || is_finished_) return;
  const bool ends_gang = commit_ && !is_replaceable();
  has_own_failure_ = true;  // whatever its processes make of it
  tell_left(api::kCauseGpuFault, what);
  report(true);
  if (ends_gang) {
    link_.send(Exit{api::Failure{.rank = rank_of(0),
                                 .node = ctx_.id.node,
                                 .cause = api::kCauseGpuFault,
                                 .message = what,
                                 .time = ctx_.now.wall}});
  } else if (!commit_) {
    link_.send(Leaving{});  // no gang is to begin with it
  }
  exit_code_ = ends_gang ? api::kExitRetry : api::kExitDrained;
  ctx_.note("node_fault", what, true);
  set_ready(false);
  stop_deadline_ = ctx_.now.steady + ctx_.timings.kill_grace;
  ctx_.act(StopProcesses{std::chrono::milliseconds{0}});
}

void Member::on_tick() {
  // A driver that does not even answer is no reason to wait for ever: what fails will say so.
  if (check_by_ && ctx_.now.steady >= *check_by_) on_node_checked("");
  link_.on_tick();
  rest_alone();
  report(false);
  retry_writes();
  if (term_at_ && ctx_.now.steady >= *term_at_) {
    term_at_.reset();
    ctx_.act(StopProcesses{ctx_.timings.kill_grace});
  }
}

void Member::decide() {
  if (is_through_) return;
  tell_ready();
  drive_parking();
  if (leave_by_ && ctx_.now.steady >= *leave_by_)
    begin_stop(api::kExitDrained, true, "told to terminate, and nobody has its state");
  const auto loss = link_.take_loss();
  const bool are_gone = are_all([](const Process& process) { return !process.is_running; });
  if (is_stopping()) {
    if ((are_gone && writes_.empty()) || ctx_.now.steady >= stop_deadline_) {
      report(true);
      link_.send(Left{});
      is_through_ = true;
    }
    return;
  }
  const bool is_done =
      are_all([](const Process& process) { return process.exit_code == 0; }) && writes_.empty();
  if (is_done && commit_ && !is_finished_) {
    is_finished_ = true;
    report(true);
    goodbye_deadline_ = ctx_.now.steady + ctx_.timings.goodbye_max;
  }
  if (is_finished_ && link_.is_joined() && finished_told_on_ != link_.joins()) {
    finished_told_on_ = link_.joins();
    link_.send(Finished{});
  }
  // The leader itself stays until the record says so.
  const bool is_late =
      goodbye_deadline_ && ctx_.now.steady >= *goodbye_deadline_ && !ctx_.is_leader();
  if (is_finished_ && (was_goodbye_said_ || loss || is_late)) {
    exit_code_ = api::kExitDone;
    is_through_ = true;
    return;
  }
  if (loss && commit_ && !is_replaceable()) {
    forget_own_loss();
    return end_as_victim("lost the leading launcher: " + *loss);
  }
  if (loss) {  // the record will say who leads, or that another pod has this one's place
    ctx_.note("leader_lost", *loss, true);
    ctx_.act(WatchRecord{true});
  }
  if (!commit_ && link_.failing_since()) {
    const auto failing = ctx_.now.steady - *link_.failing_since();
    if (link_.is_refused() && failing > ctx_.timings.refused_max) {
      give_up(api::kExitRetry, link_.why());
    } else if (failing > ctx_.timings.unreachable_max) {
      end_as_victim("cannot reach the leading launcher: " + link_.why());
    }
  }
}

}  // namespace pawl::membership
