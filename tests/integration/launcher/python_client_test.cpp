// Real launchers, and a Python script that uses clients/python: what it tells reaches the record,
// and what it is told it obeys.
#include <catch2/catch_test_macros.hpp>
#include <csignal>

#include "common/api/contract.h"
#include "gang_fixture.h"

using namespace pawl;
using namespace pawl::launcher::test;
using namespace std::chrono_literals;
using api::WorkerGroup;

namespace {

constexpr int kEndless = 1'000'000;

std::vector<std::string> script(int steps, int milliseconds, const std::string& manner = "on") {
  return {"python3", PAWL_PYTHON_PROGRAM_PATH, std::to_string(steps), std::to_string(milliseconds),
          manner};
}

GangOptions of_torch(int members) {
  return {.members = members, .runtime = api::RuntimeKind::kTorch, .is_in_place = true};
}

// The step that its output says it has saved; 0: none.
int saved_step(const std::string& output) {
  constexpr std::string_view kWords = "saved step ";
  const std::size_t at = output.rfind(kWords);
  return at == std::string::npos ? 0 : std::stoi(output.substr(at + kWords.size()));
}

}  // namespace

TEST_CASE("python: what a script reports stands in the record", "[launcher]") {
  GangFixture gang(of_torch(2));
  gang.start_all(script(40, 5));
  CHECK(gang.wait(0) == 0);
  CHECK(gang.wait(1) == 0);
  const WorkerGroup record = gang.record();
  CHECK(record.status.is_finished);
  CHECK(record.status.failures.empty());
  REQUIRE(record.status.progress.has_value());
  CHECK(record.status.progress->step == 40);
  CHECK(record.status.progress->total_steps == 40);
  CHECK(record.status.progress->percent == 100);
  CHECK(record.status.progress->loss == "0.0250");
  CHECK(record.status.progress->samples_per_second == "5.0");
  CHECK(gang.output(1).find("job rank 1 of 2 in generation 1 begins with 1\n") !=
        std::string::npos);
}

TEST_CASE("python: a suspended script saves and leaves, which is no failure", "[launcher]") {
  GangFixture gang(of_torch(2));
  gang.start_all(script(kEndless, 5));
  REQUIRE(gang.until(has_trained));
  gang.edit_spec(R"({"stopping":true})");
  CHECK(gang.wait(0) == api::kExitDrained);
  CHECK(gang.wait(1) == api::kExitDrained);
  CHECK(saved_step(gang.output(0)) > 5);
  CHECK(gang.record().status.progress->step == saved_step(gang.output(0)));
  CHECK(gang.record().status.failures.empty());
}

TEST_CASE("python: when a worker leaves all scripts save and go on from there", "[launcher]") {
  for (const int told : {0, 1}) {
    INFO("slot " << told);
    GangFixture gang(of_torch(2));
    const auto command = script(400, 10);
    gang.start_all(command);
    REQUIRE(gang.until(has_trained));
    gang.signal(told, SIGTERM);
    REQUIRE(gang.wait(told) == api::kExitDrained);
    const int saved = saved_step(gang.output(0));
    CHECK(saved > 5);
    gang.replace(told, command);
    CHECK(gang.wait(0) == 0);
    CHECK(gang.wait(1) == 0);
    const WorkerGroup record = gang.record();
    CHECK(record.status.attempt == 1);
    CHECK(record.status.generation == 2);
    CHECK(record.status.progress->step == 400);
    CHECK(record.status.failures.empty());
    CHECK(gang.output(1).find("in generation 2 begins with " + std::to_string(saved + 1) + "\n") !=
          std::string::npos);
  }
}

TEST_CASE("python: a script that leaves by itself with 75 is run again", "[launcher]") {
  GangFixture gang({.members = 1, .runtime = api::RuntimeKind::kTorch});
  gang.start_all(script(kEndless, 5, "leave"));
  CHECK(gang.wait(0) == api::kExitRetry);
  CHECK(gang.termination(0).cause == "Victim");
  CHECK(saved_step(gang.output(0)) == 10);
}

TEST_CASE("python: checkpointNow reaches a script, which saves", "[launcher]") {
  GangFixture gang(of_torch(1));
  gang.start_all(script(kEndless, 5, "asked"));
  REQUIRE(gang.until(has_trained));
  gang.edit_spec(R"({"checkpointNow":1})");
  CHECK(gang.wait(0) == 0);
  CHECK(saved_step(gang.output(0)) > 5);
  CHECK(gang.output(0).find(", asked\n") != std::string::npos);
  CHECK(gang.record().status.checkpoint_done == 0);  // nobody saw it
}

TEST_CASE("python: a script that hangs is found and named, and who waits for it is not",
          "[launcher]") {
  GangFixture gang(of_torch(2));
  gang.start_all(script(40, 5, "hang"));
  CHECK(gang.wait(0) == 0);
  CHECK(gang.wait(1) == 0);
  const WorkerGroup record = gang.record();
  CHECK(record.status.is_finished);
  CHECK(record.status.generation == 2);
  CHECK(record.status.progress->step == 40);
  REQUIRE(record.status.failures.size() == 1);
  CHECK(record.status.failures[0].cause == "Hang");
  CHECK(record.status.failures[0].pod == "job-1-1-0");
  INFO(record.status.failures[0].message);
  CHECK(record.status.failures[0].message.find("in phase forward of step 10 (99 of 100 times") !=
        std::string::npos);
}
