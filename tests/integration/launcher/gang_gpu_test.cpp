// Real launchers and processes on machines whose GPUs fail, as a stub of NVIDIA's library says
// (tests/unit/launcher/nvml_stub.cpp).
#include <catch2/catch_test_macros.hpp>
#include <filesystem>
#include <fstream>
#include <string>

#include "common/api/contract.h"
#include "gang_fixture.h"

using namespace pawl;
using namespace pawl::launcher::test;
using namespace std::chrono_literals;
using api::WorkerGroup;

namespace {

// What the GPUs of a slot say from now on.
void set_gpus(const GangFixture& gang, int slot, const std::string& text) {
  const std::string path = gang.folder() + "/gpus-" + std::to_string(slot);
  std::ofstream(path + ".next") << text;
  std::filesystem::rename(path + ".next", path);
}

std::map<std::string, std::string> gpu_env(const GangFixture& gang, int slot) {
  return {{"PAWL_NVML", PAWL_NVML_STUB_PATH},
          {"PAWL_NVML_STUB", gang.folder() + "/gpus-" + std::to_string(slot)},
          {"NVIDIA_VISIBLE_DEVICES", "GPU-a"}};
}

}  // namespace

TEST_CASE(
    "gpu: one fails while it trains: its worker says so, and another one goes on in its place",
    "[launcher][gpu]") {
  GangFixture gang({.members = 2, .is_in_place = true});
  const auto command = GangFixture::trainer({400, 10, 50});
  set_gpus(gang, 1, "gpu GPU-a\n");
  gang.start(0, command);
  gang.start(1, command, gpu_env(gang, 1));
  REQUIRE(gang.until(has_trained));
  set_gpus(gang, 1, "gpu GPU-a\nevent 0 8 79\n");
  REQUIRE(gang.wait(1) == api::kExitDrained);
  INFO(gang.output(1));
  CHECK(gang.termination(1).cause == "GpuFault");
  CHECK(gang.termination(1).message == "GPU 0 fell off the bus (XID 79)");
  CHECK(gang.termination(1).rank == 1);
  gang.replace(1, command);
  CHECK(gang.wait(0) == 0);
  CHECK(gang.wait(1) == 0);
  const WorkerGroup record = gang.record();
  CHECK(record.status.attempt == 1);
  CHECK(record.status.generation == 2);
  CHECK(record.status.base_generation == 1);
  CHECK(record.status.progress->step == 400);
  CHECK(record.status.failures.empty());
}

TEST_CASE("gpu: a worker is not let in on one that has to be reset, unless its user wants it",
          "[launcher][gpu]") {
  GangFixture gang({.members = 2, .is_in_place = true});
  const auto command = GangFixture::trainer({60, 10, 50});
  set_gpus(gang, 1, "gpu GPU-a pending 1\n");
  gang.start(0, command);
  gang.start(1, command, gpu_env(gang, 1));
  REQUIRE(gang.wait(1) == api::kExitDrained);
  CHECK(gang.termination(1).cause == "GpuFault");
  CHECK(gang.termination(1).message ==
        "GPU 0 has a bad row in its memory, and has to be reset to replace it");
  CHECK(gang.record().status.generation == 0);

  GangFixture other({.members = 1});
  set_gpus(other, 0, "gpu GPU-a pending 1\n");
  auto env = gpu_env(other, 0);
  env["PAWL_HEALTH_GATE"] = "0";
  other.start(0, command, env);
  CHECK(other.wait(0) == 0);
}

TEST_CASE("gpu: what a program did to it stands in the message of its failure", "[launcher][gpu]") {
  GangFixture gang({.members = 1});
  set_gpus(gang, 0, "gpu GPU-a\nevent 0 8 31\n");
  gang.start(0, GangFixture::trainer({100, 10, 20, 0, 5}), gpu_env(gang, 0));
  CHECK(gang.wait(0) == 3);
  CHECK(gang.termination(0).cause == "Error");
  INFO(gang.termination(0).message);
  CHECK(gang.termination(0).message.find(
            "after: GPU 0 was asked for memory that the program does not have (XID 31)") !=
        std::string::npos);
}

TEST_CASE("gpu: a program that its GPU ends is not blamed, whichever is heard of first",
          "[launcher][gpu]") {
  GangFixture gang({.members = 2, .is_in_place = true});
  const auto command = GangFixture::trainer({400, 10, 50, 1, 60});
  set_gpus(gang, 1, "gpu GPU-a\n");
  gang.start(0, command);
  gang.start(1, command, gpu_env(gang, 1));
  REQUIRE(gang.until(has_trained));
  // No event: the launcher looks because the process ended.
  set_gpus(gang, 1, "gpu GPU-a lost 1\n");
  REQUIRE(gang.wait(1) == api::kExitDrained);
  CHECK(gang.termination(1).cause == "GpuFault");
  CHECK(gang.record().status.failures.empty());
}
