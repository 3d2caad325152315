// Which programs get a second process that stands by, and whether there is memory for it.
#include <unistd.h>
#include <catch2/catch_test_macros.hpp>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "launcher/standby/memory_room.h"
#include "launcher/standby/standby_command.h"

using namespace pawl;
using namespace pawl::launcher;

TEST_CASE("standby: only for what is plainly a Python program", "[launcher]") {
  struct Case {
    std::vector<std::string> command, expected;
  };
  const std::vector<Case> cases = {
      {{"python", "train.py"}, {"python", "S", "7", "train.py"}},
      {{"/opt/env/bin/python3.11", "-u", "-X", "dev", "-Wignore", "train.py", "-c", "x"},
       {"/opt/env/bin/python3.11", "-u", "-X", "dev", "-Wignore", "S", "7", "train.py", "-c", "x"}},
      {{"python3", "-m", "pkg.train", "--lr"}, {"python3", "S", "7", "-m", "pkg.train", "--lr"}},
      {{"python3", "-OO", "-m", "pkg"}, {"python3", "-OO", "S", "7", "-m", "pkg"}},
      {{"python3"}, {}},
      {{"python3", "-m"}, {}},
      {{"python3", "-u"}, {}},
      {{"python3", "-X"}, {}},
      {{"python3", "-um", "pkg"}, {}},
      {{"python3", "-c", "print()"}, {}},
      {{"python3", "-i", "train.py"}, {}},
      {{"python3", "-"}, {}},
      {{"python3", "--version"}, {}},
      {{"python-config", "train.py"}, {}},
      {{"torchrun", "train.py"}, {}},
      {{"sh", "-c", "python train.py"}, {}},
      {{}, {}}};
  for (const Case& one : cases) {
    CAPTURE(one.command);
    CHECK(standby_command(one.command, "S", 7).value_or(std::vector<std::string>{}) ==
          one.expected);
  }
}

TEST_CASE("standby: memory that is left, of the container or of the machine", "[launcher]") {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("pawl-room-" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder / "memory");
  const auto write = [&](const char* name, const char* text) {
    std::ofstream(folder / name) << text;
  };
  write("meminfo", "MemTotal:  9999 kB\nMemAvailable:    4000 kB\n");
  const auto room = [&] { return memory_room(folder.string(), (folder / "meminfo").string()); };
  CHECK(room() == 4'096'000);
  write("memory.max", "max\n");
  write("memory.current", "500\n");
  CHECK(room() == 4'096'000);
  write("memory.max", "1000\n");
  write("memory.stat", "anon 400\ninactive_file 100\n");
  CHECK(room() == 600);
  write("memory.oom.group", "1\n");
  CHECK(room() == 475);
  write("memory/memory.limit_in_bytes", "700\n");
  write("memory/memory.usage_in_bytes", "650\n");
  write("memory/memory.stat", "cache 3\ntotal_inactive_file 10\n");
  CHECK(room() == 60);
  CHECK(memory_room("/nowhere", "/nowhere") == kRoomUnknown);
  std::filesystem::remove_all(folder);
}
