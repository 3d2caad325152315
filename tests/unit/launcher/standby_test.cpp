#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <array>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "common/api/contract.h"
#include "common/os/process.h"
#include "common/os/processes.h"
#include "common/os/real_clock.h"
#include "launcher/loop/signals.h"
#include "launcher/supervisor/supervisor.h"
#include "peer_fixture.h"

using namespace pawl;
using namespace pawl::launcher;
using namespace pawl::launcher::test;

namespace {

using Words = std::vector<std::string>;

// A folder, ours while it lives, with an interpreter that has `einops`, one of the packages that
// are imported early.
class Workshop {
 public:
  Workshop() {
    std::string path = "/tmp/pawl-standby-XXXXXX";
    REQUIRE(::mkdtemp(path.data()) != nullptr);
    folder = path;
    std::filesystem::current_path(folder);
    std::filesystem::create_directory("private");
    REQUIRE(std::system("python3 -m venv --without-pip venv") == 0);
    python = folder + "/venv/bin/python3";
    for (const auto& entry : std::filesystem::directory_iterator(folder + "/venv/lib"))
      packages = entry.path().string() + "/site-packages";
    env = os::environment();
    env["PYTHONDONTWRITEBYTECODE"] = "1";
    write_package("import os\nPLACE = os.environ.get('PLACE')\n");
  }
  ~Workshop() {
    std::filesystem::current_path(before_);
    std::filesystem::remove_all(folder);
  }

  void write(const std::string& name, const std::string& text) const {
    std::ofstream(folder + "/" + name) << text;
  }
  void write_package(const std::string& text) const {
    std::ofstream(packages + "/einops.py") << text;
  }
  std::string read(const std::string& name) const {
    std::ifstream file(folder + "/" + name);
    return {std::istreambuf_iterator<char>{file}, {}};
  }

  std::string folder, python, packages;
  std::map<std::string, std::string> env;

 private:
  std::filesystem::path before_ = std::filesystem::current_path();
};

// Programs under a supervisor that has others stand by.
struct StandbyShop {
  // `program`: the words after "python3".
  explicit StandbyShop(const Words& program) {
    command = {shop.python};
    command.insert(command.end(), program.begin(), program.end());
    REQUIRE(::prctl(PR_SET_CHILD_SUBREAPER, 1) == 0);
    inbox = Inbox::create().value();
    poller = Poller::create().value();
    poller->add(inbox->fd(), EPOLLIN, [this](std::uint32_t) { inbox->drain(); });
    signals = Signals::create(*poller, [this](int signal) {
                if (signal == SIGCHLD) supervisor->reap();
              }).value();
    out = os::Fd{::open((shop.folder + "/out").c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600)};
    supervisor = std::make_unique<Supervisor>(
        clock, inbox, LogPump::start(false, out.get(), out.get()).value(),
        Supervisor::Events{
            .on_exited = [this](ProcessExited exited) { ends[exited.local_rank] = exited; }});
    std::array<int, 2> channel{};
    REQUIRE(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, channel.data()) == 0);
    ours = os::Fd{channel[0]};
    its = os::Fd{channel[1]};
    pulse = os::Fd{::memfd_create("pulse", MFD_CLOEXEC)};
    standby.folder = shop.folder + "/private";
    standby.after = {};
    standby.env = [this](int) {
      ++started;
      return shop.env;
    };
    standby.room = [this] { return room; };
  }
  void use_standbys() {
    standby.command = command;
    supervisor->use(StandbySet::create(standby, clock, log));
  }
  void start(const std::string& place) {
    ends.clear();
    auto env = shop.env;
    env["PLACE"] = place;
    env[api::kEnvChannelFd] = std::to_string(its.get());
    env[api::kEnvPulseFd] = std::to_string(pulse.get());
    REQUIRE(supervisor->start(0, {command, env, {its.get(), pulse.get()}}, "").has_value());
  }
  template <typename Condition>
  bool until(Condition condition) {
    return run_until(*poller, [&] {
      supervisor->on_tick();
      return condition();
    });
  }
  bool has_logged(const std::string& event) const {
    return lines.find("\"" + event + "\"") != std::string::npos;
  }
  bool has_said(const std::string& text) const {
    return shop.read("out").find(text) != std::string::npos;
  }
  void kill_program() {
    supervisor->kill(0);
    REQUIRE(until([&] { return ends.size() == 1; }));
  }
  // The process that stands by; 0 if none does.
  static pid_t waiting() {
    for (const os::ProcessInfo& info : os::descendants_of(::getpid()))
      if (info.name == api::kStandbyName && !info.is_zombie) return info.pid;
    return 0;
  }

  RealClock clock;
  Workshop shop;
  Words command;
  std::string lines;
  Log log{clock, [this](std::string_view line) { lines += line; }};
  std::int64_t room = kRoomUnknown;
  int started = 0;  // that stood by
  os::Fd out, ours, its, pulse;
  std::shared_ptr<Inbox> inbox;
  std::unique_ptr<Poller> poller;
  std::unique_ptr<Signals> signals;
  StandbyOptions standby;
  std::unique_ptr<Supervisor> supervisor;
  std::map<int, ProcessExited> ends;
};

// What it says of itself must be the same however it was started.
constexpr char kDescribe[] = R"(
import json, multiprocessing, os, pickle, socket, sys, time
import einops
import beside

class Point:
    pass

def double(x):
    return 2 * x

if __name__ == "__main__":
    hidden = ("PAWL_CHANNEL_FD", "PAWL_PULSE_FD", "PLACE")
    numbers = [int(os.environ[name]) for name in hidden[:2]]
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        doubled = pool.map(double, [21])
    print(json.dumps({
        "argv": sys.argv, "path": sys.path, "orig_argv": getattr(sys, "orig_argv", None),
        "flags": str(sys.flags), "file": __file__, "spec": __spec__ and __spec__.name, "package": __package__,
        "globals": sorted(globals()), "main": sys.modules["__main__"].Point is Point,
        "pickled": isinstance(pickle.loads(pickle.dumps(Point())), Point), "doubled": doubled,
        "environment": sorted(item for item in os.environ.items() if item[0] not in hidden),
        "group": os.getpgid(0) == os.getpid(), "comm": open("/proc/self/comm").read(),
        "oom": open("/proc/self/oom_score_adj").read(),
        "inherited": [os.get_inheritable(number) for number in numbers], "beside": beside.PLACE == os.environ["PLACE"],
        "descriptors": len(os.listdir("/proc/self/fd"))}))
    print("einops was imported in", einops.PLACE, flush=True)
    socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET, 0, os.dup(numbers[0])).send(os.environ["PLACE"].encode())
    os.write(numbers[1], os.environ["PLACE"].encode())
    time.sleep(600)
)";

}  // namespace

TEST_CASE("standby: who has stood by is the program that would have been started", "[launcher]") {
  StandbyShop shop({"-u", "-X", "utf8", "train.py", "--name", "a b"});
  SECTION("a script") {}
  SECTION("a script by another way") { shop.command[4] = "./venv/../train.py"; }
  SECTION("a module") {
    std::filesystem::create_directory("package");
    shop.shop.write("package/train.py", kDescribe);
    shop.command = {shop.shop.python, "-m", "package.train", "--name", "a b"};
  }
  shop.shop.write("train.py", kDescribe);
  shop.shop.write("beside.py", "import os\nPLACE = os.environ.get('PLACE')\n");
  shop.shop.env["PYTHONPATH"] = "/somewhere";
  shop.use_standbys();
  shop.start("first");
  std::array<char, 16> told{};
  REQUIRE(shop.until([&] { return shop.has_said("imported in first\n"); }));
  CHECK(::recv(shop.ours.get(), told.data(), told.size(), 0) == 5);
  REQUIRE(shop.until([&] { return shop.has_logged("standby_ready"); }));
  CHECK(StandbyShop::waiting() != 0);
  shop.kill_program();
  CHECK(StandbyShop::waiting() != 0);  // no stray

  shop.start("second");
  CHECK(shop.has_logged("standby_taken"));
  REQUIRE(shop.until([&] { return shop.has_said("imported in None\n"); }));
  CHECK(::recv(shop.ours.get(), told.data(), told.size(), 0) == 6);
  CHECK(std::string(told.data(), 6) == "second");
  std::array<char, 16> beats{};
  CHECK(::pread(shop.pulse.get(), beats.data(), beats.size(), 0) == 11);
  CHECK(std::string(beats.data(), 11) == "firstsecond");
  const std::string said = shop.shop.read("out");
  const std::size_t second = said.find("{", said.find("imported in"));
  REQUIRE(second != std::string::npos);
  const auto line_at = [&](std::size_t at) { return said.substr(at, said.find('\n', at) - at); };
  CHECK(line_at(0) == line_at(second));
  CHECK(said.find("\"doubled\": [42]") != std::string::npos);
  CHECK(said.find("\"main\": true") != std::string::npos);

  // Its own end is seen as any program's, and another one stands by for it meanwhile.
  REQUIRE(shop.until([&] { return StandbyShop::waiting() != 0; }));
  shop.kill_program();
  CHECK(shop.ends.at(0).signal == SIGKILL);
  CHECK(shop.ends.at(0).was_killed);
}

TEST_CASE("standby: exit codes and last words are the program's", "[launcher]") {
  StandbyShop shop({"train.py", "3"});
  shop.shop.write("train.py",
                  "import einops, os, sys, time\n"
                  "if os.environ['PLACE'] == '1': time.sleep(600)\n"
                  "print('leaving', file=sys.stderr)\n"
                  "sys.exit(int(sys.argv[1]))\n");
  shop.use_standbys();
  shop.start("1");
  REQUIRE(shop.until([&] { return shop.has_logged("standby_ready"); }));
  shop.kill_program();
  int expected = 3;
  SECTION("as it is") {}
  SECTION("the program has changed") {
    shop.shop.write("train.py", "import einops\nraise ValueError('changed')\n");
    expected = 1;
  }
  SECTION("the program is gone") {
    std::filesystem::remove("train.py");
    expected = 2;
  }
  shop.start("2");
  REQUIRE(shop.until([&] { return shop.ends.size() == 1; }));
  CHECK(shop.has_logged("standby_taken"));
  CHECK(shop.ends.at(0).exit_code == expected);
  const std::string words[] = {"", "ValueError: changed", "can't open file", "leaving"};
  CHECK(shop.ends.at(0).log_tail.find(words[expected]) != std::string::npos);
}

TEST_CASE("standby: one that is not ready, dead or not wanted costs nothing", "[launcher]") {
  StandbyShop shop({"train.py"});
  shop.shop.write("train.py",
                  "import einops, os, time\nprint('PLACE', os.environ['PLACE'], flush=True)\n"
                  "time.sleep(600)\n");
  const auto begin = [&] {
    shop.use_standbys();
    shop.start("1");
    REQUIRE(shop.until([&] { return shop.has_said("PLACE 1"); }));
  };
  SECTION("not ready") {
    shop.shop.write_package("import os, time\nif 'PLACE' not in os.environ: time.sleep(600)\n");
    begin();
    REQUIRE(shop.until([&] { return StandbyShop::waiting() != 0; }));
    shop.kill_program();
  }
  SECTION("killed") {
    begin();
    REQUIRE(shop.until([&] { return shop.has_logged("standby_ready"); }));
    shop.kill_program();
    const pid_t pid = StandbyShop::waiting();
    REQUIRE(pid > 0);
    ::kill(pid, SIGKILL);
    SECTION("seen") {
      REQUIRE(shop.until([&] { return shop.has_logged("no_standby"); }));
    }
    SECTION("unseen") {
      siginfo_t info{};
      REQUIRE(::waitid(P_ALL, 0, &info, WEXITED | WNOWAIT) == 0);
    }
  }
  SECTION("memory becomes short") {
    begin();
    REQUIRE(shop.until([&] { return shop.has_logged("standby_ready"); }));
    shop.room = 1 << 20;
    REQUIRE(shop.until([&] { return StandbyShop::waiting() == 0; }));
    CHECK(shop.has_logged("standbys_ended"));
    shop.kill_program();
  }
  SECTION("memory is short") {
    shop.room = 1 << 30;
    begin();
    shop.supervisor->on_tick();
    CHECK(shop.started == 0);
    shop.kill_program();
  }
  SECTION("the program imports nothing that is slow") {
    shop.shop.write("train.py",
                    "import os, time\nprint('PLACE', os.environ['PLACE'], flush=True)\n"
                    "def later():\n    import einops\ntime.sleep(600)\n");
    begin();
    REQUIRE(shop.until([&] { return shop.has_logged("no_standby"); }));
    shop.supervisor->on_tick();
    CHECK(shop.started == 1);
    shop.kill_program();
  }
  SECTION("an import fails when it is early") {
    shop.shop.write_package("import os\nPLACE = os.environ['PLACE']\n");
    begin();
    REQUIRE(shop.until([&] { return shop.has_logged("no_standby"); }));
    shop.kill_program();
  }
  shop.start("2");
  REQUIRE(shop.until([&] { return shop.has_said("PLACE 2"); }));
  shop.kill_program();
  CHECK_FALSE(shop.has_logged("standby_taken"));
  shop.supervisor.reset();
  CHECK(run_until(*shop.poller, [] { return StandbyShop::waiting() == 0; }));
}

TEST_CASE("standby: nothing of the program's own runs before its time", "[launcher]") {
  StandbyShop shop({"train.py"});
  // Found through two modules of its own; a folder of data is no match for the installed package.
  std::filesystem::create_directory("einops");
  std::filesystem::create_directories("models/parts");
  shop.shop.write("train.py",
                  "import os, time\nfrom models import build\nprint('PLACE', os.environ['PLACE'], "
                  "flush=True)\ntime.sleep(600)\n");
  shop.shop.write("models/__init__.py", "open('ran', 'a').write('x')\n");
  shop.shop.write("models/build.py", "from .parts import layer\n");
  shop.shop.write("models/parts/layer.py",
                  "try:\n    from einops import PLACE\nexcept "
                  "ImportError:\n    pass\n");
  shop.use_standbys();
  shop.start("1");
  REQUIRE(shop.until([&] { return shop.has_logged("standby_ready"); }));
  CHECK(shop.shop.read("ran") == "x");  // the program itself
}

TEST_CASE("standby: what is done before an import is not done by another one", "[launcher]") {
  const std::string end = "\nprint('PLACE', os.environ['PLACE'], flush=True)\ntime.sleep(600)\n";
  struct Case {
    const char *before, *event;
  };
  const Case one = GENERATE(
      Case{"os.environ['BACKEND'] = 'other'\nimport einops", "no_standby"},
      Case{"os.environ.setdefault('A', '1')\nimport einops", "no_standby"},
      Case{"sys.path.insert(0, '/other')\nimport einops", "no_standby"},
      Case{"def f(): pass\nf()\nfrom einops import PLACE", "no_standby"},
      Case{"if sys.argv: sys.path.append('x')\nimport einops", "no_standby"},
      Case{"import horovod_is_not_it, einops", "standby_ready"},
      Case{"import einops\nos.environ['AFTER'] = '1'", "standby_ready"},
      Case{"import warnings\nwarnings.simplefilter('ignore')\nlimit = "
           "int(3)\nimport einops",
           "standby_ready"},
      Case{"try:\n    import torch\nexcept ImportError:\n    import einops", "no_standby"},
      Case{"def f():\n    os.environ['A'] = '1'\nimport einops, jax_is_not_it", "standby_ready"});
  CAPTURE(one.before);
  StandbyShop shop({"train.py"});
  for (const char* name : {"horovod_is_not_it.py", "jax_is_not_it.py"}) shop.shop.write(name, "");
  shop.shop.write("train.py", std::string{"import os, sys, time\n"} + one.before + end);
  shop.use_standbys();
  shop.start("1");
  REQUIRE(shop.until(
      [&] { return shop.has_logged("standby_ready") || shop.has_logged("no_standby"); }));
  CHECK(shop.has_logged(one.event));
}
