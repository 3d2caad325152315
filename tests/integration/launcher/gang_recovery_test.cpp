// Real launchers and processes: who is lost, hangs, leaves or comes while the others go on from
// memory.
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "common/api/contract.h"
#include "gang_fixture.h"
#include "launcher/standby/memory_room.h"

using namespace pawl;
using namespace pawl::launcher;
using namespace pawl::launcher::test;
using namespace std::chrono_literals;
using api::WorkerGroup;

TEST_CASE("gang: a killed process is replaced beside the others, which keep their steps",
          "[launcher]") {
  GangFixture gang({.members = 2, .processes = 2, .is_in_place = true});
  gang.start_all(GangFixture::trainer({300, 10, 20}));
  REQUIRE(gang.until(has_trained));
  const std::int64_t step = gang.record().status.progress->step;
  const std::string output = gang.output(1);
  const auto first = std::stoi(output.substr(output.find(" pid ") + 5));
  REQUIRE(::kill(first, SIGKILL) == 0);
  for (const int slot : {0, 1}) {
    INFO(slot);
    CHECK(gang.wait(slot) == 0);
  }
  const WorkerGroup record = gang.record();
  CHECK(record.status.is_finished);
  CHECK(record.status.generation == 2);
  CHECK(record.status.base_generation == 1);
  CHECK(record.status.start_step >= step);
  CHECK(record.status.progress->step == 300);
  REQUIRE(record.status.failures.size() == 1);
  CHECK(record.status.failures[0].signal == SIGKILL);
  CHECK(record.status.failures[0].generation == 1);
  CHECK(record.status.failures[0].pod == "job-1-1-0");
  CHECK(record.status.checkpoint->step == 300);
  const std::string again = " of 4 starts at " + std::to_string(record.status.start_step) + ",";
  for (const int rank : {0, 1, 2, 3}) {
    CHECK(gang.output(rank / 2).find("rank " + std::to_string(rank) + again) != std::string::npos);
  }
}

TEST_CASE("gang: a process that hangs is found, named and replaced beside the others",
          "[launcher]") {
  const bool is_silent = GENERATE(true, false);
  INFO((is_silent ? "it falls silent" : "it is stopped by a signal"));
  GangFixture gang({.members = 3, .is_in_place = true});
  // These ranks do not wait for each other: all must still be at work when one is found.
  const int steps = is_silent ? 800 : 300;
  gang.start_all(is_silent ? GangFixture::trainer({steps, 10, 20, 1, 40, 1})
                           : GangFixture::trainer({steps, 10, 20}));
  REQUIRE(gang.until(has_trained));
  if (!is_silent) {
    const std::string output = gang.output(1);
    REQUIRE(::kill(std::stoi(output.substr(output.find(" pid ") + 5)), SIGSTOP) == 0);
  }
  for (const int slot : {0, 1, 2}) CHECK(gang.wait(slot) == 0);
  const WorkerGroup record = gang.record();
  CHECK(record.status.is_finished);
  CHECK(record.status.generation == 2);
  CHECK(record.status.base_generation == 1);
  CHECK(record.status.progress->step == steps);
  REQUIRE(record.status.failures.size() == 1);
  CHECK(record.status.failures[0].cause == "Hang");
  CHECK(record.status.failures[0].pod == "job-1-1-0");
  INFO(record.status.failures[0].message);
  CHECK(record.status.failures[0].message.find(is_silent ? "in phase forward of step 40"
                                                         : "it has been stopped by a signal") !=
        std::string::npos);
}

TEST_CASE("gang: a killed launcher is replaced, the leading one taken over from, in one attempt",
          "[launcher]") {
  for (const int killed : {0, 2}) {
    INFO("slot " << killed);
    GangFixture gang({.members = 3, .is_in_place = true});
    const auto command = GangFixture::trainer({400, 10, 50});
    gang.start_all(command);
    REQUIRE(gang.until(has_trained));
    const std::int64_t step = gang.record().status.progress->step;
    gang.signal(killed, SIGKILL);
    REQUIRE(gang.wait(killed) == 128 + SIGKILL);
    gang.replace(killed, command);
    for (const int slot : {0, 1, 2}) CHECK(gang.wait(slot) == 0);
    const WorkerGroup record = gang.record();
    CHECK(record.status.is_finished);
    CHECK(record.status.attempt == 1);
    CHECK(record.status.term == (killed == 0 ? 2 : 1));
    CHECK(record.status.generation == 2);
    CHECK(record.status.base_generation == 1);
    CHECK(record.status.start_step >= step);
    CHECK(record.status.progress->step == 400);
    CHECK(record.status.checkpoint->step == 400);
    for (const int slot : {0, 1, 2}) {
      INFO(gang.output(slot));
      CHECK(gang.output(slot).find(" of 3 starts at " + std::to_string(record.status.start_step)) !=
            std::string::npos);
    }
  }
}

TEST_CASE("gang: a launcher that is told to terminate leaves its place to another, a leader too",
          "[launcher]") {
  for (const int told : {0, 1}) {
    INFO("slot " << told);
    GangFixture gang({.members = 2, .is_in_place = true});
    const auto command = GangFixture::trainer({400, 10, 50});
    gang.start_all(command);
    REQUIRE(gang.until(has_trained));
    gang.signal(told, SIGTERM);
    REQUIRE(gang.wait(told) == api::kExitDrained);
    gang.replace(told, command);
    CHECK(gang.wait(0) == 0);
    CHECK(gang.wait(1) == 0);
    const WorkerGroup record = gang.record();
    CHECK(record.status.attempt == 1);
    CHECK(record.status.term == (told == 0 ? 2 : 1));
    CHECK(record.status.generation == 2);
    CHECK(record.status.base_generation == 1);
    CHECK(record.status.failures.empty());
  }
}

TEST_CASE("gang: members come and go while it trains", "[launcher]") {
  GangFixture gang({.members = 1, .is_in_place = true});
  const auto command = GangFixture::trainer({1000, 10, 50});
  gang.start_all(command);
  REQUIRE(gang.until(has_trained));
  gang.resize(3, command);
  REQUIRE(gang.until([](const WorkerGroup& group) { return group.status.members.size() == 3; }));
  const std::int64_t grown_at = gang.record().status.start_step;
  REQUIRE(gang.until([&](const WorkerGroup& group) {
    return group.status.progress && group.status.progress->step > grown_at;
  }));
  gang.resize(2, command);
  CHECK(gang.wait(2) == api::kExitRetry);
  CHECK(gang.wait(0) == 0);
  CHECK(gang.wait(1) == 0);
  const WorkerGroup record = gang.record();
  CHECK(record.status.is_finished);
  CHECK(record.status.generation == 3);
  CHECK(record.status.members.size() == 2);
  CHECK(record.status.start_step > grown_at);
  CHECK(record.status.progress->step == 1000);
  CHECK(record.status.failures.empty());
  CHECK(gang.output(2).find("rank 2 of 3 starts at " + std::to_string(grown_at)) !=
        std::string::npos);
  CHECK(gang.output(0).find("rank 0 of 2 starts at " + std::to_string(record.status.start_step)) !=
        std::string::npos);
}

TEST_CASE("gang: one that may be smaller goes on without a lost member, a leader too",
          "[launcher]") {
  for (const int killed : {0, 2}) {
    INFO("slot " << killed);
    GangFixture gang({.members = 3, .is_in_place = true, .least = 2});
    const auto command = GangFixture::trainer({1000, 10, 50});
    gang.start_all(command);
    REQUIRE(gang.until(has_trained));
    gang.signal(killed, SIGKILL);
    REQUIRE(gang.wait(killed) == 128 + SIGKILL);
    REQUIRE(gang.until([](const WorkerGroup& group) { return group.status.members.size() == 2; }));
    const WorkerGroup smaller = gang.record();
    CHECK(smaller.status.generation == 2);
    CHECK(smaller.status.base_generation == 1);
    REQUIRE(gang.until([&](const WorkerGroup& group) {
      return group.status.progress->step > smaller.status.start_step;
    }));
    gang.replace(killed, command);
    REQUIRE(gang.until([](const WorkerGroup& group) { return group.status.members.size() == 3; }));
    for (const int slot : {0, 1, 2}) CHECK(gang.wait(slot) == 0);
    const WorkerGroup record = gang.record();
    CHECK(record.status.is_finished);
    CHECK(record.status.generation == 3);
    CHECK(record.status.start_step > smaller.status.start_step);
    CHECK(record.status.progress->step == 1000);
  }
}

TEST_CASE("gang: what has stood by is the program of another framework after a loss",
          "[launcher]") {
  GangFixture gang({.members = 2, .runtime = api::RuntimeKind::kTorch, .is_in_place = true});
  if (memory_room() < (std::int64_t{5} << 30)) SKIP("nobody stands by with so little memory");
  // One of the packages that are imported early. The rank that fails first waits for those that
  // stand by.
  const std::string venv = gang.folder() + "/venv";
  REQUIRE(std::system(("python3 -m venv --without-pip " + venv).c_str()) == 0);
  for (const auto& entry : std::filesystem::directory_iterator(venv + "/lib"))
    std::ofstream(entry.path() / "site-packages" / "einops.py")
        << "import os\nRANK = os.environ.get('RANK')\n";
  std::ofstream(gang.folder() + "/train.py")
      << "import os, signal, time\nimport einops\n"
         "first = os.environ['PAWL_GENERATION'] == '1'\n"
         "folder = os.path.dirname(__file__)\n"
         "while first and os.environ['RANK'] == '0': time.sleep(1)\n"
         "while first and not all('\"standby_ready\"' in open(folder + name).read()\n"
         "                        for name in ('/log-0', '/log-1')): time.sleep(0.05)\n"
         "if first: os.kill(os.getpid(), signal.SIGKILL)\n"
         "print('rank', os.environ['RANK'], 'of', os.environ['WORLD_SIZE'], 'early:', "
         "einops.RANK is None)\n";
  for (const int slot : {0, 1})
    gang.start(slot, {venv + "/bin/python3", gang.folder() + "/train.py"},
               {{api::kEnvStandbySeconds, "1"}});
  for (const int slot : {0, 1}) {
    INFO(slot);
    CHECK(gang.wait(slot) == 0);
    const std::string output = gang.output(slot);
    INFO(output);
    CHECK(output.find("\"standby_taken\"") != std::string::npos);
    CHECK(output.find(" of 2 early: True") != std::string::npos);
  }
  const WorkerGroup record = gang.record();
  CHECK(record.status.is_finished);
  CHECK(record.status.generation == 2);
}
