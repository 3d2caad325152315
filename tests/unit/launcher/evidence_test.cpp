// Why a process ended, where its exit code does not say so: what it wrote, and what the kernel
// counts.
#include <sys/stat.h>
#include <unistd.h>
#include <catch2/catch_test_macros.hpp>
#include <fstream>

#include "launcher/supervisor/error_file.h"
#include "launcher/supervisor/oom.h"

using namespace pawl;
using namespace pawl::launcher;

namespace {

std::string evidence_folder() {
  std::string path = "/tmp/pawl-test-XXXXXX";
  REQUIRE(::mkdtemp(path.data()) != nullptr);
  return path;
}

}  // namespace

TEST_CASE("error_file: torchrun's file is read in both of its forms", "[launcher]") {
  const std::string path = evidence_folder() + "/error.json";
  const auto written = [&](const std::string& text) {
    std::ofstream(path) << text;
    return read_error_file(path);
  };
  CHECK(read_error_file("") == "");
  CHECK(read_error_file(path) == "");
  CHECK(written("not json") == "");
  CHECK(written(R"({"message":"plain\nsecond"})") == "plain");
  CHECK(written(R"({"message":{"message":"ValueError: x","extraInfo":{"timestamp":"1"}}})") ==
        "ValueError: x");
  ::unlink(path.c_str());
  ::rmdir(path.substr(0, path.rfind('/')).c_str());
}

TEST_CASE("oom: kills are counted in either version of cgroups", "[launcher]") {
  const std::string root = evidence_folder();
  CHECK(oom_kills(root) == 0);
  SECTION("version 2") {
    std::ofstream(root + "/memory.events") << "low 0\nhigh 3\nmax 7\noom 2\noom_kill 2\n";
    CHECK(oom_kills(root) == 2);
    ::unlink((root + "/memory.events").c_str());
  }
  SECTION("version 1") {
    ::mkdir((root + "/memory").c_str(), 0700);
    std::ofstream(root + "/memory/memory.oom_control")
        << "oom_kill_disable 0\nunder_oom 0\noom_kill 4\n";
    CHECK(oom_kills(root) == 4);
    ::unlink((root + "/memory/memory.oom_control").c_str());
    ::rmdir((root + "/memory").c_str());
  }
  ::rmdir(root.c_str());
}
