#include <poll.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "cli/local/keeper.h"
#include "common/os/process.h"
#include "common/os/processes.h"

using namespace pawl;
using namespace pawl::local;

namespace {

// A folder of the test's own, removed at its end.
struct Folder {
  Folder() : path(std::filesystem::temp_directory_path() / ("pawl-" + os::random_hex(8))) {
    std::filesystem::create_directories(path);
  }
  ~Folder() { std::filesystem::remove_all(path); }
  std::string file(const std::string& name) const { return path / name; }
  std::filesystem::path path;
};

std::string read(const std::string& path) {
  std::ifstream file{path};
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

KeeperEvent next_event(Keeper& keeper) {
  const auto event = keeper.receive(std::chrono::seconds{10});
  REQUIRE(event.has_value());
  REQUIRE(event->has_value());
  return **event;
}

ProcessSpec shell(const Folder& folder, const std::string& script, const std::string& id = "u1") {
  return {{"/bin/sh", "-c", script},
          {{"PATH", "/usr/bin:/bin"}, {"PAWL_POD_UID", id}},
          "",
          folder.file("log")};
}

bool has_process_with(const std::string& entry) {
  for (const os::ProcessInfo& info : os::list_processes()) {
    if (!info.is_zombie && os::has_environment(info.pid, entry) == true) return true;
  }
  return false;
}

// Blocks until a line comes through a FIFO: the way a script says "I am that far".
void wait_for(const std::string& fifo) {
  std::ifstream reader{fifo};
  std::string line;
  std::getline(reader, line);
}

}  // namespace

TEST_CASE("keeper: a process runs with its environment and its end is told", "[cli]") {
  const Folder folder;
  const auto keeper = Keeper::start();
  REQUIRE(keeper.has_value());
  auto spec = shell(folder, "echo \"$WHO in $(pwd)\"; exit 7");
  spec.environment["WHO"] = "worker";
  spec.folder = "/";
  REQUIRE((*keeper)->spawn("u1", spec));
  const KeeperEvent started = next_event(**keeper);
  CHECK(started.kind == KeeperEvent::Kind::kStarted);
  CHECK(started.pid > 0);
  const KeeperEvent ended = next_event(**keeper);
  CHECK(ended.kind == KeeperEvent::Kind::kExited);
  CHECK(ended.id == "u1");
  CHECK(ended.exit_code == 7);
  CHECK_FALSE(ended.signal.has_value());
  CHECK(read(folder.file("log")) == "worker in /\n");
}

TEST_CASE("keeper: what cannot be started is refused with a reason", "[cli]") {
  const Folder folder;
  const auto keeper = Keeper::start();
  REQUIRE(keeper.has_value());
  auto spec = shell(folder, "");
  spec.command = {"no-such-program-of-anybody"};
  REQUIRE((*keeper)->spawn("u1", spec));
  const KeeperEvent refused = next_event(**keeper);
  CHECK(refused.kind == KeeperEvent::Kind::kRefused);
  CHECK(refused.message.find("cannot start \"no-such-program-of-anybody\"") == 0);
}

TEST_CASE("keeper: signals reach the main process, and a killed one says by what", "[cli]") {
  const Folder folder;
  const auto keeper = Keeper::start();
  REQUIRE(keeper.has_value());
  REQUIRE(::mkfifo(folder.file("ready").c_str(), 0600) == 0);
  REQUIRE(
      (*keeper)->spawn("u1", shell(folder, "trap 'exit 75' TERM; echo > " + folder.file("ready") +
                                               "; while :; do read x < /dev/null; done")));
  next_event(**keeper);
  wait_for(folder.file("ready"));
  REQUIRE((*keeper)->signal("u1", SIGTERM));
  CHECK(next_event(**keeper).exit_code == 75);

  REQUIRE((*keeper)->spawn("u2", shell(folder, "exec sleep 1000", "u2")));
  next_event(**keeper);
  REQUIRE((*keeper)->signal("u2", SIGKILL));
  const KeeperEvent killed = next_event(**keeper);
  CHECK(killed.exit_code == 137);
  CHECK(killed.signal == SIGKILL);
}

TEST_CASE("keeper: a daemon dies with its pod's main process, another pod's lives on", "[cli]") {
  const Folder folder;
  const auto keeper = Keeper::start();
  REQUIRE(keeper.has_value());
  const std::string mark = os::random_hex(8);
  REQUIRE((*keeper)->spawn("other" + mark, shell(folder, "exec sleep 1000", "other" + mark)));
  next_event(**keeper);
  REQUIRE(::mkfifo(folder.file("ready").c_str(), 0600) == 0);
  // setsid twice over: out of the session, out of the tree.
  REQUIRE((*keeper)->spawn(
      mark, shell(folder,
                  "(setsid sh -c 'setsid sleep 1000 & echo > " + folder.file("ready") +
                      "' &); read x < " + folder.file("ready"),
                  mark)));
  next_event(**keeper);
  CHECK(next_event(**keeper).id == mark);
  CHECK_FALSE(has_process_with("PAWL_POD_UID=" + mark));
  CHECK(has_process_with("PAWL_POD_UID=other" + mark));
}

TEST_CASE("keeper: when its parent is killed, nothing below survives", "[cli]") {
  const Folder folder;
  const std::string mark = os::random_hex(8);
  const std::string ready = folder.file("ready");
  REQUIRE(::mkfifo(ready.c_str(), 0600) == 0);
  const pid_t parent = ::fork();
  if (parent == 0) {
    auto keeper = Keeper::start();
    // One that ignores SIGTERM, with a daemon below it that has shed its environment.
    const std::string script =
        "trap '' TERM; (setsid env -i sleep 1234.5 &); echo > " + ready + "; sleep 1000";
    if (!keeper || !(*keeper)->spawn(mark, shell(folder, script, mark))) ::_exit(1);
    while (true) ::pause();
  }
  wait_for(ready);
  pid_t keeper_pid = 0;
  for (const os::ProcessInfo& info : os::list_processes()) {
    if (info.parent == parent) keeper_pid = info.pid;
  }
  REQUIRE(keeper_pid > 0);
  REQUIRE(has_process_with("PAWL_POD_UID=" + mark));
  const auto below = os::descendants_of(keeper_pid);
  REQUIRE(below.size() >= 3);
  ::kill(parent, SIGKILL);
  ::waitpid(parent, nullptr, 0);
  // The keeper ends last; it is not our child, so its end shows in /proc.
  const auto is_there = [&] { return ::kill(keeper_pid, 0) == 0; };
  for (int i = 0; i < 1000 && is_there(); ++i) ::poll(nullptr, 0, 10);
  for (const os::ProcessInfo& info : below) {
    INFO(info.pid);
    const bool is_alive = ::kill(info.pid, 0) == 0;
    CHECK_FALSE(is_alive);
  }
}

TEST_CASE("keeper: SIGTERM waits for a launcher that cannot hear it yet, and ends others",
          "[cli]") {
  const Folder folder;
  const std::string name = GENERATE("pawl-launch", "sleeper");
  std::filesystem::create_symlink("/bin/sh", folder.file(name));
  const auto keeper = Keeper::start();
  REQUIRE(keeper.has_value());
  auto spec = shell(folder, "kill -TERM $$; exit 7");
  spec.command[0] = folder.file(name);
  REQUIRE((*keeper)->spawn("u1", spec));
  CHECK(next_event(**keeper).kind == KeeperEvent::Kind::kStarted);
  const KeeperEvent ended = next_event(**keeper);
  CHECK(ended.exit_code == (name == "pawl-launch" ? 7 : 128 + SIGTERM));
}
