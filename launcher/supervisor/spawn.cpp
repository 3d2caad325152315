#include "launcher/supervisor/spawn.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <array>
#include <cerrno>
#include <csignal>
#include <utility>

#include "common/os/process.h"

namespace pawl::launcher {
namespace {

Result<std::pair<os::Fd, os::Fd>> make_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return fail(Code::kIo, "pipe: " + os::errno_text());
  return std::pair{os::Fd{ends[0]}, os::Fd{ends[1]}};
}

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

struct ChildFds {
  int out, err, error;
  const std::vector<int>& kept;
};

// Between fork and exec only calls that are safe there: other threads may hold any lock.
[[noreturn]] void run_child(const ChildFds& fds, char** argv, char** env, pid_t parent) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  const int in = ::open("/dev/null", O_RDONLY);
  if (in >= 0) ::dup2(in, STDIN_FILENO);
  ::dup2(fds.out, STDOUT_FILENO);
  ::dup2(fds.err, STDERR_FILENO);
  for (const int fd : fds.kept) ::fcntl(fd, F_SETFD, 0);
  // The launcher ignores SIGPIPE and blocks what it reads through a descriptor; both would be
  // inherited.
  struct sigaction usual = {};
  usual.sa_handler = SIG_DFL;
  for (int signal = 1; signal < NSIG; ++signal) ::sigaction(signal, &usual, nullptr);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  if (::getppid() == parent) ::execvpe(argv[0], argv, env);
  const int error = errno;
  [[maybe_unused]] const auto written = ::write(fds.error, &error, sizeof error);
  ::_exit(127);
}

}  // namespace

Code code_of_exec(int error) {
  switch (error) {
    case ENOENT:
    case ENOTDIR:
    case EISDIR:
    case EACCES:
    case ENOEXEC:
      return Code::kInvalid;
    default:
      return Code::kIo;
  }
}

Result<Spawned> spawn(const SpawnOptions& options) {
  PAWL_TRY(out, make_pipe());
  PAWL_TRY(err, make_pipe());
  PAWL_TRY(failure, make_pipe());
  std::vector<std::string> command = options.command, env;
  for (const auto& [name, value] : options.env) env.push_back(name + "=" + value);
  const std::vector<char*> argv = pointers_to(command), envp = pointers_to(env);
  const ChildFds fds{out.second.get(), err.second.get(), failure.second.get(), options.kept_fds};
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) return fail(Code::kIo, "fork: " + os::errno_text());
  if (pid == 0)
    run_child(fds, const_cast<char**>(argv.data()), const_cast<char**>(envp.data()), parent);
  ::setpgid(pid, pid);  // in both, so that it holds whoever runs first
  failure.second.reset();
  int error = 0;
  ssize_t count = 0;
  do {
    count = ::read(failure.first.get(), &error, sizeof error);
  } while (count < 0 && errno == EINTR);
  if (count == sizeof error) {
    ::waitpid(pid, nullptr, 0);
    return fail(code_of_exec(error),
                "cannot start \"" + options.command.front() + "\": " + os::errno_text(error));
  }
  return Spawned{pid, std::move(out.first), std::move(err.first)};
}

}  // namespace pawl::launcher
