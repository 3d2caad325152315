#include "launcher/mpi/run.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>
#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <filesystem>
#include <set>
#include <utility>

#include "common/api/contract.h"
#include "common/os/process.h"
#include "launcher/mpi/report.h"
#include "launcher/supervisor/spawn.h"

namespace pawl::launcher::mpi {
namespace {

constexpr std::chrono::milliseconds kTurnMax{100}, kDialAgain{50}, kDialOne{3000};
constexpr std::chrono::milliseconds kAnswerMax{1000}, kHangUpMax{6000};
constexpr std::chrono::milliseconds kBlameTurn{20};
constexpr std::chrono::milliseconds kToldMax{2000}, kHeardMax{60'000};
constexpr int kKilledBase = 128;

// Where nobody else may read it; a container's root may be read-only.
Result<std::string> make_private_folder(const std::map<std::string, std::string>& env) {
  const auto tmp = env.find("TMPDIR");
  for (const std::string& parent : {tmp == env.end() ? std::string{} : tmp->second,
                                    std::string{"/tmp"}, std::string{"/dev/shm"}}) {
    struct statvfs volume{};
    // The program in place of ssh lies there.
    const bool can_execute =
        ::statvfs(parent.c_str(), &volume) == 0 && (volume.f_flag & ST_NOEXEC) == 0;
    std::string path = parent + "/pawl-mpi-XXXXXX";
    if (can_execute && ::mkdtemp(path.data()) != nullptr) return path;
  }
  return fail(Code::kInvalid,
              "mpirun needs a folder for programs and sockets, and neither TMPDIR nor /tmp can be "
              "written to: mount an emptyDir at /tmp");
}

Status write_private(const std::string& path, const std::string& text, mode_t mode) {
  const os::Fd file{::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode)};
  const bool is_written = file.is_open() && ::write(file.get(), text.data(), text.size()) ==
                                                static_cast<ssize_t>(text.size());
  if (!is_written) return fail(Code::kIo, "writing " + path + ": " + os::errno_text());
  return {};
}

}  // namespace

Run::Run(Place place, RunOptions options, std::map<std::string, std::string> env,
         const Clock& clock)
    : place_(std::move(place)),
      options_(std::move(options)),
      env_(std::move(env)),
      clock_(clock),
      hosts_(hosts_of(place_)) {}

Run::~Run() {
  if (pid_ > 0 && !code_) ::kill(-pid_, SIGKILL);
  std::error_code error;
  if (!folder_.empty()) std::filesystem::remove_all(folder_, error);
}

int Run::run() {
  const Status started = start();
  if (!started) {
    report(started.error().message);
    const bool is_final = started.error().code == Code::kInvalid;
    const int code = is_final ? api::kExitFatal : api::kExitUser;
    tell_end(std::vector<int>(agents_.size(), api::kExitRetry), started.error().message);
    return code;
  }
  while (!code_) poller_->run_once(kTurnMax);
  std::vector<int> codes(agents_.size(), *code_ == 0 ? api::kExitDone : api::kExitRetry);
  const int code = *code_ == 0 ? api::kExitDone : judge(codes);
  tell_end(codes, "the command on rank 0's worker ended with code " + std::to_string(*code_));
  // The worker that has the reason ends first (Agent::run).
  const SteadyPoint until = clock_.steady_now() + kBlameWait;
  while (code == api::kExitRetry && !was_told_ && clock_.steady_now() < until)
    poller_->run_once(kBlameTurn);
  return code;
}

Status Run::start() {
  std::set<std::string> names;
  for (const Host& host : hosts_) {
    if (names.insert(host.name).second) continue;
    return fail(Code::kInvalid, "two workers have the address " + host.name +
                                    " (hostNetwork?), which mpirun takes for one machine: give "
                                    "each worker a node, or a network, of its own");
  }
  PAWL_TRY(poller, Poller::create());
  poller_ = std::move(poller);
  // Until the command runs, a signal to end does what it does to any program.
  PAWL_TRY_VOID(dial_all());
  PAWL_TRY_VOID(write_files());
  PAWL_TRY(signals, Signals::create(*poller_, [this](int signal) { on_signal(signal); }));
  signals_ = std::move(signals);
  auto spawned = spawn(SpawnOptions{options_.command, env_, {}});
  if (!spawned) {
    const bool is_mpi = options_.command.front().starts_with("mpi");
    return fail(spawned.error().code,
                spawned.error().message +
                    (is_mpi ? ": the worker's image has to have an MPI with it (Debian: "
                              "openmpi-bin or mpich)"
                            : ""));
  }
  pid_ = spawned->pid;
  out_ = std::move(spawned->out);
  err_ = std::move(spawned->err);
  for (os::Fd* fd : {&out_, &err_}) {
    PAWL_TRY_VOID(os::set_nonblocking(fd->get(), true));
    const bool is_error = fd == &err_;
    poller_->add(fd->get(), EPOLLIN, [this, fd, is_error](std::uint32_t) {
      pass_output(*fd, is_error ? STDERR_FILENO : STDOUT_FILENO, is_error ? err_scan_ : out_scan_);
    });
  }
  return {};
}

// One after the other; all launchers begin at the same time, but not all machines are as fast.
Status Run::dial_all() {
  const SteadyPoint give_up = clock_.steady_now() + options_.dial_max;
  agents_.resize(hosts_.size() - 1);
  for (std::size_t i = 0; i < agents_.size(); ++i) {
    agents_[i].name = "worker " + std::to_string(i + 1) + " (" + hosts_[i + 1].address + ")";
    PAWL_TRY(where, os::split_host_port(hosts_[i + 1].address));
    while (!agents_[i].wire) {
      auto fd = os::connect_tcp(where.first, where.second, kDialOne);
      if (fd) {
        agents_[i].wire.emplace(std::move(*fd), Side::kCaller, place_.key);
      } else if (clock_.steady_now() >= give_up) {
        return fail(Code::kUnavailable, "the agent of " + agents_[i].name +
                                            " does not answer: " + fd.error().message +
                                            "; is traffic between the job's pods allowed?");
      } else {
        poller_->run_once(kDialAgain);
      }
    }
    agents_[i].wire->send(kAttend);
    poller_->add(agents_[i].wire->fd(), EPOLLIN | EPOLLOUT,
                 [this, i](std::uint32_t) { service(i); });
    poller_->run_once(std::chrono::milliseconds{0});  // who is connected does not wait to hear us
  }
  const auto left =
      std::chrono::duration_cast<std::chrono::milliseconds>(give_up - clock_.steady_now());
  wait_for([](const Agent& agent) { return agent.is_attending || !agent.wire; },
           std::max(left, kAnswerMax));
  for (const Agent& agent : agents_) {
    if (agent.is_attending && agent.wire) continue;
    return fail(Code::kUnavailable, "the agent of " + agent.name + " does not take part: " +
                                        (agent.wire ? "no answer" : agent.lost_why));
  }
  return {};
}

Status Run::write_files() {
  PAWL_TRY(folder, make_private_folder(env_));
  folder_ = folder;
  const Files files{folder_};
  PAWL_TRY_VOID(write_private(files.open_mpi_hosts, open_mpi_hostfile(hosts_, place_.slots), 0600));
  PAWL_TRY_VOID(write_private(files.hydra_hosts, hydra_hostfile(hosts_, place_.slots), 0600));
  PAWL_TRY_VOID(write_private(files.agents, agents_file(hosts_), 0600));
  PAWL_TRY_VOID(write_private(files.key, place_.key, 0600));
  PAWL_TRY_VOID(
      write_private(files.remote_shell, remote_shell_script(options_.launcher, folder_), 0700));
  set_variables(env_, files, place_, ::geteuid() == 0);
  return {};
}

void Run::service(std::size_t index) {
  Agent& agent = agents_[index];
  if (!agent.wire) return;
  const Status done = agent.wire->service();
  for (const Frame& frame : agent.wire->take_frames()) {
    if (frame.type == kAttending) {
      agent.is_attending = true;
      agent.host_name = frame.text;
    }
    if (frame.type != kVerdict) continue;
    int code = 0;
    std::from_chars(frame.text.data(), frame.text.data() + frame.text.size(), code);
    agent.verdict = code;
  }
  if (!done) return lose(index, done.error().message);
  poller_->modify(agent.wire->fd(), agent.wire->has_unsent() ? EPOLLIN | EPOLLOUT : EPOLLIN);
}

void Run::lose(std::size_t index, const std::string& why) {
  Agent& agent = agents_[index];
  poller_->remove(agent.wire->fd());
  agent.wire.reset();
  agent.lost_why = why;
}

bool Run::wait_for(bool (*is_there)(const Agent&), std::chrono::milliseconds timeout) {
  const SteadyPoint deadline = clock_.steady_now() + timeout;
  while (!std::ranges::all_of(agents_, is_there)) {
    if (clock_.steady_now() >= deadline) return false;
    poller_->run_once(kTurnMax);
  }
  return true;
}

void Run::pass_output(os::Fd& fd, int to, BlameScan& scan) {
  std::array<char, 64 * 1024> bytes{};
  if (!fd.is_open()) return;
  const ssize_t count = ::read(fd.get(), bytes.data(), bytes.size());
  if (count > 0) {
    const std::string_view text{bytes.data(), static_cast<std::size_t>(count)};
    write_whole(to, text);
    scan.feed(text);
  } else if (count == 0 || (errno != EAGAIN && errno != EINTR)) {
    poller_->remove(fd.get());
    fd.reset();
  }
}

// The command is in a group of its own: what the launcher tells us, we tell it.
void Run::on_signal(int signal) {
  if (signal == SIGCHLD) {
    int status = 0;
    pid_t pid = 0;
    while ((pid = ::waitpid(-1, &status, WNOHANG)) > 0) {
      if (pid == pid_) on_exited(status);
    }
    return;
  }
  if (signal == SIGTERM || signal == SIGINT) was_told_ = true;
  if (pid_ > 0 && !code_) ::kill(-pid_, signal);
}

void Run::on_exited(int status) {
  ::kill(-pid_, SIGKILL);  // what it has left
  for (os::Fd* fd : {&out_, &err_}) {
    // All that it has said, but not what strays still say.
    constexpr int kReadsMax = 64;
    const bool is_error = fd == &err_;
    for (int i = 0; i < kReadsMax; ++i) {
      pass_output(*fd, is_error ? STDERR_FILENO : STDOUT_FILENO, is_error ? err_scan_ : out_scan_);
    }
  }
  code_ = WIFSIGNALED(status) ? kKilledBase + WTERMSIG(status) : WEXITSTATUS(status);
}

int Run::judge(std::vector<int>& agent_codes) {
  if (was_told_) return *code_;
  for (Agent& agent : agents_) {
    if (agent.wire) agent.wire->send(kAskVerdict);
  }
  for (std::size_t i = 0; i < agents_.size(); ++i) service(i);
  wait_for([](const Agent& agent) { return agent.verdict.has_value() || !agent.wire; }, kAnswerMax);
  bool is_elsewhere = false;
  for (const Agent& agent : agents_) {
    const bool is_lost = !agent.wire;
    const bool is_culprit = agent.verdict.value_or(0) != 0;
    if (is_lost) print_error("lost " + agent.name + ": " + agent.lost_why);
    if (is_culprit) print_error("the failure was at " + agent.name);
    is_elsewhere = is_elsewhere || is_lost || is_culprit;
  }
  if (is_elsewhere) return api::kExitRetry;
  const auto& blame = err_scan_.first() ? err_scan_.first() : out_scan_.first();
  const auto rank = blame ? rank_of(blame->host) : std::nullopt;
  if (!rank) return *code_;
  const int code = kKilledBase + blame->signal;
  if (*rank == 0) return code;
  agent_codes[*rank - 1] = code;
  return api::kExitRetry;
}

// As the list of hosts has it, or as the machine calls itself: under `pawl run` all are one.
std::optional<std::size_t> Run::rank_of(const std::string& host) const {
  for (std::size_t rank = 0; rank < hosts_.size(); ++rank) {
    if (hosts_[rank].name == host) return rank;
  }
  if (host == os::host_name()) return 0;
  for (std::size_t i = 0; i < agents_.size(); ++i) {
    if (agents_[i].host_name == host) return i + 1;
  }
  return std::nullopt;
}

void Run::tell_end(const std::vector<int>& codes, const std::string& why) {
  for (std::size_t i = 0; i < agents_.size() && i < codes.size(); ++i) {
    if (!agents_[i].wire) continue;
    const bool is_blamed = codes[i] > kKilledBase;
    agents_[i].wire->send(
        kEnd, std::to_string(codes[i]) + " " +
                  (is_blamed ? "mpirun says that a rank on this worker was killed by signal " +
                                   std::to_string(codes[i] - kKilledBase)
                             : why));
    service(i);
  }
  // Their daemons are gone when they hang up. One that has not heard of a good end would wait for
  // it for ever; who is told to end has no time to wait for the dead.
  const bool is_done = code_ == 0 && !was_told_;
  wait_for([](const Agent& agent) { return !agent.wire; },
           is_done ? kHeardMax : (was_told_ ? kToldMax : kHangUpMax));
}

int run_command(RunOptions options, std::map<std::string, std::string> env, const Clock& clock) {
  auto place = take_place(env);
  if (!place) {
    print_error(place.error().message);
    return api::kExitFatal;
  }
  Run run{std::move(*place), std::move(options), std::move(env), clock};
  return run.run();
}

}  // namespace pawl::launcher::mpi
