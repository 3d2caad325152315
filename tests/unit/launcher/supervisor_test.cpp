#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <catch2/catch_test_macros.hpp>
#include <cerrno>
#include <csignal>
#include <fstream>
#include <future>
#include <map>

#include "common/os/process.h"
#include "common/os/processes.h"
#include "common/os/real_clock.h"
#include "launcher/loop/signals.h"
#include "launcher/supervisor/log_writer.h"
#include "launcher/supervisor/run_state.h"
#include "launcher/supervisor/supervisor.h"
#include "peer_fixture.h"

using namespace pawl;
using namespace pawl::launcher;
using namespace pawl::launcher::test;

namespace {

std::string read_file(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>{file}, {}};
}

// A supervisor with real processes, its loop, and files in place of standard output and error.
struct Shop {
  explicit Shop(bool prefixes = false) {
    inbox = Inbox::create().value();
    poller = Poller::create().value();
    poller->add(inbox->fd(), EPOLLIN, [this](std::uint32_t) { inbox->drain(); });
    signals = Signals::create(*poller, [this](int signal) {
                if (signal == SIGCHLD) supervisor->reap();
              }).value();
    out_path = folder + "/out";
    out = os::Fd{::open(out_path.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600)};
    supervisor = std::make_unique<Supervisor>(
        clock, inbox, LogPump::start(prefixes, out.get(), out.get()).value(),
        Supervisor::Events{
            .before_exit = [this](int) { ++before; },
            .on_exited = [this](ProcessExited exited) { ends[exited.local_rank] = exited; }});
  }
  ~Shop() {
    supervisor.reset();
    ::unlink(out_path.c_str());
    ::rmdir(folder.c_str());
  }
  void start(int rank, const std::string& script) {
    auto env = os::environment();
    env["MARK"] = "m" + std::to_string(rank);
    REQUIRE(supervisor->start(rank, {{"sh", "-c", script}, env}, "").has_value());
  }
  bool wait(std::size_t count) {
    return run_until(*poller, [&] {
      supervisor->on_tick();
      return ends.size() == count;
    });
  }
  std::string output() {
    supervisor.reset();
    return read_file(out_path);
  }
  static std::string make_folder() {
    std::string path = "/tmp/pawl-test-XXXXXX";
    REQUIRE(::mkdtemp(path.data()) != nullptr);
    return path;
  }

  RealClock clock;
  std::string folder = make_folder(), out_path;
  os::Fd out;
  std::shared_ptr<Inbox> inbox;
  std::unique_ptr<Poller> poller;
  std::unique_ptr<Signals> signals;
  std::unique_ptr<Supervisor> supervisor;
  std::map<int, ProcessExited> ends;
  int before = 0;
};

}  // namespace

TEST_CASE("run_state: one that has ended is told from one that stands still", "[launcher]") {
  CHECK(run_state(::getpid()) == membership::RunState::kRuns);
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  siginfo_t info;
  REQUIRE(::waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT) == 0);
  CHECK(run_state(child) == membership::RunState::kEnds);
  ::waitpid(child, nullptr, 0);
  CHECK(run_state(child) == membership::RunState::kEnds);
}

TEST_CASE("supervisor: it is seen whether a process is stopped", "[launcher]") {
  Shop shop;
  using membership::RunState;
  CHECK(shop.supervisor->state_of(0) == std::nullopt);
  shop.start(0, "kill -STOP $$; exit 3");
  const auto is_stopped = [&] { return shop.supervisor->state_of(0) == RunState::kStopped; };
  REQUIRE(run_until(*shop.poller, is_stopped));
  CHECK(shop.supervisor->state_of(0, ::getpid()) == RunState::kRuns);  // the one that works
  shop.supervisor->forward(SIGCONT);
  REQUIRE(shop.wait(1));
  CHECK(shop.ends[0].exit_code == 3);
  CHECK(shop.supervisor->state_of(0) == std::nullopt);
}

TEST_CASE("log_pump: a line has the rank that was known when it was written", "[launcher]") {
  std::string path = "/tmp/pawl-pump-XXXXXX";
  const os::Fd out{::mkostemp(path.data(), O_CLOEXEC)};
  int lines[2] = {}, errors[2] = {};
  REQUIRE(::pipe2(lines, O_CLOEXEC) == 0);
  REQUIRE(::pipe2(errors, O_CLOEXEC) == 0);
  const os::Fd line_end{lines[1]}, error_end{errors[1]};
  auto pump = LogPump::start(true, out.get(), out.get()).value();
  pump->add(1, os::Fd{lines[0]}, os::Fd{errors[0]});
  std::promise<void> is_held, release;
  pump->ask_tail(0, [&](const std::string&) {
    is_held.set_value();
    release.get_future().wait();
  });
  is_held.get_future().wait();
  // Both are there when its thread looks again.
  pump->set_first_rank(2);
  REQUIRE(::write(line_end.get(), "hello\n", 6) == 6);
  release.set_value();
  pump.reset();
  CHECK(read_file(path) == "[3] hello\n");
  ::unlink(path.c_str());
}

TEST_CASE("supervisor: exit codes and signals come as they were", "[launcher]") {
  Shop shop;
  shop.start(0, "exit 0");
  shop.start(1, "exit 7");
  shop.start(2, "kill -SEGV $$");
  REQUIRE(shop.wait(3));
  CHECK(shop.before == 3);
  CHECK(shop.ends[0].exit_code == 0);
  CHECK(shop.ends[1].exit_code == 7);
  CHECK(shop.ends[1].signal == 0);
  CHECK(shop.ends[2].exit_code == 128 + SIGSEGV);
  CHECK(shop.ends[2].signal == SIGSEGV);
  CHECK_FALSE(shop.ends[2].was_told);
}

TEST_CASE("supervisor: TERM first, KILL for who does not listen, a stopped one too", "[launcher]") {
  Shop shop;
  shop.start(0, "trap 'exit 9' TERM; echo ready; while :; do sleep 0.05; done");
  shop.start(1, "trap '' TERM; echo ready; while :; do sleep 0.05; done");
  shop.start(2, "kill -STOP $$; sleep 60");
  const auto is_ready = [&] {
    const std::string text = read_file(shop.out_path);
    return text.find("ready") != text.rfind("ready");
  };
  REQUIRE(run_until(*shop.poller, is_ready));
  shop.supervisor->stop_all(std::chrono::milliseconds{300});
  REQUIRE(shop.wait(3));
  CHECK(shop.ends[0].exit_code == 9);
  CHECK(shop.ends[0].was_told);
  CHECK(shop.ends[1].signal == SIGKILL);
  CHECK(shop.ends[1].was_told);
  CHECK(shop.ends[2].signal == SIGTERM);
}

TEST_CASE("supervisor: who died before it was told to stop died by itself", "[launcher]") {
  Shop shop;
  shop.start(0, "exit 5");
  // Its death is pending, unseen, when the stop comes.
  siginfo_t info{};
  REQUIRE(::waitid(P_ALL, 0, &info, WEXITED | WNOWAIT) == 0);
  shop.supervisor->stop_all(std::chrono::milliseconds{100});
  REQUIRE(shop.wait(1));
  CHECK(shop.ends[0].exit_code == 5);
  CHECK_FALSE(shop.ends[0].was_told);
}

TEST_CASE("supervisor: whose KILL it was is known, also of one that was told", "[launcher]") {
  Shop shop;
  const std::string deaf = "trap '' TERM; echo up; while :; do sleep 0.1; done";
  shop.start(0, deaf);
  REQUIRE(run_until(*shop.poller, [&] { return read_file(shop.out_path) == "up\n"; }));
  SECTION("ours") {
    shop.supervisor->stop_all(std::chrono::milliseconds{100});
    REQUIRE(shop.wait(1));
    CHECK_FALSE(shop.ends.at(0).was_killed);
  }
  SECTION("another's") {
    shop.supervisor->stop_all(std::chrono::seconds{100});
    shop.supervisor->kill(0);
    REQUIRE(shop.wait(1));
    CHECK(shop.ends.at(0).was_killed);
  }
  CHECK(shop.ends.at(0).was_told);
  // The time that it had is no matter of the next one.
  shop.ends.clear();
  shop.start(0, "sleep 0.3");
  REQUIRE(shop.wait(1));
  CHECK(shop.ends.at(0).exit_code == 0);
}

TEST_CASE("supervisor: what a program started in sessions of its own ends with the last program",
          "[launcher]") {
  REQUIRE(::prctl(PR_SET_CHILD_SUBREAPER, 1) == 0);
  Shop shop;
  shop.start(0, "setsid sleep 1000 & sleep 0.2; exit 3");
  shop.start(1, "sleep 0.5");
  REQUIRE(shop.wait(2));
  for (const os::ProcessInfo& info : os::descendants_of(::getpid())) CHECK(info.is_zombie);
}

TEST_CASE("supervisor: orphans are reaped, and what a process leaves behind ends with it",
          "[launcher]") {
  REQUIRE(::prctl(PR_SET_CHILD_SUBREAPER, 1) == 0);
  Shop shop;
  shop.start(0, "(sleep 60) & echo $!; exit 0");
  REQUIRE(shop.wait(1));
  // Both are ours now, and the one that sleeps was ended; nothing may be left as a zombie.
  const auto orphan = static_cast<pid_t>(std::stol(read_file(shop.out_path)));
  REQUIRE(run_until(*shop.poller, [&] {
    shop.supervisor->on_tick();
    return ::kill(orphan, 0) != 0 && errno == ESRCH;
  }));
  siginfo_t info{};
  CHECK(::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0);
}

TEST_CASE("supervisor: a command that cannot start says why", "[launcher]") {
  Shop shop;
  const Status status = shop.supervisor->start(0, {{"/no/such/program"}, {}}, "");
  REQUIRE_FALSE(status.has_value());
  CHECK(status.error().code == Code::kInvalid);
  CHECK(status.error().message.find("No such file") != std::string::npos);
  // Its volume may be back next time.
  std::string folder = "/tmp/pawl-spawn-XXXXXX";
  REQUIRE(::mkdtemp(folder.data()) != nullptr);
  const std::string loop = folder + "/loop";
  REQUIRE(::symlink(loop.c_str(), loop.c_str()) == 0);
  CHECK(shop.supervisor->start(0, {{loop}, {}}, "").error().code == Code::kIo);
  for (const int error : {EIO, ESTALE, ETIMEDOUT, ENOMEM, EAGAIN})
    CHECK(code_of_exec(error) == Code::kIo);
  ::unlink(loop.c_str());
  ::rmdir(folder.c_str());
}

TEST_CASE("supervisor: processes get a clean signal mask and dispositions", "[launcher]") {
  os::ignore_sigpipe();
  Shop shop;
  shop.start(0, "grep -E 'Sig(Blk|Ign)' /proc/self/status; exit 4");
  REQUIRE(shop.wait(1));
  CHECK(shop.ends[0].log_tail.find("SigBlk:\t0000000000000000") != std::string::npos);
  CHECK(shop.ends[0].log_tail.find("SigIgn:\t0000000000000000") != std::string::npos);
}

TEST_CASE("supervisor: the log tail is the end of both streams, bounded, valid text",
          "[launcher]") {
  Shop shop;
  shop.start(0,
             "for i in $(seq 2000); do echo line $i; done; printf 'caf\\351 '; echo last words "
             ">&2; exit 1");
  REQUIRE(shop.wait(1));
  const std::string& tail = shop.ends[0].log_tail;
  CHECK(tail.size() <= 2048);
  CHECK(tail.size() > 1500);
  CHECK(tail.find("last words") != std::string::npos);
  CHECK(tail.find("line 2000\n") != std::string::npos);
  CHECK(tail.find("caf\xef\xbf\xbd") != std::string::npos);
}

TEST_CASE("supervisor: with several processes each line says whose it is", "[launcher]") {
  Shop shop{true};
  shop.supervisor->set_first_rank(4);
  shop.start(0, "echo zero; printf unfinished");
  shop.start(1, "echo one >&2");
  REQUIRE(shop.wait(2));
  const std::string text = shop.output();
  CHECK(text.find("[4] zero\n") != std::string::npos);
  CHECK(text.find("[4] unfinished\n") != std::string::npos);
  CHECK(text.find("[5] one\n") != std::string::npos);
}

TEST_CASE("supervisor: one process's output passes as it is", "[launcher]") {
  Shop shop;
  shop.start(0, "printf 'a\\r\\033[1m%%b'; echo $MARK");
  REQUIRE(shop.wait(1));
  CHECK(shop.output() == "a\r\033[1m%bm0\n");
}

TEST_CASE("supervisor: an output that nobody reads does not hold back an exit", "[launcher]") {
  Shop shop;
  std::array<int, 2> ends{};
  REQUIRE(::pipe2(ends.data(), O_CLOEXEC) == 0);
  os::Fd reader{ends[0]}, writer{ends[1]};
  shop.supervisor = std::make_unique<Supervisor>(
      shop.clock, shop.inbox, LogPump::start(false, writer.get(), writer.get()).value(),
      Supervisor::Events{
          .on_exited = [&](ProcessExited exited) { shop.ends[exited.local_rank] = exited; }});
  shop.start(0, "head -c 130000 /dev/zero; exit 6");
  REQUIRE(shop.wait(1));
  CHECK(shop.ends[0].exit_code == 6);
  std::string sink(65'536, '\0');
  std::size_t total = 0;
  while (total < 130'000) {
    const ssize_t count = ::read(reader.get(), sink.data(), sink.size());
    REQUIRE(count > 0);
    total += static_cast<std::size_t>(count);
  }
}

namespace {

// A pipe that is full and that nobody reads.
struct StalledReader {
  StalledReader() {
    std::array<int, 2> ends{};
    REQUIRE(::pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK) == 0);
    reader = os::Fd{ends[0]};
    writer = os::Fd{ends[1]};
    const std::string block(4096, 'x');
    while (::write(writer.get(), block.data(), block.size()) > 0) {
    }
    (void)os::set_nonblocking(writer.get(), false);
  }
  std::string read_all() {
    std::string text, block(65'536, '\0');
    (void)os::set_nonblocking(reader.get(), true);
    for (ssize_t count = 0; (count = ::read(reader.get(), block.data(), block.size())) > 0;)
      text.append(block, 0, static_cast<std::size_t>(count));
    return text;
  }
  os::Fd reader, writer;
};

}  // namespace

TEST_CASE("supervisor: an output that nobody reads does not hold back the end", "[launcher]") {
  Shop shop;
  StalledReader stalled;
  shop.supervisor = std::make_unique<Supervisor>(
      shop.clock, shop.inbox,
      LogPump::start(false, stalled.writer.get(), stalled.writer.get()).value(),
      Supervisor::Events{
          .on_exited = [&](ProcessExited exited) { shop.ends[exited.local_rank] = exited; }});
  shop.start(0, "head -c 60000 /dev/zero; exit 6");  // its own pipe takes that much
  REQUIRE(shop.wait(1));
  const SteadyPoint before = shop.clock.steady_now();
  shop.supervisor.reset();
  CHECK(shop.clock.steady_now() - before < std::chrono::seconds{10});
}

TEST_CASE("supervisor: another process of a rank begins with an empty log tail", "[launcher]") {
  Shop shop;
  shop.start(0, "echo one; kill -9 $$");
  REQUIRE(shop.wait(1));
  CHECK(shop.ends[0].log_tail == "one\n");
  CHECK(shop.ends[0].signal == SIGKILL);
  CHECK_FALSE(shop.ends[0].was_told);
  shop.ends.clear();
  shop.start(0, "echo two; sleep 60");
  shop.supervisor->kill(0);
  REQUIRE(shop.wait(1));
  CHECK(shop.ends[0].log_tail.find("one") == std::string::npos);
  CHECK(shop.ends[0].signal == SIGKILL);
  CHECK_FALSE(shop.ends[0].was_told);
}

TEST_CASE("log_writer: never waits for the reader; says how much was dropped", "[launcher]") {
  const RealClock clock;
  StalledReader stalled;
  auto writer = LogWriter::start(stalled.writer.get()).value();
  const SteadyPoint before = clock.steady_now();
  for (int i = 0; i < LogWriter::kLinesMax + 1000; ++i) writer->write("line\n");
  SECTION("nobody ever reads") { writer.reset(); }
  SECTION("the reader comes back") {
    std::string text = stalled.read_all();
    writer.reset();
    text += stalled.read_all();
    int lines = 0;
    for (std::size_t at = 0; (at = text.find("line\n", at)) != std::string::npos; ++at) ++lines;
    CHECK(lines == LogWriter::kLinesMax);
    CHECK(text.find("\"log_lines_dropped\",\"lines\":") != std::string::npos);
  }
  CHECK(clock.steady_now() - before < std::chrono::seconds{10});
}
