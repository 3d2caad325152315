// Ray jobs with real launchers and their programs, and a script for ray: what it is started with,
// when the driver runs, how all of it ends, and who is named when something was killed.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <catch2/catch_test_macros.hpp>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "common/api/contract.h"
#include "common/os/process.h"
#include "gang_fixture.h"

using namespace pawl;
using namespace pawl::launcher::test;
using namespace std::chrono_literals;
using api::WorkerGroup;

namespace {

constexpr GangOptions kRay{.members = 2, .runtime = api::RuntimeKind::kRay, .is_in_place = true};

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>{file}, {}};
}

using Changes = std::map<std::string, std::string>;

class RayGang : public GangFixture {
 public:
  explicit RayGang(Changes changes = {}) : GangFixture(kRay), changes_(std::move(changes)) {
    changes_.try_emplace("PATH", std::string{PAWL_RAY_FOLDER} + ":" + os::env("PATH").value());
    changes_["RAY_TEST"] = folder();
    fifo_ = folder() + "/ready";
    REQUIRE(::mkfifo(fifo_.c_str(), 0600) == 0);
    reader_.reset(::open(fifo_.c_str(), O_RDWR | O_CLOEXEC));
  }
  void run(const std::string& driver) {
    for (const int slot : {0, 1}) start(slot, {"sh", "-c", driver}, changes_);
  }
  void run_again(int slot, const std::string& driver) {
    replace(slot, {"sh", "-c", driver}, changes_);
  }
  // A driver that says that it runs and waits, in the first generation; later ones end.
  std::string waiting() const {
    return "[ $PAWL_GENERATION -gt 1 ] || { echo $$ >" + fifo_ + "; sleep 60; }; echo driver ends";
  }
  pid_t wait_for_driver() {
    std::ifstream line(fifo_);
    pid_t pid = 0;
    line >> pid;
    REQUIRE(pid > 0);
    return pid;
  }
  pid_t raylet(int slot, int generation = 1) const {
    const std::string text = text_of(path("raylet", slot, generation));
    REQUIRE_FALSE(text.empty());
    return std::stoi(text);
  }
  std::string arguments(int slot, int generation = 1) const {
    return text_of(path("arguments", slot, generation));
  }
  const std::string& fifo() const { return fifo_; }

 private:
  std::string path(const std::string& what, int slot, int generation) const {
    return folder() + "/" + what + "-" + std::to_string(slot) + "-" + std::to_string(generation);
  }
  Changes changes_;
  std::string fifo_;
  os::Fd reader_;
};

void check_recovered(RayGang& gang) {
  for (const int slot : {0, 1}) {
    INFO("slot " << slot << ": " << gang.output(slot));
    CHECK(gang.wait(slot) == 0);
  }
  const WorkerGroup record = gang.record();
  CHECK(record.status.is_finished);
  CHECK(record.status.attempt == 1);
  CHECK(record.status.generation == 2);
  CHECK(gang.output(0).find("driver ends") != std::string::npos);
  CHECK(gang.output(1).find("driver ends") == std::string::npos);
}

bool lives(pid_t pid) { return ::kill(pid, 0) == 0; }

}  // namespace

TEST_CASE("ray: the driver runs on rank 0's worker when the others have joined, without the key",
          "[launcher]") {
  RayGang gang;
  gang.run(
      "ls $RAY_TEST; echo driver at $RAY_ADDRESS mode $RAY_AUTH_MODE key ${PAWL_RAY-none} r "
      "${RANK-none} t ${TORCHELASTIC_RUN_ID-none} slot $PAWL_SLOT; echo words >&2");
  for (const int slot : {0, 1}) {
    INFO(gang.output(slot));
    CHECK(gang.wait(slot) == 0);
  }
  CHECK(gang.record().status.is_finished);
  CHECK(gang.record().status.failures.empty());
  const std::string output = gang.output(0);
  INFO(output);
  for (const char* text :
       {"raylet-0-1", "raylet-1-1", "mode token key none r none t none slot 0", "words"})
    CHECK(output.find(text) != std::string::npos);
  CHECK(gang.output(1).find("driver at") == std::string::npos);
  const std::string head = gang.arguments(0), node = gang.arguments(1);
  INFO(head << node);
  for (const char* word : {"--block", "--head", "--port=", "--temp-dir=", "--min-worker-port=0",
                           "--include-dashboard=false", "--object-store-memory="})
    CHECK(head.find(word) != std::string::npos);
  CHECK(node.find("--head") == std::string::npos);
  const std::size_t at = head.find("--port=") + 7;
  const std::string port = head.substr(at, head.find(' ', at) - at);
  CHECK(node.find(":" + port + " ") != std::string::npos);
  CHECK(output.find(":" + port + " mode") != std::string::npos);
  for (const int slot : {0, 1}) CHECK_FALSE(lives(gang.raylet(slot)));
  const std::size_t folder = head.find("--temp-dir=") + 11;
  CHECK_FALSE(std::filesystem::exists(head.substr(folder, head.find(' ', folder) - folder)));
}

TEST_CASE("ray: the driver's failure is its own, and not that of the other workers", "[launcher]") {
  RayGang gang;
  gang.run("exit 41");
  CHECK(gang.wait(0) == 41);
  CHECK(gang.wait(1) == api::kExitRetry);
  const WorkerGroup record = gang.record();
  REQUIRE(record.status.failures.size() == 1);
  CHECK(record.status.failures[0].pod == "job-1-0-0");
  CHECK(record.status.failures[0].exit_code == 41);
  for (const int slot : {0, 1}) CHECK_FALSE(lives(gang.raylet(slot)));
}

TEST_CASE("ray: where a process of Ray's is killed, its worker is named, and all start again",
          "[launcher]") {
  for (const int slot : {0, 1}) {
    INFO("slot " << slot);
    RayGang gang;
    gang.run(gang.waiting());
    const pid_t driver = gang.wait_for_driver();
    REQUIRE(::kill(gang.raylet(slot), SIGKILL) == 0);
    check_recovered(gang);
    CHECK_FALSE(lives(driver));
    CHECK_FALSE(lives(gang.raylet(1 - slot)));
    const WorkerGroup record = gang.record();
    REQUIRE(record.status.failures.size() == 1);
    const api::Failure& failure = record.status.failures[0];
    CHECK(failure.pod == "job-1-" + std::to_string(slot) + "-0");
    CHECK(failure.exit_code == 128 + SIGKILL);
    INFO(failure.message);
    CHECK(failure.message.find("lost a process to signal 9") != std::string::npos);
  }
}

TEST_CASE("ray: a driver that fails for the loss of a node is not blamed", "[launcher]") {
  RayGang gang;
  gang.run("[ $PAWL_GENERATION -gt 1 ] && { echo driver ends; exit 0; }; echo $$ >" + gang.fifo() +
           "; while kill -0 $(cat $RAY_TEST/raylet-1-1); do sleep 0.01; done; exit 1");
  gang.wait_for_driver();
  REQUIRE(::kill(gang.raylet(1), SIGKILL) == 0);
  check_recovered(gang);
  const WorkerGroup record = gang.record();
  REQUIRE(record.status.failures.size() == 1);
  CHECK(record.status.failures[0].pod == "job-1-1-0");
}

TEST_CASE("ray: a lost worker is replaced, and all start again", "[launcher]") {
  for (const int lost : {0, 1}) {
    INFO("slot " << lost);
    RayGang gang;
    gang.run(gang.waiting());
    gang.wait_for_driver();
    gang.signal(lost, SIGKILL);
    CHECK(gang.wait(lost) == 128 + SIGKILL);
    gang.run_again(lost, gang.waiting());
    for (const int slot : {0, 1}) CHECK(gang.wait(slot) == 0);
    const WorkerGroup record = gang.record();
    CHECK(record.status.is_finished);
    CHECK(record.status.generation == 2);
    for (const api::Failure& failure : record.status.failures)
      CHECK(failure.pod == "job-1-" + std::to_string(lost) + "-0");
  }
}

TEST_CASE("ray: a node that cannot start is its worker's failure", "[launcher]") {
  RayGang gang(Changes{{"RAY_TEST_REFUSED", "1-1"}});
  gang.run("echo driver ends");
  CHECK(gang.wait(1) == 3);
  CHECK(gang.wait(0) == api::kExitRetry);
  const WorkerGroup record = gang.record();
  REQUIRE(record.status.failures.size() == 1);
  CHECK(record.status.failures[0].pod == "job-1-1-0");
  CHECK(record.status.failures[0].message.find("ray start on this worker ended with code 3") !=
        std::string::npos);
  CHECK(gang.output(0).find("driver ends") == std::string::npos);
}

TEST_CASE("ray: told to stop, the driver is, and then Ray", "[launcher]") {
  RayGang gang;
  gang.run(
      "trap 'sleep 0.3; kill -0 $(cat $RAY_TEST/raylet-1-1) && echo saved beside Ray; exit 75' "
      "TERM; echo $$ >" +
      gang.fifo() + "; while :; do sleep 0.05; done");
  gang.wait_for_driver();
  gang.edit_spec(R"({"stopping": true})");
  for (const int slot : {0, 1}) CHECK(gang.wait(slot) == api::kExitDrained);
  INFO(gang.output(0));
  CHECK(gang.output(0).find("saved beside Ray") != std::string::npos);
  for (const int slot : {0, 1}) CHECK_FALSE(lives(gang.raylet(slot)));
  CHECK(gang.record().status.failures.empty());
}

TEST_CASE("ray: what the driver reports stands in the record", "[launcher]") {
  RayGang gang;
  gang.run(std::string{"exec python3 "} + PAWL_PYTHON_PROGRAM_PATH + " 40 5 on");
  for (const int slot : {0, 1}) {
    INFO(gang.output(slot));
    CHECK(gang.wait(slot) == 0);
  }
  const WorkerGroup record = gang.record();
  REQUIRE(record.status.progress.has_value());
  CHECK(record.status.progress->step == 40);
}

TEST_CASE("ray: an image without Ray is told so, once", "[launcher]") {
  RayGang gang(Changes{{"PATH", "/bin:/usr/bin"}});
  gang.run("true");
  CHECK(gang.wait(0) == api::kExitFatal);
  CHECK(gang.wait(1) == api::kExitRetry);
  const std::string message = gang.termination(0).message;
  INFO(message);
  CHECK(message.find("cannot start \"ray\"") != std::string::npos);
  CHECK(message.find("image has to have Ray") != std::string::npos);
}
