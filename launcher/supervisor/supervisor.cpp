#include "launcher/supervisor/supervisor.h"

#include <sys/wait.h>
#include <unistd.h>
#include <algorithm>
#include <csignal>
#include <utility>

#include "common/api/contract.h"
#include "common/os/processes.h"
#include "launcher/supervisor/error_file.h"
#include "launcher/supervisor/oom.h"
#include "launcher/supervisor/run_state.h"

namespace pawl::launcher {
namespace {
// An output that nobody reads must not hold back the news of a death.
constexpr std::chrono::milliseconds kTailWait{500};
constexpr std::chrono::milliseconds kStraysWait{5'000};  // of what even SIGKILL does not end
}  // namespace

Supervisor::Supervisor(const Clock& clock, std::shared_ptr<Inbox> inbox,
                       std::unique_ptr<LogPump> logs, Events events)
    : clock_(clock),
      inbox_(std::move(inbox)),
      logs_(std::move(logs)),
      events_(std::move(events)),
      oom_kills_(oom_kills()) {}

Supervisor::~Supervisor() {
  for (const auto& [local_rank, process] : processes_) {
    if (process.is_running) signal_group(process, SIGKILL);
  }
}

Status Supervisor::start(int local_rank, const SpawnOptions& options,
                         const std::string& error_file) {
  // What the one before it wrote there is not this one's, nor what memory its helpers wanted.
  if (!error_file.empty()) ::unlink(error_file.c_str());
  if (!is_any_running()) oom_kills_ = oom_kills();
  if (standbys_) reap();  // who stood by may have ended
  auto taken = standbys_ ? standbys_->take(local_rank, options) : std::nullopt;
  PAWL_TRY(spawned, taken ? Result<Spawned>{std::move(*taken)} : spawn(options));
  Process process;
  process.pid = spawned.pid;
  process.is_running = true;
  process.started_at = clock_.steady_now();
  process.error_file = error_file;
  processes_[local_rank] = std::move(process);
  logs_->add(local_rank, std::move(spawned.out), std::move(spawned.err));
  return {};
}

void Supervisor::signal_group(const Process& process, int signal) const {
  if (process.pid > 0) ::kill(-process.pid, signal);
}

void Supervisor::stop_all(std::chrono::milliseconds grace) {
  reap();  // who is dead already did not die of this
  for (auto& [local_rank, process] : processes_) {
    if (!process.is_running) continue;
    process.was_told = true;
    // A stopped process would keep the signal pending for ever. It goes on before it is told: who
    // looks at a process that ends (a tracer, as leak checkers are) stops it by SIGSTOP, and a
    // SIGCONT that comes then makes the two wait for each other for ever.
    signal_group(process, SIGCONT);
    signal_group(process, SIGTERM);
  }
  if (!is_any_told()) return;
  const SteadyPoint kill_at = clock_.steady_now() + grace;
  kill_at_ = kill_at_ ? std::min(*kill_at_, kill_at) : kill_at;
}

void Supervisor::kill(int local_rank) {
  const auto found = processes_.find(local_rank);
  if (found != processes_.end() && found->second.is_running) signal_group(found->second, SIGKILL);
}

void Supervisor::mark_told(int local_rank) {
  reap();
  const auto found = processes_.find(local_rank);
  if (found != processes_.end() && found->second.is_running) found->second.was_told = true;
}

void Supervisor::forward(int signal) {
  for (const auto& [local_rank, process] : processes_) {
    if (process.is_running) signal_group(process, signal);
  }
}

std::optional<membership::RunState> Supervisor::state_of(int local_rank, pid_t worker) const {
  const auto found = processes_.find(local_rank);
  if (found == processes_.end() || !found->second.is_running) return std::nullopt;
  return run_state(worker > 0 ? worker : found->second.pid);
}

void Supervisor::reap() {
  while (true) {
    siginfo_t info{};
    if (::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0) return;
    // While it is a zombie its number cannot be another's: what it leaves behind in its group
    // (loader workers, a shell's children) goes now, as with the end of a container.
    const auto ours = std::ranges::find_if(processes_, [&](const auto& entry) {
      return entry.second.is_running && entry.second.pid == info.si_pid;
    });
    if (ours != processes_.end()) signal_group(ours->second, SIGKILL);
    if (standbys_ && standbys_->has(info.si_pid)) ::kill(-info.si_pid, SIGKILL);
    int status = 0;
    ::waitpid(info.si_pid, &status, 0);
    if (ours != processes_.end()) {
      on_ended(ours->first, status);
    } else if (standbys_ && standbys_->on_ended(info.si_pid) && WIFSIGNALED(status)) {
      // If memory was short, it went first; that is no matter of a program.
      oom_kills_ = std::min(oom_kills_ + 1, oom_kills());
    }
  }
}

void Supervisor::on_ended(int local_rank, int status) {
  Process& process = processes_.at(local_rank);
  process.is_running = false;
  // The time of those that were told to end is no matter of those that take their places.
  if (!is_any_told()) kill_at_.reset();
  process.ended_at = clock_.steady_now();
  ProcessExited exited{.local_rank = local_rank, .was_told = process.was_told};
  if (WIFSIGNALED(status)) exited.signal = WTERMSIG(status);
  exited.exit_code = WIFSIGNALED(status) ? 128 + exited.signal : WEXITSTATUS(status);
  exited.was_killed = exited.signal == SIGKILL && !process.is_killed_by_us;
  if (exited.exit_code == 128 + SIGKILL) {  // a shell says the same of its child
    const std::int64_t kills = oom_kills();
    exited.is_out_of_memory = kills > oom_kills_;
    oom_kills_ = kills;
  }
  if (exited.exit_code != 0) exited.message = read_error_file(process.error_file);
  process.ended = exited;
  logs_->ask_tail(local_rank, [inbox = inbox_, this, local_rank](std::string tail) {
    inbox->post([this, local_rank, tail = std::move(tail)] { on_tail(local_rank, tail); });
  });
  if (events_.before_exit) events_.before_exit(local_rank);
}

void Supervisor::on_tail(int local_rank, const std::string& tail) {
  Process& process = processes_.at(local_rank);
  if (!process.ended) return;
  process.ended->log_tail = tail;
  process.has_tail = true;
  tell_ends();
}

// Programs start others in sessions of their own (a torchrun inside ours its workers), which come
// to us when their parents end. The next ones must not find them beside them: true when none is
// left.
bool Supervisor::end_strays() const {
  if (is_any_running()) return true;
  bool are_gone = true;
  for (const os::ProcessInfo& info : os::descendants_of(::getpid())) {
    if (info.is_zombie || (standbys_ && standbys_->has(::getpgid(info.pid)))) continue;
    are_gone = false;
    ::kill(info.pid, SIGKILL);
  }
  return are_gone;
}

void Supervisor::tell_ends() {
  const SteadyPoint now = clock_.steady_now();
  std::vector<int> due;
  for (const auto& [local_rank, process] : processes_) {
    if (process.ended && (process.has_tail || now - process.ended_at > kTailWait))
      due.push_back(local_rank);
  }
  if (due.empty()) return;
  const bool are_alone = end_strays();
  for (const int local_rank : due) {
    Process& process = processes_.at(local_rank);
    if (!process.ended || (!are_alone && now - process.ended_at < kStraysWait)) continue;
    // What it starts may be a process in the same place.
    events_.on_exited(*std::exchange(process.ended, std::nullopt));
  }
}

void Supervisor::on_tick() {
  reap();
  const SteadyPoint now = clock_.steady_now();
  tell_ends();
  look_after_standbys();
  if (!kill_at_ || now < *kill_at_) return;
  kill_at_.reset();
  for (auto& [local_rank, process] : processes_) {
    if (!process.is_running || !process.was_told) continue;
    process.is_killed_by_us = true;
    signal_group(process, SIGKILL);
  }
}

void Supervisor::look_after_standbys() {
  if (!standbys_) return;
  std::map<int, SteadyPoint> running_since;
  for (const auto& [local_rank, process] : processes_) {
    if (process.is_running && !process.was_told)
      running_since.emplace(local_rank, process.started_at);
  }
  standbys_->on_tick(running_since);
}

bool Supervisor::is_any_running() const {
  return std::ranges::any_of(processes_, [](const auto& entry) { return entry.second.is_running; });
}

bool Supervisor::is_any_told() const {
  return std::ranges::any_of(processes_, [](const auto& entry) {
    return entry.second.is_running && entry.second.was_told;
  });
}

}  // namespace pawl::launcher
