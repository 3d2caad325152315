// Real launchers, real processes, the embedded API: what each way a gang can end leaves in the
// record, on storage, in the exit codes and in the termination messages.
#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <catch2/catch_test_macros.hpp>
#include <csignal>

#include "common/api/contract.h"
#include "common/os/fd.h"
#include "gang_fixture.h"

using namespace pawl;
using namespace pawl::launcher::test;
using namespace std::chrono_literals;
using api::WorkerGroup;

namespace {
constexpr int kForEver = 1'000'000;
std::uint16_t free_port() { return os::local_port(os::listen_tcp("127.0.0.1", 0)->get()).value(); }

int http_status(const std::string& port, const std::string& path) {
  const auto number = static_cast<std::uint16_t>(std::stoi(port));
  const auto socket = os::connect_tcp("127.0.0.1", number, 2s);
  REQUIRE(socket.has_value());
  const std::string request = "GET " + path + " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
  REQUIRE(::send(socket->get(), request.data(), request.size(), MSG_NOSIGNAL) ==
          static_cast<ssize_t>(request.size()));
  std::string answer(4096, '\0');
  const ssize_t count = ::recv(socket->get(), answer.data(), answer.size(), 0);
  REQUIRE(count > 12);
  return std::stoi(answer.substr(9, 3));
}

// A descriptor that becomes readable when the process has ended.
os::Fd watch_process(const std::string& output) {
  const std::size_t at = output.find(" pid ");
  REQUIRE(at != std::string::npos);
  return os::Fd{static_cast<int>(::syscall(SYS_pidfd_open, std::stoi(output.substr(at + 5)), 0))};
}
}  // namespace

TEST_CASE("gang: two members of two processes train, checkpoint, finish", "[launcher]") {
  GangFixture gang({.members = 2, .processes = 2});
  gang.start_all(GangFixture::trainer({60, 10, 20}));
  for (const int slot : {0, 1}) {
    INFO(slot);
    CHECK(gang.wait(slot) == 0);
  }
  const WorkerGroup record = gang.record();
  CHECK(record.status.is_finished);
  CHECK(record.status.generation == 1);
  CHECK(record.status.term == 1);
  CHECK(record.status.members.size() == 2);
  CHECK(record.status.failures.empty());
  REQUIRE(record.status.progress.has_value());
  CHECK(record.status.progress->step == 60);
  CHECK(record.status.progress->percent == 100);
  REQUIRE(record.status.checkpoint.has_value());
  CHECK(record.status.checkpoint->step == 60);
  CHECK(gang.checkpoints().back() == GangFixture::checkpoint(60));
  CHECK(gang.output(0).find("[0] rank 0 of 4 starts at 0, 2 peers, key of 64") !=
        std::string::npos);
  CHECK(gang.output(1).find("[3] rank 3 of 4 starts at 0, 2 peers, key of 64") !=
        std::string::npos);
}

TEST_CASE("gang: a foreign program finds torchrun's environment", "[launcher]") {
  GangFixture gang({.members = 2, .processes = 2, .runtime = api::RuntimeKind::kTorch});
  gang.start_all({"sh", "-c",
                  "echo \"r=$RANK w=$WORLD_SIZE l=$LOCAL_RANK g=$GROUP_RANK m=$MASTER_ADDR "
                  "p=$MASTER_PORT c=$TORCHELASTIC_RESTART_COUNT\""});
  CHECK(gang.wait(0) == 0);
  CHECK(gang.wait(1) == 0);
  CHECK(gang.record().status.is_finished);
  CHECK(gang.output(0).find("[1] r=1 w=4 l=1 g=0 m=127.0.0.1 p=") != std::string::npos);
  CHECK(gang.output(1).find("[2] r=2 w=4 l=0 g=1 m=127.0.0.1 p=") != std::string::npos);
  const auto port_in = [](const std::string& text) { return text.substr(text.find(" p="), 8); };
  CHECK(port_in(gang.output(0)) == port_in(gang.output(1)));
}

TEST_CASE("gang: a failed process is named with its last words, the others are victims",
          "[launcher]") {
  GangFixture gang({.members = 2});
  gang.start_all(GangFixture::trainer({kForEver, 10, kForEver, 1, 20}));
  CHECK(gang.wait(1) == 3);
  CHECK(gang.wait(0) == api::kExitRetry);
  const api::Failure own = gang.termination(1);
  CHECK(own.rank == 1);
  CHECK(own.exit_code == 3);
  CHECK(own.cause == "Error");
  CHECK(own.log_tail.find("rank 1 has had enough") != std::string::npos);
  CHECK(gang.termination(0).cause == "Victim");
  const WorkerGroup record = gang.record();
  REQUIRE(record.status.failures.size() == 1);
  CHECK(record.status.failures[0].pod == "job-1-1-0");
  CHECK(record.status.failures[0].log_tail.find("rank 1 has had enough") != std::string::npos);
}

TEST_CASE("gang: after a failure the next attempt goes on from the last checkpoint", "[launcher]") {
  GangFixture gang({.members = 2});
  gang.start_all(GangFixture::trainer({kForEver, 5, 20}));
  REQUIRE(gang.until([](const WorkerGroup& record) {
    return record.status.checkpoint && record.status.checkpoint->step >= 40;
  }));
  REQUIRE(::syscall(SYS_pidfd_send_signal, watch_process(gang.output(0)).get(), SIGKILL, nullptr,
                    0) == 0);
  CHECK(gang.wait(0) == 128 + SIGKILL);
  CHECK(gang.wait(1) == api::kExitRetry);
  const auto saved = static_cast<int>(gang.record().status.checkpoint->step);
  gang.next_attempt();
  gang.start_all(GangFixture::trainer({saved + 20, 5, 20}));
  CHECK(gang.wait(0) == 0);
  CHECK(gang.wait(1) == 0);
  const WorkerGroup record = gang.record();
  CHECK(record.status.generation == 2);
  CHECK(record.status.attempt == 2);
  CHECK(record.status.start_step == saved);
  CHECK(record.status.lineage == std::vector<api::LineageEntry>{{1, 1, 0}, {2, 2, saved}});
  CHECK(gang.output(1).find("rank 1 of 2 starts at " + std::to_string(saved)) != std::string::npos);
}

TEST_CASE("gang: kill -9 of a launcher takes its processes along and ends the attempt",
          "[launcher]") {
  for (const int killed : {0, 1}) {
    INFO("slot " << killed);
    GangFixture gang({.members = 2});
    gang.start_all(GangFixture::trainer({kForEver, 10, kForEver}));
    REQUIRE(gang.until(has_trained));
    const os::Fd trainer = watch_process(gang.output(killed));
    gang.signal(killed, SIGKILL);
    CHECK(gang.wait(killed) == 128 + SIGKILL);
    pollfd waiting{trainer.get(), POLLIN, 0};
    CHECK(::poll(&waiting, 1, 5000) == 1);
    CHECK(gang.wait(1 - killed, 5s) == api::kExitRetry);
    CHECK(gang.termination(1 - killed).cause == "Victim");
    if (killed == 1) {
      REQUIRE(gang.record().status.failures.size() == 1);
      CHECK(gang.record().status.failures[0].pod == "job-1-1-0");
    }
  }
}

TEST_CASE("gang: a frozen launcher is found within seconds", "[launcher]") {
  GangFixture gang({.members = 2});
  gang.start_all(GangFixture::trainer({kForEver, 10, kForEver}));
  REQUIRE(gang.until(has_trained));
  gang.signal(1, SIGSTOP);
  CHECK(gang.wait(0, 8s) == api::kExitRetry);
  REQUIRE(gang.record().status.failures.size() == 1);
  CHECK(gang.record().status.failures[0].pod == "job-1-1-0");
}

TEST_CASE("gang: suspend saves a checkpoint and everyone leaves with 86", "[launcher]") {
  GangFixture gang({.members = 2});
  gang.start_all(GangFixture::trainer({kForEver, 10, kForEver}));
  REQUIRE(gang.until(has_trained));
  gang.edit_spec(R"({"stopping":true})");
  CHECK(gang.wait(0) == api::kExitDrained);
  CHECK(gang.wait(1) == api::kExitDrained);
  CHECK(gang.checkpoints() == std::vector<std::string>{GangFixture::checkpoint(1000)});
  CHECK(gang.record().status.checkpoint->step == 1000);
  CHECK(gang.record().status.progress->step == 1000);
}

TEST_CASE("gang: SIGTERM at one launcher saves, it leaves with 86, the others with 75",
          "[launcher]") {
  for (const int told : {0, 1}) {
    INFO("slot " << told);
    GangFixture gang({.members = 2});
    gang.start_all(GangFixture::trainer({kForEver, 10, kForEver}));
    REQUIRE(gang.until(has_trained));
    gang.signal(told, SIGTERM);
    CHECK(gang.wait(told) == api::kExitDrained);
    CHECK(gang.wait(1 - told) == api::kExitRetry);
    CHECK(gang.checkpoints() == std::vector<std::string>{GangFixture::checkpoint(1000)});
    CHECK(gang.record().status.checkpoint->step == 1000);
    CHECK(gang.record().status.failures.empty());
  }
}

TEST_CASE("gang: checkpointNow makes one checkpoint, and training goes on", "[launcher]") {
  GangFixture gang({.members = 1});
  gang.start_all(GangFixture::trainer({kForEver, 10, kForEver}));
  REQUIRE(gang.until(has_trained));
  gang.edit_spec(R"({"checkpointNow":1})");
  CHECK(gang.until([](const WorkerGroup& group) { return group.status.checkpoint_done == 1; }));
  CHECK(gang.checkpoints().size() == 1);
  CHECK(gang.wait(0, 100ms) == -1);
}

TEST_CASE("gang: when the record is deleted everyone stops and publishes nothing", "[launcher]") {
  GangFixture gang({.members = 2});
  gang.start_all(GangFixture::trainer({kForEver, 10, kForEver}));
  REQUIRE(gang.until(has_trained));
  gang.delete_record();
  CHECK(gang.wait(0) == api::kExitDrained);
  CHECK(gang.wait(1) == api::kExitDrained);
  CHECK(gang.checkpoints().empty());
}

TEST_CASE("gang: who is not listed yet waits, and joins when the operator lists it", "[launcher]") {
  GangFixture gang({.members = 2});
  gang.edit_spec(R"({"pods":[{"slot":0,"name":"job-1-0-0","uid":"uid-1-0-0","n":0,"order":0}]})");
  gang.start_all(GangFixture::trainer({20, 10, kForEver}));
  REQUIRE(gang.until([](const WorkerGroup& group) { return group.status.leader.has_value(); }));
  CHECK(gang.wait(1, 1500ms) == -1);
  CHECK(gang.record().status.generation == 0);
  gang.edit_spec(R"({"pods":[{"slot":0,"name":"job-1-0-0","uid":"uid-1-0-0","n":0,"order":0},
                              {"slot":1,"name":"job-1-1-0","uid":"uid-1-1-0","n":0,"order":1}]})");
  CHECK(gang.wait(0) == 0);
  CHECK(gang.wait(1) == 0);
}

TEST_CASE("gang: a token of the wrong audience or pod does not get in", "[launcher]") {
  GangFixture gang({.members = 2});
  std::string token;
  SECTION("for the API server") { token = gang.token_file(1, local::kApiAudience, "uid-1-1-0"); }
  SECTION("another pod's") { token = gang.token_file(1, api::kTokenAudience, "uid-1-0-0"); }
  SECTION("none") { token = "/dev/null"; }
  gang.start(0, GangFixture::trainer({20, 10, kForEver}));
  REQUIRE(gang.until([](const WorkerGroup& group) { return group.status.leader.has_value(); }));
  gang.start(1, GangFixture::trainer({20, 10, kForEver}), {{api::kEnvPeerTokenFile, token}});
  CHECK(gang.wait(1, 1500ms) == -1);
  CHECK(gang.record().status.generation == 0);
  CHECK(gang.output(0).find("peer_refused") != std::string::npos);
  CHECK(gang.output(1).find("join_refused") != std::string::npos);
}

TEST_CASE("gang: alive from the start, ready only in a committed generation", "[launcher]") {
  GangFixture gang({.members = 2});
  const std::string port = std::to_string(free_port());
  gang.start(0, GangFixture::trainer({kForEver, 10, kForEver}), {{api::kEnvHealthPort, port}});
  REQUIRE(gang.until([](const WorkerGroup& group) { return group.status.leader.has_value(); }));
  CHECK(http_status(port, "/healthz") == 200);
  CHECK(http_status(port, "/readyz") == 503);
  CHECK(http_status(port, "/other") == 404);
  gang.start(1, GangFixture::trainer({kForEver, 10, kForEver}));
  REQUIRE(gang.until(has_trained));
  CHECK(http_status(port, "/readyz") == 200);
}

TEST_CASE("gang: an environment that is not the operator's is refused in one message",
          "[launcher]") {
  GangFixture gang({.members = 1});
  gang.start(0, {"true"}, {{api::kEnvHealthPort, "not a port"}, {api::kEnvPodUid, ""}});
  CHECK(gang.wait(0) == api::kExitFatal);
  CHECK(gang.termination(0).message.find("PAWL_HEALTH_PORT") != std::string::npos);
  CHECK(gang.termination(0).message.find("PAWL_POD_UID") != std::string::npos);
}

TEST_CASE("gang: a port that somebody else has may be free with the next try", "[launcher]") {
  GangFixture gang({.members = 1});
  const auto taken = os::listen_tcp("127.0.0.1", 0).value();
  const std::string port = std::to_string(os::local_port(taken.get()).value());
  gang.start(0, {"true"}, {{api::kEnvHealthPort, port}});
  CHECK(gang.wait(0) == api::kExitUser);
  CHECK(gang.termination(0).message.find("port " + port) != std::string::npos);
}

TEST_CASE("gang: a command that is not there is never tried again", "[launcher]") {
  GangFixture gang({.members = 1});
  gang.start(0, {"/no/such/trainer"});
  CHECK(gang.wait(0) == api::kExitFatal);
  CHECK(gang.termination(0).message.find("/no/such/trainer") != std::string::npos);
}
