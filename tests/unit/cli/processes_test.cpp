#include "common/os/processes.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <array>
#include <csignal>
#include <string>
#include <vector>

#include <catch2/catch_test_macros.hpp>

#include "common/os/fd.h"

using namespace pawl::os;

namespace {

// A child that runs a shell script with exactly this environment, and is a copy of this process no
// more; killed and reaped at its end.
struct Child {
  explicit Child(const std::string& script, std::vector<std::string> environment) {
    std::array<int, 2> pipe{};
    REQUIRE(::pipe2(pipe.data(), O_CLOEXEC) == 0);
    const pawl::os::Fd reader{pipe[0]};
    pawl::os::Fd writer{pipe[1]};
    pid = ::fork();
    if (pid != 0) {
      writer.reset();
      char none = 0;
      REQUIRE(::read(reader.get(), &none, 1) == 0);  // closed by exec
      return;
    }
    std::vector<char*> entries;
    for (std::string& entry : environment) entries.push_back(entry.data());
    entries.push_back(nullptr);
    ::execle("/bin/sh", "sh", "-c", script.c_str(), nullptr, entries.data());
    ::_exit(127);
  }
  ~Child() {
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
  }
  pid_t pid = -1;
};

void wait_for_end(pid_t pid) {
  siginfo_t info;
  REQUIRE(::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOWAIT) == 0);
}

}  // namespace

TEST_CASE("processes: an environment is told from what only shows none", "[cli]") {
  SECTION("one in the middle of exec") {
    // `false` of a process that has it would let the keeper pass over a stray.
    const Child child{"exec sh -c \"$AGAIN\" sh 1000",
                      {"PATH=/usr/bin:/bin", "MARK=a",
                       "AGAIN=n=$1; [ $n -gt 0 ] && exec sh -c \"$AGAIN\" sh $((n - 1))"}};
    int shown = 0, hidden = 0, passed_over = 0;
    siginfo_t info{};
    while (::waitid(P_PID, static_cast<id_t>(child.pid), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           info.si_pid == 0) {
      const auto is_marked = has_environment(child.pid, "MARK=a");
      ++(!is_marked ? hidden : *is_marked ? shown : passed_over);
    }
    INFO(shown << " times shown, " << hidden << " times not");
    CHECK(shown > 0);
    CHECK(passed_over == 0);
  }
  SECTION("one that has ended") {
    const Child child{"exit 0", {"MARK=a"}};
    wait_for_end(child.pid);
    CHECK(has_environment(child.pid, "MARK=a") == std::nullopt);
  }
  SECTION("one without any") {
    const Child child{"while :; do read x < /dev/null; done", {}};
    while (!has_environment(child.pid, "MARK=a").has_value()) {
    }
    CHECK(has_environment(child.pid, "MARK=a") == false);
  }
  SECTION("one with another environment") {
    const Child child{"exec sleep 1000", {"PATH=/usr/bin:/bin", "OTHER=MARK=a", "MARK=ab"}};
    while (has_environment(child.pid, "MARK=ab") != true) {
    }
    CHECK(has_environment(child.pid, "MARK=a") == false);
  }
}
