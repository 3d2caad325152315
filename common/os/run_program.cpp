#include "common/os/run_program.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "common/os/fd.h"
#include "common/os/process.h"

namespace pawl::os {
namespace {

constexpr std::size_t kOutputBytesMax = 1 << 20;

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

Result<std::string> read_all(int fd) {
  std::string text;
  char buffer[4096];
  while (true) {
    const ssize_t count = ::read(fd, buffer, sizeof buffer);
    if (count == 0) return text;
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return fail(Code::kIo, "cannot read its output: " + errno_text());
    text.append(buffer, static_cast<std::size_t>(count));
    if (text.size() > kOutputBytesMax) return fail(Code::kInvalid, "it prints more than 1 MiB");
  }
}

Status wait_for(pid_t pid) {
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0) {
    if (errno != EINTR) return fail(Code::kIo, "cannot wait for it: " + errno_text());
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return {};
  return fail(Code::kInvalid, WIFEXITED(status)
                                  ? "it exited with " + std::to_string(WEXITSTATUS(status))
                                  : "it was ended by signal " + std::to_string(WTERMSIG(status)));
}

}  // namespace

Result<std::string> output_of(const std::vector<std::string>& arguments,
                              const std::map<std::string, std::string>& extra) {
  std::map<std::string, std::string> variables = environment();
  for (const auto& [name, value] : extra) variables[name] = value;
  std::vector<std::string> argv = arguments, envp;
  for (const auto& [name, value] : variables) envp.push_back(name + "=" + value);
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return fail(Code::kIo, "no pipe: " + errno_text());
  const Fd read_end{ends[0]};
  Fd write_end{ends[1]};
  posix_spawn_file_actions_t files;
  ::posix_spawn_file_actions_init(&files);
  ::posix_spawn_file_actions_adddup2(&files, write_end.get(), STDOUT_FILENO);
  pid_t pid = 0;
  const int error = ::posix_spawnp(&pid, argv[0].c_str(), &files, nullptr, pointers_to(argv).data(),
                                   pointers_to(envp).data());
  ::posix_spawn_file_actions_destroy(&files);
  if (error != 0) return fail(Code::kNotFound, "cannot start it: " + errno_text(error));
  write_end = Fd{};
  Result<std::string> text = read_all(read_end.get());
  // Whatever it printed, it is not left behind.
  const Status ended = wait_for(pid);
  if (text && !ended) return tl::make_unexpected(ended.error());
  return text;
}

}  // namespace pawl::os
