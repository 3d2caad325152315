// MPI jobs with real launchers and agents, and a script for mpirun: where commands run, how they
// end, and who is named when something was killed.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <catch2/catch_test_macros.hpp>
#include <csignal>
#include <fstream>

#include "common/api/contract.h"
#include "common/os/processes.h"
#include "gang_fixture.h"

using namespace pawl;
using namespace pawl::launcher::test;
using namespace std::chrono_literals;
using api::WorkerGroup;

namespace {

constexpr GangOptions kMpi{.members = 2, .runtime = api::RuntimeKind::kMpi, .is_in_place = true};

std::vector<std::string> mpirun(const std::string& command) { return {PAWL_MPIRUN_PATH, command}; }

// Ranks of the first generation say who they are, and wait; those of the next end.
class Ranks {
 public:
  explicit Ranks(const GangFixture& gang) : path_(gang.folder() + "/ready") {
    REQUIRE(::mkfifo(path_.c_str(), 0600) == 0);
    reader_.reset(::open(path_.c_str(), O_RDWR | O_CLOEXEC));
  }
  std::vector<std::string> command() const {
    return mpirun("[ $PAWL_GENERATION -gt 1 ] || { echo $MPI_RANK $$ >" + path_ +
                  "; sleep 60; }; echo rank $MPI_RANK ends");
  }
  // The process of this rank, when two are there.
  pid_t wait_for(int rank) {
    std::ifstream lines(path_);
    pid_t found = 0;
    for (int i = 0; i < 2; ++i) {
      int number = -1;
      pid_t pid = 0;
      lines >> number >> pid;
      if (number == rank) found = pid;
    }
    REQUIRE(found > 0);
    return found;
  }

 private:
  std::string path_;
  os::Fd reader_;  // so that it does not end between two writers
};

void check_recovered(GangFixture& gang) {
  for (const int slot : {0, 1}) {
    INFO("slot " << slot << ": " << gang.output(slot));
    CHECK(gang.wait(slot) == 0);
  }
  const WorkerGroup record = gang.record();
  CHECK(record.status.is_finished);
  CHECK(record.status.attempt == 1);
  CHECK(record.status.generation == 2);
  for (const char* line : {"rank 0 ends", "rank 1 ends"})
    CHECK(gang.output(0).find(line) != std::string::npos);
}

}  // namespace

TEST_CASE("mpi: the command runs on rank 0's worker, its ranks on all, and none gets the key",
          "[launcher]") {
  GangFixture gang(kMpi);
  gang.start_all(
      mpirun("echo \"rank $MPI_RANK on $MPI_HOST $MPI_SLOTS slot $PAWL_SLOT g $PAWL_GENERATION key "
             "${PAWL_MPI-none} r ${RANK-none}\"; echo \"words of $MPI_RANK\" >&2"));
  for (const int slot : {0, 1}) CHECK(gang.wait(slot) == 0);
  CHECK(gang.record().status.is_finished);
  CHECK(gang.record().status.failures.empty());
  const std::string output = gang.output(0);
  INFO(output);
  for (const char* line :
       {"rank 0 on 127.0.0.1 slots=1 slot 0 g 1 key none r none",
        "rank 1 on 127.1.0.2 slots=1 slot 1 g 1 key none r none", "words of 0", "words of 1"})
    CHECK(output.find(line) != std::string::npos);
  CHECK(gang.output(1).find("rank 1 on") == std::string::npos);
}

TEST_CASE("mpi: a rank's own failure is the command's, and not that of the other workers",
          "[launcher]") {
  GangFixture gang(kMpi);
  gang.start_all(mpirun("[ $MPI_RANK = 0 ] && sleep 30; exit 41"));
  CHECK(gang.wait(0) == 41);
  CHECK(gang.wait(1) == api::kExitRetry);
  const WorkerGroup record = gang.record();
  REQUIRE(record.status.failures.size() == 1);
  CHECK(record.status.failures[0].pod == "job-1-0-0");
  CHECK(record.status.failures[0].exit_code == 41);
}

TEST_CASE("mpi: a killed command is the failure of its worker, and all start again", "[launcher]") {
  GangFixture gang(kMpi);
  Ranks ranks(gang);
  gang.start_all(ranks.command());
  REQUIRE(::kill(ranks.wait_for(1), SIGKILL) == 0);
  check_recovered(gang);
  const WorkerGroup record = gang.record();
  REQUIRE(record.status.failures.size() == 1);
  const api::Failure& failure = record.status.failures[0];
  CHECK(failure.pod == "job-1-1-0");
  CHECK(failure.exit_code == 128 + SIGKILL);
  INFO(failure.message);
  CHECK(failure.message.find("was killed by signal 9") != std::string::npos);
}

TEST_CASE("mpi: a killed agent is the failure of its worker, and all start again", "[launcher]") {
  GangFixture gang(kMpi);
  Ranks ranks(gang);
  gang.start_all(ranks.command());
  const pid_t rank = ranks.wait_for(1);
  pid_t agent = 0;
  for (const os::ProcessInfo& info : os::descendants_of(gang.pid(1))) {
    if (info.parent == gang.pid(1)) agent = info.pid;
  }
  REQUIRE(agent > 0);
  REQUIRE(::kill(agent, SIGKILL) == 0);
  check_recovered(gang);
  const WorkerGroup record = gang.record();
  REQUIRE(record.status.failures.size() == 1);
  CHECK(record.status.failures[0].pod == "job-1-1-0");
  CHECK(record.status.failures[0].signal == SIGKILL);
  CHECK(::kill(rank, 0) != 0);  // nothing of it is left
}

TEST_CASE("mpi: a lost worker is replaced, and all start again", "[launcher][D1]") {
  for (const int lost : {0, 1}) {
    INFO("slot " << lost);
    GangFixture gang(kMpi);
    Ranks ranks(gang);
    gang.start_all(ranks.command());
    ranks.wait_for(1);
    gang.signal(lost, SIGKILL);
    CHECK(gang.wait(lost) == 128 + SIGKILL);
    gang.replace(lost, ranks.command());
    for (const int slot : {0, 1}) CHECK(gang.wait(slot) == 0);
    const WorkerGroup record = gang.record();
    CHECK(record.status.is_finished);
    CHECK(record.status.generation == 2);
    for (const api::Failure& failure : record.status.failures)
      CHECK(failure.pod == "job-1-" + std::to_string(lost) + "-0");
  }
}

TEST_CASE("mpi: mpirun's word on who was killed is taken", "[launcher]") {
  GangFixture gang(kMpi);
  gang.start_all({"sh", "-c",
                  "[ $PAWL_GENERATION = 1 ] || exit 0; echo 'mpirun noticed that process rank 1 "
                  "with PID 0 on node 127.1.0.2 exited on signal 9 (Killed).' >&2; exit 137"});
  for (const int slot : {0, 1}) CHECK(gang.wait(slot) == 0);
  const WorkerGroup record = gang.record();
  REQUIRE(record.status.failures.size() == 1);
  CHECK(record.status.failures[0].pod == "job-1-1-0");
  CHECK(record.status.failures[0].message.find("mpirun says") != std::string::npos);
}

TEST_CASE("mpi: told to stop, ranks on all workers are", "[launcher]") {
  GangFixture gang(kMpi);
  Ranks ranks(gang);
  gang.start_all(ranks.command());
  const pid_t rank = ranks.wait_for(1);
  gang.edit_spec(R"({"stopping": true})");
  for (const int slot : {0, 1}) {
    const int code = gang.wait(slot);
    INFO("slot " << slot << ": " << gang.output(slot));
    CHECK(code == api::kExitDrained);
  }
  CHECK(::kill(rank, 0) != 0);
  CHECK(gang.record().status.failures.empty());
}

TEST_CASE("mpi: an image without mpirun is told so, once", "[launcher]") {
  GangFixture gang(kMpi);
  gang.start_all({"mpirun-that-is-not-there", "python3", "train.py"});
  CHECK(gang.wait(0) == api::kExitFatal);
  CHECK(gang.wait(1) == api::kExitRetry);
  const std::string message = gang.termination(0).message;
  INFO(message);
  CHECK(message.find("cannot start \"mpirun-that-is-not-there\"") != std::string::npos);
  CHECK(message.find("image has to have an MPI") != std::string::npos);
}
