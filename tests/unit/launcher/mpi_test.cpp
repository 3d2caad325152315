// The parts of MPI jobs that need no mpirun: what it is told of its hosts, what it asks in place of
// ssh, who is let in, whom it blames.
#include <sys/socket.h>
#include <unistd.h>
#include <catch2/catch_test_macros.hpp>

#include "common/api/contract.h"
#include "common/api/worker_facts.h"
#include "common/os/real_clock.h"
#include "launcher/mpi/blame.h"
#include "launcher/mpi/hosts.h"
#include "launcher/mpi/place.h"
#include "launcher/mpi/proof.h"
#include "launcher/mpi/remote_command.h"
#include "launcher/mpi/run.h"
#include "launcher/mpi/wire.h"
#include "launcher/process_env.h"

using namespace pawl;
using namespace pawl::launcher;
using namespace pawl::launcher::mpi;

namespace {

struct Pair {
  Pair(const std::string& agent_key, const std::string& caller_key) {
    int ends[2];
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    agent.emplace(os::Fd{ends[0]}, Side::kAgent, agent_key);
    caller.emplace(os::Fd{ends[1]}, Side::kCaller, caller_key);
  }
  // Both in turn, until nothing moves any more or one has had enough.
  Status turn() {
    for (int i = 0; i < 8; ++i) {
      for (Wire* wire : {&*caller, &*agent}) {
        const Status done = wire->service();
        if (!done) return done;
      }
    }
    return {};
  }
  std::optional<Wire> agent, caller;
};

Settings mpi_settings() {
  Settings settings;
  settings.worker = {.job_name = "job",
                     .job_uid = "ju",
                     .ns = "ns",
                     .pod = "job-1-0-0",
                     .slots = 8,
                     .runtime = api::RuntimeKind::kMpi};
  settings.command = {"mpirun", "python3", "train.py"};
  settings.launcher = {"/inject/lib/loader", "--library-path", "/inject/lib", "/inject/bin/x"};
  settings.env = {{"HOME", "/h"}};
  return settings;
}

membership::Placement placed(int rank) {
  return {.member_rank = rank,
          .members = 2,
          .attempt = 1,
          .generation = 3,
          .master_address = "10.0.0.1",
          .master_port = 4000,
          .addresses = {"10.0.0.1:4000", "10.0.0.2:4100"},
          .key = "secret"};
}

}  // namespace

TEST_CASE("mpi_place: the command is started on rank 0's worker, agents on the others",
          "[launcher][D1]") {
  const Settings settings = mpi_settings();
  const std::vector<std::string> loader = settings.launcher;
  auto first = loader, other = loader;
  for (const char* word : {"--mpi-run", "--", "mpirun", "python3", "train.py"})
    first.emplace_back(word);
  other.emplace_back("--mpi-agent");
  CHECK(program(settings, placed(0)) == first);
  CHECK(program(settings, placed(1)) == other);
}

TEST_CASE(
    "mpi_place: a program of ours finds its place, the user's no key and no rank of another's",
    "[launcher]") {
  auto env = process_env(mpi_settings(), {.channel_fd = 7, .pulse_fd = 8, .placement = placed(1)});
  for (const char* name :
       {"RANK", "WORLD_SIZE", "LOCAL_RANK", "PAWL_CHANNEL_FD", "PAWL_PULSE_FD"}) {
    INFO(name);
    CHECK_FALSE(env.contains(name));
  }
  CHECK(env.at("MASTER_ADDR") == "10.0.0.1");
  CHECK(env.at("OMP_NUM_THREADS") == "1");
  CHECK(env.at("PAWL_GENERATION") == "3");
  const auto place = take_place(env);
  REQUIRE(place.has_value());
  CHECK(place->rank == 1);
  CHECK(place->addresses == std::vector<std::string>{"10.0.0.1:4000", "10.0.0.2:4100"});
  CHECK(place->slots == 8);
  CHECK(place->key == place_of(mpi_settings(), placed(1)).key);
  CHECK(place->is_pod);
  for (const auto& [name, value] : env) CHECK(value.find(place->key) == std::string::npos);
  CHECK(take_place(env).error().message.find("runtime.kind MPI") != std::string::npos);
}

TEST_CASE("mpi_hosts: addresses with slots, distinct where workers share a machine", "[launcher]") {
  const auto hosts = hosts_of({.addresses = {"10.0.0.1:4000", "[fd00::2]:4100"}});
  CHECK(open_mpi_hostfile(hosts, 8) == "10.0.0.1 slots=8\nfd00::2 slots=8\n");
  CHECK(hydra_hostfile(hosts, 2) == "10.0.0.1:2\nfd00::2:2\n");
  const std::string agents = agents_file(hosts);
  CHECK(find_agent(agents, "fd00::2").value() == "[fd00::2]:4100");
  CHECK(find_agent(agents, "10.0.0").error().message.find("10.0.0.1, fd00::2") !=
        std::string::npos);
  std::vector<std::string> many(600, "127.0.0.1:1");
  const auto local = hosts_of({.addresses = many});
  CHECK(local[0].name == "127.0.0.1");
  CHECK(local[1].name == "127.1.0.2");
  CHECK(local[250].name == "127.1.1.1");
  CHECK(local[599].name == "127.1.2.100");
}

TEST_CASE("mpi_hosts: every MPI finds the list and the program in place of ssh", "[launcher][D6]") {
  const Files files{"/f"};
  const Place pods{.addresses = {"10.0.0.1:1", "10.0.0.2:1"}, .slots = 1, .key = "k"};
  std::map<std::string, std::string> env = {{"OMPI_MCA_plm_rsh_agent", "ssh"},
                                            {"OMPI_MCA_hwloc_base_binding_policy", "core"}};
  set_variables(env, files, pods, true);
  for (const char* name : {"OMPI_MCA_plm_rsh_agent", "PRTE_MCA_plm_ssh_agent",
                           "HYDRA_LAUNCHER_EXEC", "I_MPI_HYDRA_BOOTSTRAP_EXEC"}) {
    INFO(name);
    CHECK(env.at(name) == "/f/pawl-rsh");
  }
  CHECK(env.at("OMPI_MCA_orte_default_hostfile") == "/f/hostfile");
  CHECK(env.at("HYDRA_HOST_FILE") == "/f/hosts");
  CHECK(env.at("OMPI_MCA_hwloc_base_binding_policy") == "core");
  CHECK(env.at("PRTE_MCA_hwloc_default_binding_policy") == "none");
  CHECK(env.at("OMPI_ALLOW_RUN_AS_ROOT") == "1");
  CHECK_FALSE(env.contains("OMPI_MCA_btl_tcp_if_include"));

  const Place machine{
      .addresses = {"127.0.0.1:1", "127.0.0.1:2"}, .slots = 1, .key = "k", .is_pod = false};
  env.clear();
  set_variables(env, files, machine, true);
  CHECK_FALSE(env.contains("OMPI_ALLOW_RUN_AS_ROOT"));
  CHECK(env.at("OMPI_MCA_btl_tcp_if_include") == "127.0.0.0/8");
  CHECK(env.at("OMPI_MCA_btl") == "self,tcp");
  CHECK(remote_shell_script({"/a b/loader", "it's"}, "/f") ==
        "#!/bin/sh\nexec '/a b/loader' 'it'\\''s' --mpi-remote '/f' \"$@\"\n");
}

TEST_CASE("mpi_remote: ssh's and rsh's arguments", "[launcher]") {
  struct Row {
    std::vector<std::string> words;
    const char *host, *command;
  };
  const Row rows[] = {
      {{"h", "orted"}, "h", "orted"},
      {{"-x", "10.0.0.2", "orted", "-mca", "ess", "\"env\""}, "10.0.0.2", "orted -mca ess \"env\""},
      {{"-o", "ConnectionAttempts=10", "-p22", "-l", "root", "h", "a  b", "c"}, "h", "a  b c"},
      {{"-nxl", "root", "user@h", "-n", "cmd", "-l"}, "h", "cmd -l"},
      {{"h", "-l", "root", "cmd"}, "h", "cmd"},
      {{"-q", "--", "h", "-cmd"}, "h", "-cmd"},
      {{"h", "--", "cmd", "--", "x"}, "h", "cmd -- x"},
      {{"h", "( test ! -r ./.profile || . ./.profile;", "orted )"},
       "h",
       "( test ! -r ./.profile || . ./.profile; orted )"}};
  for (const Row& row : rows) {
    INFO(row.command);
    const auto remote = parse_remote_command(row.words);
    REQUIRE(remote.has_value());
    CHECK(remote->host == row.host);
    CHECK(remote->command == row.command);
  }
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{}, {"h"}, {"-x"}, {"-l", "u"}, {"--"}, {"h", "-l"}})
    CHECK_FALSE(parse_remote_command(words).has_value());
}

TEST_CASE("mpi_wire: who knows the key is heard, in both directions", "[launcher]") {
  Pair pair("key", "key");
  pair.caller->send(kRunCommand, "echo");
  REQUIRE(pair.turn().has_value());
  CHECK(pair.agent->is_trusted());
  CHECK(pair.caller->is_trusted());
  const auto asked = pair.agent->take_frames();
  REQUIRE(asked.size() == 1);
  CHECK(asked[0].type == kRunCommand);
  CHECK(asked[0].text == "echo");
  const std::string much(300'000, 'x');
  pair.agent->send(kOutput, much);
  pair.agent->send(kExited, "3");
  REQUIRE(pair.turn().has_value());
  const auto told = pair.caller->take_frames();
  REQUIRE(told.size() == 2);
  CHECK(told[0].text == much);
  CHECK(told[1].text == "3");
}

TEST_CASE("mpi_wire: a stranger has nothing run", "[launcher]") {
  Pair pair("key", "another");
  pair.caller->send(kRunCommand, "echo");
  const Status done = pair.turn();
  REQUIRE_FALSE(done.has_value());
  CHECK(done.error().code == Code::kForbidden);
  CHECK_FALSE(pair.agent->is_trusted());
  CHECK(pair.agent->take_frames().empty());
}

TEST_CASE("mpi_wire: nothing is believed that was changed, or heard on another connection",
          "[launcher]") {
  int ends[2];
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
  Wire agent{os::Fd{ends[0]}, Side::kAgent, "key"};
  const os::Fd other{ends[1]};
  REQUIRE(agent.service().has_value());
  Nonces nonces;
  nonces.agent.resize(kNonceBytes);
  REQUIRE(::recv(other.get(), nonces.agent.data(), kNonceBytes, MSG_WAITALL) ==
          static_cast<ssize_t>(kNonceBytes));
  const auto say = [&](const std::string& text) {
    REQUIRE(::send(other.get(), text.data(), text.size(), MSG_NOSIGNAL) ==
            static_cast<ssize_t>(text.size()));
    return agent.service();
  };
  const std::string command{"Rrm", 3};
  const std::string length{"\0\0\0\3", 4};
  nonces.caller = make_nonce();
  SECTION("a proof of another connection") {
    const Nonces old{make_nonce(), nonces.caller};
    const Status done = say(nonces.caller + proof_of(Side::kCaller, "key", old));
    CHECK_FALSE(done.has_value());
  }
  SECTION("its own proof, sent back") {
    const Status done = say(nonces.caller + proof_of(Side::kAgent, "key", nonces));
    CHECK_FALSE(done.has_value());
  }
  SECTION("a frame without its code, or with that of another place") {
    REQUIRE(say(nonces.caller + proof_of(Side::kCaller, "key", nonces)).has_value());
    CHECK(agent.is_trusted());
    const std::string session = session_key("key", nonces);
    const std::string code = frame_mac(session, Side::kCaller, 0, command);
    SECTION("right") {
      CHECK(say(length + command + code).has_value());
      CHECK(agent.take_frames().size() == 1);
      CHECK_FALSE(say(length + command + code).has_value());  // again
    }
    SECTION("changed") { CHECK_FALSE(say(length + "Rls" + code).has_value()); }
    SECTION("of the other side") {
      CHECK_FALSE(say(length + command + frame_mac(session, Side::kAgent, 0, command)).has_value());
    }
    SECTION("too long") { CHECK_FALSE(say("\x7f\xff\xff\xff").has_value()); }
    if (agent.service().has_value()) return;
    CHECK(agent.take_frames().empty());
  }
}

TEST_CASE("mpi_blame: what mpirun says of a killed rank", "[launcher]") {
  const auto first = [](const std::string& text) {
    BlameScan scan;
    for (const char letter : text) scan.feed({&letter, 1});
    BlameScan at_once;
    at_once.feed(text);
    CHECK(scan.first() == at_once.first());
    return scan.first();
  };
  CHECK(first("step 3\nPrimary job  terminated normally, but 1 process returned\n"
              "mpirun noticed that process rank 1 with PID 0 on node 127.1.0.2 exited on signal 9 "
              "(Killed).\nmore\n") == Blame{"127.1.0.2", 9});
  CHECK(first("=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES\n"
              "=   PID 12196 RUNNING AT 10.0.0.2\n=   EXIT CODE: 9\n"
              "=   CLEANING UP REMAINING PROCESSES\n") == Blame{"10.0.0.2", 9});
  CHECK(first("=   PID 12196 RUNNING AT 10.0.0.2\n=   EXIT CODE: 139\n") == Blame{"10.0.0.2", 11});
  CHECK(first("=   PID 12196 RUNNING AT 10.0.0.2\n=   EXIT CODE: 15\nYOUR APPLICATION TERMINATED "
              "WITH THE EXIT STRING: Terminated (signal 15)\n") == Blame{"10.0.0.2", 15});
  CHECK(first("=   RANK 1 PID 5491 RUNNING AT 10.0.0.3\n=   KILLED BY SIGNAL: 11 (Segmentation "
              "fault)\n=   RANK 0 PID 5490 RUNNING AT 10.0.0.1\n") == Blame{"10.0.0.3", 11});
  for (const char* text :
       {"", "exited on signal 9\n", "noticed that process rank 1 on node x exited on signal 900\n",
        "mpirun noticed that process rank 1 with PID 0 on node x exited on signal 9",  // unfinished
        "KILLED BY SIGNAL: 9 (Killed)\n", "it is RUNNING AT x\nKILLED BY SIGNAL: 9\n",
        "Process name: [[1,1],1]\n  Exit code:    3\n",
        "=   PID 12196 RUNNING AT 10.0.0.2\n=   EXIT CODE: 1\n", "=   EXIT CODE: 9\n"}) {
    INFO(text);
    CHECK_FALSE(first(text).has_value());
  }
}

TEST_CASE("mpi_place: programs of another generation have another key", "[launcher]") {
  const Settings settings = mpi_settings();
  membership::Placement at = placed(1);
  const std::string key = place_of(settings, at).key;
  CHECK(key == place_of(settings, placed(0)).key);
  CHECK(key.size() == 2 * kMacBytes);
  ++at.generation;
  CHECK(key != place_of(settings, at).key);
  at = placed(1);
  ++at.attempt;
  CHECK(key != place_of(settings, at).key);
}

TEST_CASE("mpi_run: two workers that mpirun would take for one are refused", "[launcher]") {
  const RealClock clock;
  const Place place{.addresses = {"10.0.0.1:1", "10.0.0.1:2"}, .slots = 1, .key = "k"};
  CHECK(run_command({.command = {"true"}, .launcher = {"x"}},
                    {{kPlaceVariable, encode_place(place)}}, clock) == api::kExitFatal);
}
