// `pawl run` as a user starts it: the real program, operator and launchers, on jobs of shell
// commands.
#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <catch2/catch_test_macros.hpp>
#include <csignal>
#include <fstream>
#include <sstream>

#include "common/os/fd.h"
#include "common/os/processes.h"
#include "tests/integration/cli/local_fixture.h"

using namespace pawl;
using namespace pawl::local;

namespace {

std::string read(const std::string& path) {
  std::ifstream file{path};
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

struct Run {
  explicit Run(const std::string& script, const std::string& more = "") {
    std::ofstream{folder.file("job.yaml")} << "apiVersion: pawl.dev/v1alpha1\n"
                                              "kind: TrainingJob\n"
                                              "metadata: {name: shell}\n"
                                              "spec:\n"
                                              "  replicas: 2\n"
                                              "  runtime: {kind: Custom}\n"
                                           << more
                                           << "  template:\n"
                                              "    spec:\n"
                                              "      containers:\n"
                                              "      - name: worker\n"
                                              "        image: none\n"
                                              "        env: [{name: MARK, value: \"" +
                                                  mark +
                                                  "\"}]\n"
                                                  "        command: [sh, -c, '" +
                                                  script + "']\n";
  }

  void start(std::vector<std::string> arguments, const char* output = "out") {
    arguments.insert(arguments.begin(), PAWL_PROGRAM);
    pid = ::fork();
    if (pid != 0) return;
    const int out = ::open(folder.file(output).c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    ::dup2(out, STDOUT_FILENO);
    ::dup2(out, STDERR_FILENO);
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    ::execv(argv[0], argv.data());
    ::_exit(127);
  }
  void start() { start({"run", folder.file("job.yaml"), "--run-dir", folder.file("run")}); }

  int wait() const {
    int status = 0;
    ::waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  std::string output() const { return read(folder.file("out")); }
  // Another `pawl`, while this one runs: its exit code and what it says.
  std::pair<int, std::string> ask(std::vector<std::string> arguments) {
    const pid_t running = pid;
    arguments.push_back("--kubeconfig=" + folder.file("run/kubeconfig"));
    start(std::move(arguments), "answer");
    const int code = wait();
    pid = running;
    return {code, read(folder.file("answer"))};
  }
  std::string log(const std::string& pod) const {
    return read(folder.file("run/logs/" + pod + ".log"));
  }
  std::vector<pid_t> marked_processes() const {
    std::vector<pid_t> found;
    for (const os::ProcessInfo& info : os::list_processes()) {
      if (!info.is_zombie && os::has_environment(info.pid, "MARK=" + mark) == true)
        found.push_back(info.pid);
    }
    return found;
  }
  // The script writes a line into this FIFO when it is up.
  std::string make_fifo() const {
    const std::string path = folder.file("ready");
    REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
    return path;
  }

  Folder folder;
  const std::string mark = os::random_hex(8);
  pid_t pid = 0;
};

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// Opened for writing too, so that it does not end between two writers.
void wait_for_lines(const std::string& fifo, int count) {
  const os::Fd reader{::open(fifo.c_str(), O_RDWR | O_CLOEXEC)};
  while (count > 0) {
    pollfd waiting{reader.get(), POLLIN, 0};
    char byte = 0;
    REQUIRE(::poll(&waiting, 1, 30'000) == 1);
    REQUIRE(::read(reader.get(), &byte, 1) == 1);
    if (byte == '\n') --count;
  }
}

}  // namespace

TEST_CASE("run: a job of two workers completes and tells its story", "[cli]") {
  Run run{"echo rank $RANK of $WORLD_SIZE"};
  run.start();
  const int code = run.wait();
  INFO(run.output());
  CHECK(code == 0);
  CHECK(contains(run.output(), "PHASE      READY"));
  CHECK(contains(run.output(), "\nComplete"));
  CHECK(contains(run.log("shell-1-0-0") + run.log("shell-1-1-0"), "rank 0 of 2\n"));
  CHECK(contains(run.log("shell-1-0-0") + run.log("shell-1-1-0"), "rank 1 of 2\n"));
  CHECK(run.marked_processes().empty());
}

TEST_CASE("run: a failing job ends with 1 and with what its worker said last", "[cli]") {
  Run run{"echo no data today; exit 3", "  failurePolicy: {maxRestarts: 1}\n"};
  run.start();
  const int code = run.wait();
  const std::string output = run.output();
  INFO(output);
  CHECK(code == 1);
  CHECK(contains(output, "last failure: rank "));
  CHECK(contains(output, "exit code 3"));
  CHECK(contains(output, "    no data today\n"));
  CHECK(contains(output, "\nFailed: "));
  CHECK(contains(output, "pod shell-2-"));  // one restart was made
}

TEST_CASE("run: a wrong job costs one line a problem and starts nothing", "[cli]") {
  Run run{"true", "  replica: 3\n  failurePolicy: {maxRestarts: -1}\n"};
  run.start();
  const int code = run.wait();
  INFO(run.output());
  CHECK(code == 2);
  CHECK(contains(run.output(), "spec.replica"));
  CHECK(contains(run.output(), "spec.failurePolicy.maxRestarts"));
  CHECK_FALSE(std::filesystem::exists(run.folder.file("run")));
  run.start({"validate", run.folder.file("job.yaml")});
  CHECK(run.wait() == 2);
  run.start({"run"});
  CHECK(run.wait() == 2);
}

TEST_CASE("run: status and logs read it while it runs, and say where its logs are afterwards",
          "[cli]") {
  Run run{"echo rank $RANK is here; echo up > $READY; exec sleep 1000"};
  const std::string fifo = run.make_fifo();
  ::setenv("READY", fifo.c_str(), 1);
  run.start();
  wait_for_lines(fifo, 2);
  const auto [logs_code, logs] = run.ask({"logs", "shell", "--all-ranks"});
  INFO(logs);
  CHECK(logs_code == 0);
  CHECK(contains(logs, "rank 0 is here\n"));
  CHECK(contains(logs, "rank 1 is here\n"));
  const auto [nobody_code, nobody] = run.ask({"status", "nosuch"});
  CHECK(nobody_code == 1);
  CHECK(nobody == "pawl: no TrainingJob nosuch in namespace default; there is shell\n");
  const auto [folder_code, about_folder] = run.ask({"logs", run.folder.file("run")});
  CHECK(folder_code == 2);
  CHECK(contains(about_folder, "read the files in " + run.folder.file("run") + "/logs"));
  ::kill(run.pid, SIGINT);
  CHECK(run.wait() == 130);
  const auto [late_code, late] = run.ask({"logs", "shell"});
  CHECK(late_code == 1);
  CHECK(contains(late, "after the end of a `pawl run` there are the files in logs/"));
}

TEST_CASE("run: Ctrl-C deletes the job and waits for its processes", "[cli]") {
  Run run{"echo up > $READY; exec sleep 1000"};
  const std::string fifo = run.make_fifo();
  ::setenv("READY", fifo.c_str(), 1);
  run.start();
  wait_for_lines(fifo, 2);
  CHECK(run.marked_processes().size() == 4);  // a launcher and a sleep each
  ::kill(run.pid, SIGINT);
  CHECK(run.wait() == 130);
  INFO(run.output());
  CHECK(contains(run.output(), "Deleted"));
  CHECK(run.marked_processes().empty());
}

TEST_CASE("run: with a program that is killed all are started again, in their pods", "[cli]") {
  Run run{
      "case $TORCHELASTIC_RESTART_COUNT in 0) echo up > $READY; exec sleep 1000;; esac; "
      "echo again, rank $RANK of $WORLD_SIZE"};
  const std::string fifo = run.make_fifo();
  ::setenv("READY", fifo.c_str(), 1);
  run.start();
  wait_for_lines(fifo, 2);
  for (const pid_t pid : run.marked_processes()) {
    if (read("/proc/" + std::to_string(pid) + "/comm") != "sleep\n") continue;
    ::kill(pid, SIGKILL);
    break;
  }
  const int code = run.wait();
  const std::string logs = run.log("shell-1-0-0") + run.log("shell-1-1-0");
  INFO(run.output() << logs);
  CHECK(code == 0);
  CHECK(contains(logs, "again, rank 0 of 2"));
  CHECK(contains(logs, "again, rank 1 of 2"));
  CHECK(run.marked_processes().empty());
}

TEST_CASE("run: kill -9 of pawl leaves no process", "[cli]") {
  Run run{"echo up > $READY; exec sleep 1000"};
  const std::string fifo = run.make_fifo();
  ::setenv("READY", fifo.c_str(), 1);
  run.start();
  wait_for_lines(fifo, 2);
  const auto below = os::descendants_of(run.pid);
  CHECK(below.size() == 5);  // the keeper too
  ::kill(run.pid, SIGKILL);
  CHECK(run.wait() == 137);
  const auto is_any_left = [&] {
    return std::any_of(below.begin(), below.end(),
                       [](const os::ProcessInfo& info) { return ::kill(info.pid, 0) == 0; });
  };
  for (int i = 0; i < 1000 && is_any_left(); ++i) ::poll(nullptr, 0, 10);
  CHECK_FALSE(is_any_left());
  CHECK(run.marked_processes().empty());
}
