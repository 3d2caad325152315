// Real launchers, and a Python script that stays when its gang changes (spec.runtime.inPlace,
// clients/python: pawl.Gang): what it holds in memory outlives every other process.
#include <catch2/catch_test_macros.hpp>
#include <csignal>

#include "common/api/contract.h"
#include "gang_fixture.h"

using namespace pawl;
using namespace pawl::launcher::test;
using namespace std::chrono_literals;
using api::WorkerGroup;

namespace {

GangOptions of_in_place(int members, int least = 0) {
  return {.members = members,
          .runtime = api::RuntimeKind::kTorch,
          .is_in_place = true,
          .is_program_in_place = true,
          .least = least};
}

std::vector<std::string> in_place_script(int steps, int milliseconds) {
  return {"python3", PAWL_IN_PLACE_PROGRAM_PATH, std::to_string(steps),
          std::to_string(milliseconds)};
}

// All items of all steps, each once.
std::string value_after(std::int64_t steps) {
  return "the value is " + std::to_string(66 * steps * (steps + 1) / 2) + "\n";
}

pid_t process_of(const GangFixture& gang, int slot) {
  const std::string output = gang.output(slot);
  return std::stoi(output.substr(output.rfind("pid ") + 4));
}

void check_end(GangFixture& gang, std::int64_t steps, const std::vector<int>& slots) {
  for (const int slot : slots) {
    INFO(slot << ": " << gang.output(slot));
    CHECK(gang.wait(slot) == 0);
    CHECK(gang.output(slot).find(value_after(steps)) != std::string::npos);
  }
  const WorkerGroup record = gang.record();
  CHECK(record.status.is_finished);
  CHECK(record.status.attempt == 1);
  REQUIRE(record.status.progress.has_value());
  CHECK(record.status.progress->step == steps);
}

// It began this generation with what it held, in the same process.
void check_stayed(const GangFixture& gang, int slot, pid_t process) {
  const WorkerGroup record = const_cast<GangFixture&>(gang).record();
  const std::string begins = " in generation " + std::to_string(record.status.generation) +
                             " begins at " + std::to_string(record.status.start_step) +
                             ", holds it";
  INFO(gang.output(slot));
  CHECK(gang.output(slot).find(begins) != std::string::npos);
  CHECK(process_of(gang, slot) == process);
}

}  // namespace

TEST_CASE("in-place program: a killed process is replaced beside the others, which keep theirs",
          "[launcher]") {
  GangFixture gang(of_in_place(3));
  gang.start_all(in_place_script(300, 10));
  REQUIRE(gang.until(has_trained));
  const std::int64_t step = gang.record().status.progress->step;
  const pid_t kept = process_of(gang, 0);
  REQUIRE(::kill(process_of(gang, 1), SIGKILL) == 0);
  check_end(gang, 300, {0, 1, 2});
  const WorkerGroup record = gang.record();
  CHECK(record.status.generation == 2);
  CHECK(record.status.base_generation == 1);
  CHECK(record.status.start_step >= step);
  REQUIRE(record.status.failures.size() == 1);
  CHECK(record.status.failures[0].signal == SIGKILL);
  check_stayed(gang, 0, kept);
  CHECK(gang.output(1).find(", is given it") != std::string::npos);
}

TEST_CASE("in-place program: one that is stopped blocks the others, which are freed",
          "[launcher]") {
  GangFixture gang(of_in_place(3));
  gang.start_all(in_place_script(300, 10));
  REQUIRE(gang.until(has_trained));
  const pid_t kept = process_of(gang, 2);
  REQUIRE(::kill(process_of(gang, 1), SIGSTOP) == 0);
  check_end(gang, 300, {0, 1, 2});
  CHECK(gang.record().status.generation == 2);
  REQUIRE(gang.record().status.failures.size() == 1);
  CHECK(gang.record().status.failures[0].cause == "Hang");
  check_stayed(gang, 2, kept);
}

TEST_CASE("in-place program: a lost worker is replaced, the leading one too", "[launcher]") {
  for (const int killed : {0, 2}) {
    INFO("slot " << killed);
    GangFixture gang(of_in_place(3));
    const auto command = in_place_script(300, 20);
    gang.start_all(command);
    REQUIRE(gang.until(has_trained));
    const std::int64_t step = gang.record().status.progress->step;
    const pid_t kept = process_of(gang, 1);
    gang.signal(killed, SIGKILL);
    REQUIRE(gang.wait(killed) == 128 + SIGKILL);
    gang.replace(killed, command);
    check_end(gang, 300, {0, 1, 2});
    CHECK(gang.record().status.generation == 2);
    CHECK(gang.record().status.start_step >= step);
    check_stayed(gang, 1, kept);
  }
}

TEST_CASE("in-place program: it becomes larger and smaller, and makes every step once",
          "[launcher]") {
  GangFixture gang(of_in_place(2));
  const auto command = in_place_script(500, 20);
  gang.start_all(command);
  REQUIRE(gang.until(has_trained));
  const pid_t kept = process_of(gang, 0);
  const auto has = [&](std::size_t members) {
    return gang.until(
        [=](const WorkerGroup& group) { return group.status.members.size() == members; });
  };
  gang.resize(4, command);
  REQUIRE(has(4));
  gang.resize(1, command);
  REQUIRE(has(1));
  check_end(gang, 500, {0});
  check_stayed(gang, 0, kept);
}

TEST_CASE("in-place program: with too few it goes on smaller, where it may", "[launcher]") {
  GangFixture gang(of_in_place(3, 1));
  gang.start_all(in_place_script(400, 10));
  REQUIRE(gang.until(has_trained));
  const pid_t kept = process_of(gang, 0);
  gang.signal(2, SIGKILL);
  REQUIRE(gang.wait(2) == 128 + SIGKILL);
  check_end(gang, 400, {0, 1});
  CHECK(gang.record().status.members.size() == 2);
  check_stayed(gang, 0, kept);
}

TEST_CASE("in-place program: suspended, it is told, saves by itself and leaves", "[launcher]") {
  GangFixture gang(of_in_place(2));
  gang.start_all(in_place_script(1'000'000, 10));
  REQUIRE(gang.until(has_trained));
  gang.edit_spec(R"({"stopping":true})");
  CHECK(gang.wait(0) == api::kExitDrained);
  CHECK(gang.wait(1) == api::kExitDrained);
  CHECK(gang.output(0).find("told to stop at ") != std::string::npos);
  CHECK(gang.record().status.failures.empty());
}

TEST_CASE("in-place program: a bug of its own is its failure, with its own code", "[launcher]") {
  GangFixture gang(of_in_place(2));
  gang.start_all({"python3", "-c",
                  "import sys\nsys.path.append('" PAWL_PYTHON_CLIENT_FOLDER
                  "')\nimport pawl\ndef train(gang, place):\n  raise ValueError('a shape is "
                  "wrong')\npawl.Gang().run(train)\n"});
  const int first = gang.wait(0), second = gang.wait(1);
  CHECK((first == 1 || second == 1));
  CHECK((gang.output(0) + gang.output(1)).find("ValueError: a shape is wrong") !=
        std::string::npos);
}
