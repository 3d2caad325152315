#include "cli/local/keeper_process.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>
#include <array>
#include <cerrno>
#include <csignal>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/api/contract.h"
#include "common/base/json.h"
#include "common/os/process.h"
#include "common/os/processes.h"
#include "common/os/seqpacket.h"

namespace pawl::local {
namespace {

constexpr int kKillRounds =
    500;  // against a pod that forks while it is killed, or hangs in the kernel
constexpr int kKillPauseMs = 1;
constexpr int kLogMode = 0644;

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

// In the child between fork and exec. Returns only if it failed, with errno.
int become(std::vector<std::string>& command, std::vector<std::string>& environment,
           const std::string& folder, int log) {
  ::setsid();
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  for (const int number : {SIGPIPE, SIGINT, SIGTERM, SIGHUP}) std::signal(number, SIG_DFL);
  // A container's main process is PID 1, which a signal does not end before it can handle it. Ours
  // takes over what waits; others would never hear of it.
  sigset_t blocked;
  sigemptyset(&blocked);
  if (command[0].ends_with("/pawl-launch")) sigaddset(&blocked, SIGTERM);
  ::sigprocmask(SIG_SETMASK, &blocked, nullptr);
  const int nothing = ::open("/dev/null", O_RDONLY);
  ::dup2(nothing, STDIN_FILENO);
  ::dup2(log, STDOUT_FILENO);
  ::dup2(log, STDERR_FILENO);
  if (!folder.empty() && ::chdir(folder.c_str()) != 0) return errno;
  const auto argv = pointers_to(command);
  const auto envp = pointers_to(environment);
  ::execvpe(argv[0], argv.data(), envp.data());
  return errno;
}

class KeeperProcess {
 public:
  explicit KeeperProcess(os::Fd socket) : socket_(std::move(socket)) {}

  [[noreturn]] void run() {
    detach();
    sigset_t child_ended;
    sigemptyset(&child_ended);
    sigaddset(&child_ended, SIGCHLD);
    ::sigprocmask(SIG_BLOCK, &child_ended, nullptr);
    const os::Fd signals{::signalfd(-1, &child_ended, SFD_CLOEXEC | SFD_NONBLOCK)};
    while (true) {
      std::array<pollfd, 2> waiting{{{socket_.get(), POLLIN, 0}, {signals.get(), POLLIN, 0}}};
      if (::poll(waiting.data(), waiting.size(), -1) < 0 && errno != EINTR) break;
      if (waiting[1].revents != 0) {
        std::array<signalfd_siginfo, 8> ignored;
        while (::read(signals.get(), ignored.data(), sizeof ignored) > 0) {
        }
        reap();
      }
      if (waiting[0].revents != 0 && !obey()) break;
    }
    end();
  }

 private:
  // Out of the terminal's process group (Ctrl-C is `pawl`'s to answer), parent to all orphans
  // below, no inherited descriptor but the socket.
  void detach() {
    ::setsid();
    ::prctl(PR_SET_NAME, "pawl-keeper");
    ::prctl(PR_SET_CHILD_SUBREAPER, 1);
    for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGPIPE}) std::signal(number, SIG_IGN);
    const int nothing = ::open("/dev/null", O_RDWR);
    ::dup2(nothing, STDIN_FILENO);
    ::dup2(nothing, STDOUT_FILENO);
    const int last_standard = STDERR_FILENO;
    for (int fd = last_standard + 1; fd < socket_.get(); ++fd) ::close(fd);
    ::close_range(static_cast<unsigned>(socket_.get()) + 1, ~0u, 0);
  }

  // One order of the parent; false when it is gone.
  bool obey() {
    auto packet = os::receive_packet(socket_.get(), std::chrono::milliseconds{0});
    if (!packet) return false;
    if (!*packet) return true;
    const nlohmann::json order = parse_json((*packet)->text);  // our own parent wrote it
    if (order.at("type") == "start") {
      start(order);
    } else {
      signal(order.at("id"), order.at("number"));
    }
    return true;
  }

  void start(const nlohmann::json& order) {
    const std::string id = order.at("id");
    const std::string log_path = order.at("log");
    const auto refuse = [&](const std::string& message) {
      report({{"type", "refused"}, {"id", id}, {"message", message}});
    };
    const os::Fd log{::open(log_path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, kLogMode)};
    if (!log.is_open()) return refuse("cannot write " + log_path + ": " + os::errno_text());
    std::vector<std::string> command = order.at("command");
    std::vector<std::string> environment;
    for (const auto& [name, value] : order.at("environment").items()) {
      environment.push_back(name + "=" + value.get<std::string>());
    }
    // The pipe closes on exec; before that it carries exec's error.
    std::array<int, 2> pipe{};
    if (command.empty() || ::pipe2(pipe.data(), O_CLOEXEC) != 0)
      return refuse("no command, or no pipe");
    const os::Fd reader{pipe[0]};
    os::Fd writer{pipe[1]};
    const pid_t pid = ::fork();
    if (pid < 0) return refuse("fork: " + os::errno_text());
    if (pid == 0) {
      const int error = become(command, environment, order.at("folder"), log.get());
      const auto written = ::write(writer.get(), &error, sizeof error);
      ::_exit(written > 0 ? 127 : 126);
    }
    writer.reset();
    int error = 0;
    if (::read(reader.get(), &error, sizeof error) == static_cast<ssize_t>(sizeof error)) {
      ::waitpid(pid, nullptr, 0);
      return refuse("cannot start \"" + command.front() + "\": " + os::errno_text(error));
    }
    mains_.emplace(pid, id);
    report({{"type", "started"}, {"id", id}, {"pid", pid}});
  }

  void signal(const std::string& id, int number) {
    for (const auto& [pid, main_id] : mains_) {
      if (main_id != id) continue;
      if (number == SIGKILL) kill_strays(pid, id);
      ::kill(pid, number);
      return;
    }
  }

  // Everything of a pod but its main process, and not before it is gone: the next attempt must not
  // meet it.
  void kill_strays(pid_t main, const std::string& id) {
    const std::string mark = std::string{api::kEnvPodUid} + "=" + id;
    std::set<pid_t> ended;  // none is reaped in here, so each keeps its number
    for (int round = 0; round < kKillRounds; ++round) {
      bool is_clean = true;
      for (const os::ProcessInfo& info : os::descendants_of(::getpid())) {
        if (info.pid == main) continue;
        if (info.is_zombie) {
          // It may have forked after /proc was listed: what it left is in the next list.
          is_clean = is_clean && !ended.insert(info.pid).second;
          continue;
        }
        const auto is_ours =
            info.session == main ? std::optional{true} : os::has_environment(info.pid, mark);
        if (is_ours == false) continue;
        is_clean = false;  // also where it cannot be said yet whose it is
        if (is_ours == true) ::kill(info.pid, SIGKILL);
      }
      if (is_clean) return;
      ::poll(nullptr, 0, kKillPauseMs);
    }
  }

  void reap() {
    int wait_status = 0;
    pid_t pid = 0;
    while ((pid = ::waitpid(-1, &wait_status, WNOHANG)) > 0) {
      const auto main = mains_.find(pid);
      if (main == mains_.end()) continue;  // an orphan of some pod
      const std::string id = main->second;
      mains_.erase(main);
      kill_strays(pid, id);
      nlohmann::json event = {{"type", "exited"}, {"id", id}};
      if (WIFSIGNALED(wait_status)) {
        event["signal"] = WTERMSIG(wait_status);
        event["code"] = 128 + WTERMSIG(wait_status);
      } else {
        event["code"] = WEXITSTATUS(wait_status);
      }
      report(event);
    }
  }

  void report(const nlohmann::json& event) {
    // A parent that is gone shows at the next poll.
    static_cast<void>(os::send_packet(socket_.get(), event.dump()));
  }

  [[noreturn]] void end() {
    while (true) {
      for (const os::ProcessInfo& info : os::descendants_of(::getpid())) ::kill(info.pid, SIGKILL);
      // Orphans come to us as their parents die; no child left means nothing left.
      const pid_t pid = ::waitpid(-1, nullptr, 0);
      if (pid < 0 && errno == ECHILD) ::_exit(0);
    }
  }

  os::Fd socket_;
  std::map<pid_t, std::string> mains_;
};

}  // namespace

void run_keeper(os::Fd socket) { KeeperProcess{std::move(socket)}.run(); }

}  // namespace pawl::local
