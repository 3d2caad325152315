#include <unistd.h>
#include <catch2/catch_test_macros.hpp>
#include <filesystem>
#include <fstream>

#include "launcher/install.h"
#include "launcher/process_env.h"
#include "launcher/settings.h"

using namespace pawl;
using namespace pawl::launcher;

namespace {

const api::WorkerFacts kWorker{.job_name = "job",
                               .job_uid = "ju",
                               .ns = "team",
                               .pod = "pod",
                               .attempt = 2,
                               .slot = 1,
                               .processes = 4,
                               .runtime = api::RuntimeKind::kTorch,
                               .checkpoint = api::WorkerFacts::Checkpoint{"file:///c", 0, 5}};

std::map<std::string, std::string> good_env() {
  return {{"PAWL_WORKER", api::encode_worker_facts(kWorker)},
          {"PAWL_POD_UID", "pu"},
          {"PAWL_POD_IP", "::1"},
          {"HOME", "/h"}};
}

}  // namespace

TEST_CASE("settings: what the operator gives is read, the rest has defaults", "[launcher]") {
  const auto settings = read_settings(good_env(), {"python", "train.py"});
  REQUIRE(settings.has_value());
  CHECK(settings->worker.attempt == 2);
  CHECK(settings->worker.runtime == api::RuntimeKind::kTorch);
  CHECK(settings->checkpoint_seconds() == 60);
  CHECK(settings->token_file == "/var/run/pawl/token/token");
  CHECK(settings->peer_token_file == "/var/run/pawl/token/peer-token");
  CHECK(settings->termination_log == "/dev/termination-log");
  CHECK(settings->health_port == 8471);
  CHECK(settings->standby_after == std::chrono::seconds{15});
  auto local = good_env();
  local["PAWL_API_SERVER"] = "http://127.0.0.1:1";
  local["PAWL_TOKEN_FILE"] = "/t";
  local["PAWL_STANDBY_SECONDS"] = "0";
  CHECK(read_settings(local, {"x"})->has_health_gate);
  local["PAWL_HEALTH_GATE"] = "0";
  CHECK_FALSE(read_settings(local, {"x"})->has_health_gate);
  CHECK(read_settings(local, {"x"})->standby_after == std::chrono::seconds{0});
  CHECK(read_settings(local, {"x"})->peer_token_file == "/t");
  CHECK(read_settings(local, {"x"})->health_port == -1);
}

TEST_CASE("settings: everything that is wrong is said at once", "[launcher]") {
  auto env = good_env();
  env.erase("PAWL_POD_UID");
  env["PAWL_HEALTH_PORT"] = "many";
  env["PAWL_WORKER"] = "{}";
  env["PAWL_STANDBY_SECONDS"] = "off";
  env["PAWL_HEALTH_GATE"] = "no";
  const auto settings = read_settings(env, {});
  REQUIRE_FALSE(settings.has_value());
  for (const char* part :
       {"PAWL_POD_UID is not set", "PAWL_HEALTH_PORT is \"many\"", "version 0", "no command",
        "PAWL_STANDBY_SECONDS is \"off\", not a number from 0 to 86400",
        "PAWL_HEALTH_GATE is \"no\", not a number from 0 to 1"}) {
    INFO(part);
    CHECK(settings.error().message.find(part) != std::string::npos);
  }
}

TEST_CASE("process_env: torchrun's variables for every process", "[launcher][C7][C8]") {
  const auto settings = read_settings(good_env(), {"x"}).value();
  const membership::Placement at{.member_rank = 1,
                                 .members = 3,
                                 .attempt = 2,
                                 .generation = 5,
                                 .master_address = "10.0.0.1",
                                 .master_port = 4000};
  const auto env = process_env(
      settings, {.local_rank = 2, .channel_fd = 9, .error_file = "/e", .placement = at});
  const std::map<std::string, std::string> expected = {{"RANK", "6"},
                                                       {"LOCAL_RANK", "2"},
                                                       {"WORLD_SIZE", "12"},
                                                       {"LOCAL_WORLD_SIZE", "4"},
                                                       {"GROUP_RANK", "1"},
                                                       {"GROUP_WORLD_SIZE", "3"},
                                                       {"ROLE_NAME", "default"},
                                                       {"ROLE_RANK", "6"},
                                                       {"ROLE_WORLD_SIZE", "12"},
                                                       {"MASTER_ADDR", "10.0.0.1"},
                                                       {"MASTER_PORT", "4000"},
                                                       {"TORCHELASTIC_RESTART_COUNT", "4"},
                                                       {"TORCHELASTIC_MAX_RESTARTS", "0"},
                                                       {"TORCHELASTIC_RUN_ID", "ju-5"},
                                                       {"TORCHELASTIC_USE_AGENT_STORE", "False"},
                                                       {"TORCHELASTIC_ERROR_FILE", "/e"},
                                                       {"TORCH_NCCL_ASYNC_ERROR_HANDLING", "1"},
                                                       {"OMP_NUM_THREADS", "1"},
                                                       {"PAWL_CHANNEL_FD", "9"},
                                                       {"PAWL_JOB_NAME", "job"},
                                                       {"PAWL_JOB_UID", "ju"},
                                                       {"PAWL_ATTEMPT", "2"},
                                                       {"PAWL_GENERATION", "5"},
                                                       {"PAWL_SLOT", "1"},
                                                       {"PAWL_CHECKPOINT_URI", "file:///c"},
                                                       {"PAWL_CHECKPOINT_SECONDS", "0"},
                                                       {"PAWL_CHECKPOINT_KEEP", "5"},
                                                       {"HOME", "/h"}};
  for (const auto& [name, value] : expected) {
    INFO(name);
    CHECK((env.contains(name) ? env.at(name) : "absent") == value);
  }
}

TEST_CASE("process_env: JAX finds its coordinator, TensorFlow all workers", "[launcher][C7]") {
  Settings settings = read_settings(good_env(), {"x"}).value();
  settings.worker.processes = 1;
  const membership::Placement at{.member_rank = 1,
                                 .members = 2,
                                 .attempt = 1,
                                 .generation = 1,
                                 .master_address = "fd00::1",
                                 .master_port = 4000,
                                 .addresses = {"[fd00::1]:4000", "[fd00::2]:4001"}};
  settings.worker.runtime = api::RuntimeKind::kJax;
  auto env = process_env(settings, {.placement = at});
  CHECK(env.at("JAX_COORDINATOR_ADDRESS") == "[fd00::1]:4000");
  CHECK(env.at("JAX_NUM_PROCESSES") == "2");
  CHECK(env.at("JAX_PROCESS_ID") == "1");
  CHECK_FALSE(env.contains("JAX_LOCAL_DEVICE_IDS"));
  CHECK_FALSE(env.contains("TF_CONFIG"));
  settings.worker.processes = 4;
  env = process_env(settings, {.local_rank = 3, .placement = at});
  CHECK(env.at("JAX_NUM_PROCESSES") == "8");
  CHECK(env.at("JAX_LOCAL_DEVICE_IDS") == "3");

  settings.worker.processes = 1;
  settings.worker.runtime = api::RuntimeKind::kTensorFlow;
  env = process_env(settings, {.placement = at});
  CHECK(env.at("TF_CONFIG") == R"({"cluster":{"worker":["[fd00::1]:4000","[fd00::2]:4001"]},)"
                               R"("task":{"index":1,"type":"worker"}})");
  CHECK_FALSE(env.contains("JAX_PROCESS_ID"));
}

TEST_CASE("process_env: TensorFlow's parameter servers are the last workers, beside one chief",
          "[launcher][C7]") {
  Settings settings = read_settings(good_env(), {"x"}).value();
  settings.worker.runtime = api::RuntimeKind::kTensorFlow;
  settings.worker.processes = 1;
  settings.worker.parameter_servers = 2;
  const std::string cluster =
      R"({"cluster":{"chief":["a:1"],"ps":["d:4","e:5"],"worker":["b:2","c:3"]},"task":)";
  const std::string tasks[] = {R"({"index":0,"type":"chief"}})", R"({"index":0,"type":"worker"}})",
                               R"({"index":1,"type":"worker"}})", R"({"index":0,"type":"ps"}})",
                               R"({"index":1,"type":"ps"}})"};
  for (int rank = 0; rank < 5; ++rank) {
    const membership::Placement at{.member_rank = rank,
                                   .members = 5,
                                   .attempt = 1,
                                   .generation = 1,
                                   .addresses = {"a:1", "b:2", "c:3", "d:4", "e:5"}};
    CHECK(process_env(settings, {.placement = at}).at("TF_CONFIG") ==
          cluster + tasks[static_cast<std::size_t>(rank)]);
  }
}

TEST_CASE("process_env: the user's own choice of threads stands, a native process has no rank yet",
          "[launcher]") {
  auto variables = good_env();
  variables["OMP_NUM_THREADS"] = "6";
  const auto env =
      process_env(read_settings(variables, {"x"}).value(), {.local_rank = 0, .channel_fd = 3});
  CHECK(env.at("OMP_NUM_THREADS") == "6");
  CHECK_FALSE(env.contains("RANK"));
}

TEST_CASE("install: both folders appear whole, over an older copy too", "[launcher]") {
  namespace fs = std::filesystem;
  std::string root = "/tmp/pawl-install-XXXXXX";
  REQUIRE(::mkdtemp(root.data()) != nullptr);
  CHECK_FALSE(install(root + "/from", root + "/to").has_value());
  for (const char* folder : {"bin", "lib"}) {
    fs::create_directories(root + "/from/" + folder);
    std::ofstream(root + "/from/" + folder + "/file") << folder;
  }
  fs::create_directories(root + "/to/lib");
  std::ofstream(root + "/to/lib/old") << "old";
  REQUIRE(install(root + "/from", root + "/to").has_value());
  CHECK(fs::exists(root + "/to/bin/file"));
  CHECK(fs::exists(root + "/to/lib/file"));
  CHECK_FALSE(fs::exists(root + "/to/lib/old"));
  fs::remove_all(root);
}
