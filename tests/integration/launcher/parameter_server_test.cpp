// TensorFlow's parameter servers never end by themselves: the launchers end them with the job.
#include <catch2/catch_test_macros.hpp>
#include <csignal>

#include "common/api/contract.h"
#include "gang_fixture.h"

using namespace pawl;
using namespace pawl::launcher::test;

namespace {

constexpr GangOptions kServers{.members = 3,
                               .runtime = api::RuntimeKind::kTensorFlow,
                               .is_in_place = true,
                               .parameter_servers = 1};

// The server waits; the others do what they are given.
std::vector<std::string> program(const std::string& others) {
  return {
      "sh", "-c",
      "echo \"$TF_CONFIG\"; case \"$TF_CONFIG\" in *'\"type\":\"ps\"'*) exec sleep 60;; esac; " +
          others};
}

}  // namespace

TEST_CASE("parameter_server: the job is complete when the others are done", "[launcher]") {
  GangFixture gang(kServers);
  gang.start_all(program("exit 0"));
  for (const int slot : {0, 1, 2}) {
    INFO("slot " << slot << ": " << gang.output(slot));
    CHECK(gang.wait(slot) == 0);
  }
  CHECK(gang.record().status.is_finished);
  CHECK(gang.record().status.failures.empty());
  const char* const tasks[] = {R"("task":{"index":0,"type":"chief"})",
                               R"("task":{"index":0,"type":"worker"})",
                               R"("task":{"index":0,"type":"ps"})"};
  for (const int slot : {0, 1, 2}) CHECK(gang.output(slot).find(tasks[slot]) != std::string::npos);
}

TEST_CASE("parameter_server: one that is killed is a lost member as any other", "[launcher]") {
  GangFixture gang(kServers);
  gang.start_all({"sh", "-c",
                  "case \"$TF_CONFIG$PAWL_GENERATION\" in *'\"type\":\"ps\"'*1) kill -9 $$;; "
                  "*'\"type\":\"ps\"'*) exec sleep 60;; *1) sleep 60;; esac"});
  for (const int slot : {0, 1, 2}) {
    INFO("slot " << slot << ": " << gang.output(slot));
    CHECK(gang.wait(slot) == 0);
  }
  const api::WorkerGroup record = gang.record();
  CHECK(record.status.is_finished);
  CHECK(record.status.generation == 2);
  REQUIRE(record.status.failures.size() == 1);
  CHECK(record.status.failures[0].pod == "job-1-2-0");
}
