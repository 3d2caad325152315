// The real pawl-train as a child process.
#pragma once

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>
#include <csignal>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace pawl::test {

// A child process; its standard output and error go to one file. Killed at the end of the test.
class Process {
 public:
  // `inherited` keeps its number in the child.
  Process(const std::vector<std::string>& arguments, std::map<std::string, std::string> environment,
          const std::string& log_path, int inherited = -1) {
    std::vector<std::string> variables;
    for (const auto& [name, value] : environment) variables.push_back(name + "=" + value);
    std::vector<char*> argv, envp;
    std::string program = PAWL_TRAIN_PROGRAM;
    argv.push_back(program.data());
    std::vector<std::string> copies = arguments;
    for (std::string& copy : copies) argv.push_back(copy.data());
    for (std::string& variable : variables) envp.push_back(variable.data());
    argv.push_back(nullptr);
    envp.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_addopen(&actions, 1, log_path.c_str(), O_WRONLY | O_CREAT | O_APPEND,
                                       0600);
    ::posix_spawn_file_actions_adddup2(&actions, 1, 2);
    if (inherited >= 0) ::posix_spawn_file_actions_adddup2(&actions, inherited, inherited);
    if (::posix_spawn(&pid_, program.c_str(), &actions, nullptr, argv.data(), envp.data()) != 0)
      pid_ = -1;
    ::posix_spawn_file_actions_destroy(&actions);
  }
  Process(Process&& other) noexcept : pid_(std::exchange(other.pid_, -1)) {}
  ~Process() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    static_cast<void>(wait());
  }
  void signal(int number) const { ::kill(pid_, number); }
  // Its exit code, or minus the signal that ended it.
  int wait() {
    int status = 0;
    ::waitpid(pid_, &status, 0);
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

 private:
  pid_t pid_ = -1;
};

}  // namespace pawl::test
