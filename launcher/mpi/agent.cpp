#include "launcher/mpi/agent.h"

#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <utility>

#include "common/api/contract.h"
#include "common/os/process.h"
#include "launcher/mpi/report.h"
#include "launcher/supervisor/oom.h"

namespace pawl::launcher::mpi {
namespace {

constexpr std::chrono::milliseconds kTurn{50};
constexpr std::chrono::seconds kStrangerMax{5}, kCommandGrace{2};
constexpr std::chrono::seconds kOrderlyEnd{15};  // the launcher may kill us before
constexpr std::size_t kCallersMax = 256, kUnsentMax = 1 << 20;
constexpr int kSignalBase = 128;  // a shell says so of its child

}  // namespace

Result<std::unique_ptr<Agent>> Agent::create(Place place, std::map<std::string, std::string> env,
                                             const Clock& clock) {
  auto agent = std::unique_ptr<Agent>(new Agent(std::move(place), std::move(env), clock));
  PAWL_TRY_VOID(agent->listen());
  return agent;
}

Agent::Agent(Place place, std::map<std::string, std::string> env, const Clock& clock)
    : place_(std::move(place)), env_(std::move(env)), clock_(clock), oom_kills_(oom_kills()) {}

Agent::~Agent() {
  for (auto& [id, caller] : callers_) {
    if (caller.command && caller.command->is_running) ::kill(-caller.command->pid, SIGKILL);
  }
}

Status Agent::listen() {
  PAWL_TRY(poller, Poller::create());
  poller_ = std::move(poller);
  PAWL_TRY(signals, Signals::create(*poller_, [this](int signal) { on_signal(signal); }));
  signals_ = std::move(signals);
  PAWL_TRY(where, os::split_host_port(place_.addresses[static_cast<std::size_t>(place_.rank)]));
  PAWL_TRY(listener, os::listen_tcp(where.first, where.second));
  PAWL_TRY_VOID(os::set_nonblocking(listener.get(), true));
  listener_ = std::move(listener);
  poller_->add(listener_.get(), EPOLLIN, [this](std::uint32_t) { accept_all(); });
  return {};
}

int Agent::run() {
  while (!code_ || is_running_any()) {
    poller_->run_once(kTurn);
    on_tick();
  }
  hang_up();
  // Rank 0's worker may have the reason: whoever has none to tell ends after the one that has, for
  // its end is what the gang's other programs are ended for.
  const SteadyPoint until = clock_.steady_now() + kBlameWait;
  while (*code_ == api::kExitRetry && !was_told_ && clock_.steady_now() < until)
    poller_->run_once(kTurn);
  return *code_;
}

void Agent::hang_up() {
  for (const auto& [id, caller] : callers_) {
    if (!caller.is_lost) poller_->remove(caller.wire.fd());
  }
  callers_.clear();
}

void Agent::accept_all() {
  while (true) {
    os::Fd fd{::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK)};
    if (!fd.is_open()) return;
    if (callers_.size() >= kCallersMax) continue;
    const Id id = ++last_id_;
    const int number = fd.get();
    callers_.emplace(id, Caller{Wire{std::move(fd), Side::kAgent, place_.key}, clock_.steady_now(),
                                false, false, std::nullopt});
    poller_->add(number, EPOLLIN | EPOLLOUT, [this, id](std::uint32_t) { service(id); });
  }
}

void Agent::service(Id id) {
  const auto found = callers_.find(id);
  if (found == callers_.end() || found->second.is_lost) return;
  const Status done = found->second.wire.service();
  for (const Frame& frame : found->second.wire.take_frames()) on_frame(id, frame);
  if (!done) return drop(id, done.error().message);
  const Wire& wire = found->second.wire;
  poller_->modify(wire.fd(), wire.has_unsent() ? EPOLLIN | EPOLLOUT : EPOLLIN);
  watch_output(id);
}

void Agent::on_frame(Id id, const Frame& frame) {
  Caller& caller = callers_.at(id);
  if (frame.type == kRunCommand && !caller.command && !code_) {
    start(id, frame.text);
  } else if (frame.type == kAttend) {
    caller.is_job = true;
    caller.wire.send(kAttending, os::host_name());
  } else if (frame.type == kAskVerdict) {
    caller.wire.send(kVerdict, std::to_string(verdict()));
  } else if (frame.type == kEnd && caller.is_job) {
    int code = api::kExitRetry;
    std::from_chars(frame.text.data(), frame.text.data() + frame.text.size(), code);
    const std::size_t blank = frame.text.find(' ');
    finish(code, blank == std::string::npos ? "" : frame.text.substr(blank + 1));
  }
}

void Agent::start(Id id, const std::string& command) {
  Caller& caller = callers_.at(id);
  auto spawned = spawn(SpawnOptions{{"/bin/sh", "-c", command}, env_, {}});
  if (!spawned) {
    caller.wire.send(kErrors, "pawl: " + spawned.error().message + "\n");
    caller.wire.send(kExited, "127");
    return;
  }
  for (const os::Fd* fd : {&spawned->out, &spawned->err}) {
    const Status set = os::set_nonblocking(fd->get(), true);
    if (!set) print_error(set.error().message);
  }
  caller.command = Command{.pid = spawned->pid,
                           .out = std::move(spawned->out),
                           .err = std::move(spawned->err),
                           .is_read = false};
  watch_output(id);
}

// Not while the other side does not take what it has.
void Agent::watch_output(Id id) {
  Caller& caller = callers_.at(id);
  if (!caller.command) return;
  Command& command = *caller.command;
  const bool is_wanted = caller.wire.unsent_bytes() < kUnsentMax && command.is_running;
  if (is_wanted == command.is_read) return;
  command.is_read = is_wanted;
  for (const bool is_error : {false, true}) {
    const os::Fd& fd = is_error ? command.err : command.out;
    if (!fd.is_open()) continue;
    if (is_wanted) {
      poller_->add(fd.get(), EPOLLIN,
                   [this, id, is_error](std::uint32_t) { pass_output(id, is_error); });
    } else {
      poller_->remove(fd.get());
    }
  }
}

void Agent::pass_output(Id id, bool is_error) {
  const auto found = callers_.find(id);
  if (found == callers_.end() || !found->second.command) return;
  Caller& caller = found->second;
  os::Fd& fd = is_error ? caller.command->err : caller.command->out;
  std::array<char, 16 * 1024> bytes{};
  while (fd.is_open()) {
    const ssize_t count = ::read(fd.get(), bytes.data(), bytes.size());
    if (count > 0) {
      caller.wire.send(is_error ? kErrors : kOutput,
                       {bytes.data(), static_cast<std::size_t>(count)});
      if (caller.wire.unsent_bytes() < kUnsentMax || !caller.command->is_running) continue;
    } else if (count == 0 || (errno != EAGAIN && errno != EINTR)) {
      poller_->remove(fd.get());
      fd.reset();
    }
    break;
  }
  if (!caller.is_lost) poller_->modify(caller.wire.fd(), EPOLLIN | EPOLLOUT);
  watch_output(id);
}

void Agent::on_signal(int signal) {
  if (signal == SIGCHLD) return reap();
  // mpirun is told the same, and ends its daemons in order; the other signals are for it to pass.
  const bool is_end = signal == SIGTERM || signal == SIGINT;
  was_told_ = was_told_ || is_end;
  const bool has_job =
      std::ranges::any_of(callers_, [](const auto& entry) { return entry.second.is_job; });
  if (is_end && !has_job) return finish(api::kExitRetry, "told to terminate");
  if (is_end && !end_at_) end_at_ = clock_.steady_now() + kOrderlyEnd;
}

void Agent::reap() {
  while (true) {
    int status = 0;
    const pid_t pid = ::waitpid(-1, &status, WNOHANG);
    if (pid <= 0) return;
    const auto found = std::ranges::find_if(callers_, [&](const auto& entry) {
      return entry.second.command && entry.second.command->pid == pid;
    });
    if (found == callers_.end()) continue;
    on_exited(found->first,
              WIFSIGNALED(status) ? kSignalBase + WTERMSIG(status) : WEXITSTATUS(status));
  }
}

void Agent::on_exited(Id id, int code) {
  Caller& caller = callers_.at(id);
  Command& command = *caller.command;
  command.is_running = false;
  ::kill(-command.pid, SIGKILL);  // what it has left
  // A shell says so of its child's signal; a larger code is a program's own.
  const bool is_signal = code > kSignalBase && code <= kSignalBase + SIGSYS;
  if (is_signal && !command.is_ended_by_us && !code_) {
    own_code_ = code;
    report("a command of mpirun on this worker was killed by signal " +
           std::to_string(code - kSignalBase));
  }
  for (const bool is_error : {false, true}) pass_output(id, is_error);
  caller.wire.send(kExited, std::to_string(code));
  if (caller.is_lost) {
    callers_.erase(id);
  } else {
    poller_->modify(caller.wire.fd(), EPOLLIN | EPOLLOUT);
  }
}

void Agent::end_command(Command& command) {
  if (!command.is_running || command.is_ended_by_us) return;
  command.is_ended_by_us = true;
  ::kill(-command.pid, SIGCONT);  // first, as in Supervisor::stop_all
  ::kill(-command.pid, SIGTERM);
  command.kill_at = clock_.steady_now() + kCommandGrace;
}

void Agent::drop(Id id, const std::string& why) {
  Caller& caller = callers_.at(id);
  poller_->remove(caller.wire.fd());
  const bool is_job = caller.is_job;
  if (caller.command && caller.command->is_running) {
    caller.is_lost = true;  // goes with its command
    end_command(*caller.command);
  } else {
    callers_.erase(id);
  }
  if (is_job) finish(api::kExitRetry, "the connection of rank 0's worker was lost: " + why);
}

void Agent::on_tick() {
  const SteadyPoint now = clock_.steady_now();
  std::vector<Id> strangers;
  for (auto& [id, caller] : callers_) {
    if (!caller.wire.is_trusted() && now - caller.since > kStrangerMax) strangers.push_back(id);
    if (!caller.command || !caller.command->kill_at || now < *caller.command->kill_at) continue;
    caller.command->kill_at.reset();
    if (caller.command->is_running) ::kill(-caller.command->pid, SIGKILL);
  }
  for (const Id id : strangers) drop(id, "it has not said who it is");
  if (end_at_ && now >= *end_at_) {
    end_at_.reset();
    finish(api::kExitRetry, "told to terminate");
  }
}

// A code of this worker's own stands, unless the job has ended well all the same.
void Agent::finish(int code, const std::string& why) {
  if (code_) return;
  const int own = verdict();
  code_ = code == api::kExitRetry && own != 0 ? own : code;
  if (*code_ != 0 && *code_ != api::kExitRetry && own == 0) report(why);
  if (*code_ == api::kExitRetry) print_error(why);
  for (auto& [id, caller] : callers_) {
    if (caller.command) end_command(*caller.command);
  }
}

// The launcher looks itself whether memory was the reason, where a program says that it was killed.
int Agent::verdict() const {
  if (own_code_ != 0) return own_code_;
  const bool is_counted = place_.is_pod && oom_kills() > oom_kills_;
  return is_counted ? kSignalBase + SIGKILL : 0;
}

bool Agent::is_running_any() const {
  return std::ranges::any_of(callers_, [](const auto& entry) {
    return entry.second.command && entry.second.command->is_running;
  });
}

int run_agent(std::map<std::string, std::string> env, const Clock& clock) {
  const auto place = take_place(env);
  if (!place) {
    print_error(place.error().message);
    return api::kExitFatal;
  }
  auto agent = Agent::create(*place, std::move(env), clock);
  if (!agent) {
    report("the agent cannot start: " + agent.error().message);
    return api::kExitUser;
  }
  return (*agent)->run();
}

}  // namespace pawl::launcher::mpi
