// The parts of Ray jobs that need no ray: what it is started with, what its output tells, who gets
// which key.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>

#include "common/api/contract.h"
#include "common/api/worker_facts.h"
#include "launcher/process_env.h"
#include "launcher/ray/machine.h"
#include "launcher/ray/place.h"
#include "launcher/ray/start.h"

using namespace pawl;
using namespace pawl::launcher;
using namespace pawl::launcher::ray;

namespace {

constexpr std::int64_t kMiB = 1 << 20, kGiB = 1 << 30;

Settings ray_settings() {
  Settings settings;
  settings.worker = {.job_name = "job",
                     .job_uid = "ju",
                     .ns = "ns",
                     .pod = "job-1-0-0",
                     .cpus = 4,
                     .gpus = 2,
                     .runtime = api::RuntimeKind::kRay};
  settings.command = {"python3", "train.py"};
  settings.launcher = {"/inject/bin/x"};
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

bool has(const std::vector<std::string>& words, const std::string& word) {
  return std::ranges::find(words, word) != words.end();
}

bool names(const std::vector<std::string>& words, const std::string& start) {
  return std::ranges::any_of(words,
                             [&](const std::string& word) { return word.starts_with(start); });
}

}  // namespace

TEST_CASE("ray_place: the head is started on rank 0's worker, nodes on the others", "[launcher]") {
  CHECK(program(ray_settings(), placed(0)) ==
        std::vector<std::string>{"/inject/bin/x", "--ray-head", "--", "python3", "train.py"});
  CHECK(program(ray_settings(), placed(1)) ==
        std::vector<std::string>{"/inject/bin/x", "--ray-node"});
}

TEST_CASE("ray_place: a program of ours finds its place, Ray's no key, no rank and no torchrun",
          "[launcher]") {
  auto env = process_env(ray_settings(), {.channel_fd = 7, .pulse_fd = 8, .placement = placed(1)});
  for (const char* name : {"RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "TORCHELASTIC_RUN_ID",
                           "TORCHELASTIC_RESTART_COUNT"}) {
    INFO(name);
    CHECK_FALSE(env.contains(name));
  }
  CHECK(env.at("PAWL_GENERATION") == "3");
  CHECK(env.at("PAWL_CHANNEL_FD") == "7");
  const auto place = take_place(env);
  REQUIRE(place.has_value());
  CHECK(place->rank == 1);
  CHECK(place->addresses == std::vector<std::string>{"10.0.0.1:4000", "10.0.0.2:4100"});
  CHECK(place->cpus == 4);
  CHECK(place->gpus == 2);
  CHECK(place->is_pod);
  CHECK(place->key == place_of(ray_settings(), placed(0)).key);
  CHECK(take_place(env).error().message.find("runtime.kind Ray") != std::string::npos);

  env["RAY_ADDRESS"] = "another cluster's";
  prepare_for_ray(env, *place);
  for (const char* name : {"PAWL_CHANNEL_FD", "PAWL_PULSE_FD", "RAY_ADDRESS"}) {
    INFO(name);
    CHECK_FALSE(env.contains(name));
  }
  CHECK(env.at("RAY_AUTH_MODE") == "token");
  CHECK(env.at("RAY_AUTH_TOKEN") == token_of(*place));
  for (const auto& [name, value] : env) CHECK(value.find(place->key) == std::string::npos);
}

TEST_CASE("ray_place: each generation has another key, and another token", "[launcher]") {
  const Place first = place_of(ray_settings(), placed(0));
  membership::Placement at = placed(0);
  ++at.generation;
  const Place second = place_of(ray_settings(), at);
  CHECK(first.key != second.key);
  CHECK(token_of(first) != token_of(second));
  CHECK(token_of(first) != first.key);
}

TEST_CASE("ray_machine: a worker's own address, and one of loopback where all have the same",
          "[launcher]") {
  CHECK(host_of({.addresses = {"10.0.0.1:1", "[fd00::2]:2"}}, 1) == "fd00::2");
  const std::vector<std::string> many(600, "127.0.0.1:1");
  CHECK(host_of({.addresses = many, .key = "0000fbff"}, 0) == "127.2.1.1");
  CHECK(host_of({.addresses = many, .key = "0000fbff"}, 599) == "127.2.3.100");
}

TEST_CASE("ray_start: the user's own authentication stands", "[launcher]") {
  std::map<std::string, std::string> env = {{"RAY_AUTH_MODE", "disabled"}};
  set_variables(env, place_of(ray_settings(), placed(0)));
  CHECK(env.at("RAY_AUTH_MODE") == "disabled");
  CHECK_FALSE(env.contains("RAY_AUTH_TOKEN"));
}

TEST_CASE("ray_start: the arguments of a head and of a node that joins it", "[launcher]") {
  const auto head = start_command({.host = "10.0.0.1",
                                   .port = 6379,
                                   .folder = "/tmp/ray-x",
                                   .agent_port = 5000,
                                   .cpus = 4,
                                   .object_bytes = 100 * kMiB});
  for (const char* word :
       {"--block", "--head", "--port=6379", "--temp-dir=/tmp/ray-x", "--node-ip-address=10.0.0.1",
        "--include-dashboard=false", "--num-cpus=4", "--object-store-memory=104857600",
        "--min-worker-port=0", "--dashboard-agent-listen-port=5000"}) {
    INFO(word);
    CHECK(has(head, word));
  }
  CHECK_FALSE(names(head, "--num-gpus"));
  CHECK_FALSE(names(head, "--address"));
  const auto node = start_command({.host = "10.0.0.2", .head = "10.0.0.1:6379", .gpus = 2});
  for (const char* word : {"--block", "--address=10.0.0.1:6379", "--num-gpus=2"}) {
    INFO(word);
    CHECK(has(node, word));
  }
  for (const char* start : {"--head", "--port", "--temp-dir", "--num-cpus", "--include-dashboard",
                            "--object-store-memory"}) {
    INFO(start);
    CHECK_FALSE(names(node, start));
  }
}

TEST_CASE("ray_start: objects have what the memory and /dev/shm have room for", "[launcher]") {
  CHECK(object_bytes(10 * kGiB, 64 * kGiB, 1) == 3 * kGiB);
  CHECK(object_bytes(10 * kGiB, 1 * kGiB, 1) == kGiB / 10 * 9);
  CHECK(object_bytes(10 * kGiB, 64 * kMiB, 1) == 3 * kGiB);  // on disk then, as Ray says
  CHECK(object_bytes(100 * kMiB, 64 * kGiB, 1) == 80 * kMiB);
  CHECK(object_bytes(20 * kGiB, 64 * kGiB, 2) == 3 * kGiB);
}

TEST_CASE("ray_start: what its output tells", "[launcher]") {
  StartScan scan;
  for (const char letter : std::string{"Local node IP: 10.0.0.1\n\n----\nRay runtime started.\n"})
    scan.feed({&letter, 1});
  CHECK(scan.has_started());
  CHECK(scan.signal() == 0);
  scan.feed("Some Ray subprocesses exited unexpectedly:\n  raylet [exit code=-9]\n");
  CHECK(scan.signal() == 9);
  StartScan other;
  other.feed("  raylet [exit code=1]\n  raylet [exit code=-900]\nRay runtime star");
  CHECK_FALSE(other.has_started());
  CHECK(other.signal() == 0);
}
