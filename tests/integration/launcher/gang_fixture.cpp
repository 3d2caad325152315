#include "gang_fixture.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <csignal>
#include <filesystem>
#include <fstream>

#include "common/api/codec.h"
#include "common/api/contract.h"
#include "common/api/worker_facts.h"
#include "common/base/json.h"
#include "common/checkpoint/checkpoint.h"
#include "common/kube/requests.h"
#include "common/os/process.h"

namespace pawl::launcher::test {

namespace fs = std::filesystem;
using nlohmann::json;

namespace {
constexpr std::chrono::seconds kWaitMax{20};

std::string read_file(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>{file}, {}};
}
}  // namespace

GangFixture::GangFixture(const GangOptions& options) : options_(options) {
  os::ignore_sigpipe();
  std::string path = "/tmp/pawl-gang-XXXXXX";
  REQUIRE(::mkdtemp(path.data()) != nullptr);
  folder_ = path;
  store_ = std::make_unique<local::StoreTransport>(clock_, local::StoreTransportOptions{});
  tokens_ = local::TokenAuthority::create().value();
  server_ = local::ApiServer::start(*store_, *tokens_, clock_).value();
  create_record();
  kube::InformerOptions watch{.resource = kube::resources::kWorkerGroups, .ns = "team"};
  kube::InformerEvents events;
  events.on_upsert = [this](const json& object) {
    const std::lock_guard lock(mutex_);
    record_ = api::decode_worker_group(object).value();
    changed_.notify_all();
  };
  informer_ = std::make_unique<kube::Informer>(*store_, clock_, log_, watch, std::move(events));
  informer_->start();
}

bool has_trained(const api::WorkerGroup& group) {
  return group.status.progress && group.status.progress->step > 5;
}

GangFixture::~GangFixture() {
  for (const auto& [slot, pid] : pids_) {
    if (pid <= 0) continue;
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
  }
  informer_->stop();
  server_.reset();
  store_.reset();
  fs::remove_all(folder_);
}

std::string GangFixture::uid(int slot) const {
  return "uid-" + std::to_string(attempt_) + "-" + std::to_string(slot) + "-" +
         std::to_string(incarnation(slot));
}
std::string GangFixture::pod(int slot) const {
  return "job-" + std::to_string(attempt_) + "-" + std::to_string(slot) + "-" +
         std::to_string(incarnation(slot));
}
int GangFixture::incarnation(int slot) const {
  const auto found = replaced_.find(slot);
  return found == replaced_.end() ? 0 : found->second;
}

json GangFixture::call(kube::HttpRequest request) {
  const auto response = kube::send_and_wait(*store_, request);
  REQUIRE(response.has_value());
  const auto body = kube::read_response(request, *response);
  INFO((body ? "" : body.error().message));
  REQUIRE(body.has_value());
  return *body;
}

void GangFixture::create_record() {
  api::WorkerGroup group;
  group.meta.name = "job";
  group.meta.ns = "team";
  group.meta.labels[api::kLabelJobUid] = "job-uid";
  group.spec.attempt = 1;
  group.spec.target_members = options_.members;
  group.spec.min_members = options_.least > 0 ? options_.least : options_.members;
  group.spec.report_seconds = options_.report_seconds;
  group.spec.is_in_place = group.spec.has_successors = options_.is_in_place;
  for (int slot = 0; slot < options_.members; ++slot)
    group.spec.pods.push_back({slot, pod(slot), uid(slot), 0, slot});
  json object = api::encode_worker_group(group);
  object.erase("status");
  call(kube::create_request(kube::resources::kWorkerGroups, "team", object));
}

void GangFixture::next_attempt() {
  ++attempt_;
  replaced_.clear();
  write_pods();
}

void GangFixture::replace(int slot, const std::vector<std::string>& command,
                          const std::map<std::string, std::string>& changes) {
  ++replaced_[slot];
  write_pods();
  start(slot, command, changes);
}

void GangFixture::resize(int members, const std::vector<std::string>& command) {
  const int before = std::exchange(options_.members, members);
  slots_ = std::max(slots_, members);
  write_pods();
  for (int slot = before; slot < members; ++slot) start(slot, command);
}

void GangFixture::write_pods() {
  json pods = json::array();
  for (int slot = 0; slot < slots_; ++slot) {
    pods.push_back({{"slot", slot},
                    {"name", pod(slot)},
                    {"uid", uid(slot)},
                    {"n", incarnation(slot)},
                    {"order", slot}});
  }
  edit_spec(json{
      {"attempt", attempt_},
      {"minMembers", options_.least > 0 ? options_.least : options_.members},
      {"targetMembers", options_.members},
      {"pods",
       pods}}.dump());
}

void GangFixture::edit_spec(const std::string& patch_json) {
  call(kube::merge_patch_request(kube::resources::kWorkerGroups, "team", "job",
                                 {{"spec", parse_json(patch_json)}}));
}

void GangFixture::delete_record() {
  const json object = call(kube::get_request(kube::resources::kWorkerGroups, "team", "job"));
  call(kube::delete_request(kube::resources::kWorkerGroups, "team", "job",
                            {.uid = object.at("metadata").at("uid").get<std::string>()}));
}

std::string GangFixture::token_file(int slot, const std::string& audience,
                                    const std::string& pod_uid) const {
  const TimePoint now = clock_.now();
  const auto token = tokens_->mint(
      {audience, "team", pod(slot), pod_uid, "job-pawl-worker", now + std::chrono::hours{1}}, now);
  const std::string path = folder_ + "/token-" + os::random_hex(4);
  std::ofstream(path) << token.value();
  return path;
}

void GangFixture::start(int slot, const std::vector<std::string>& command,
                        const std::map<std::string, std::string>& changes) {
  server_->admit({"team", pod(slot), uid(slot), "job-pawl-worker", "job"});
  auto env = os::environment();
  env[api::kEnvWorker] = api::encode_worker_facts(
      {.job_name = "job",
       .job_uid = "job-uid",
       .ns = "team",
       .pod = pod(slot),
       .attempt = attempt_,
       .slot = slot,
       .processes = options_.processes,
       .parameter_servers = options_.parameter_servers,
       .runtime = options_.runtime,
       .is_in_place = options_.is_program_in_place,
       .checkpoint = api::WorkerFacts::Checkpoint{.uri = "file://" + folder_ + "/checkpoints"}});
  env[api::kEnvPodUid] = uid(slot);
  env[api::kEnvPodIp] = "127.0.0.1";
  env[api::kEnvNodeName] = "node";
  env[api::kEnvApiServer] = server_->url();
  env[api::kEnvTokenFile] = token_file(slot, local::kApiAudience, uid(slot));
  env[api::kEnvPeerTokenFile] = token_file(slot, api::kTokenAudience, uid(slot));
  env[api::kEnvTerminationLog] = folder_ + "/termination-" + std::to_string(slot);
  for (const auto& [name, value] : changes) env[name] = value;

  std::vector<std::string> words = {PAWL_LAUNCH_PATH, "--"}, variables;
  words.insert(words.end(), command.begin(), command.end());
  for (const auto& [name, value] : env) variables.push_back(name + "=" + value);
  std::vector<char*> argv, envp;
  for (std::string& word : words) argv.push_back(word.data());
  for (std::string& variable : variables) envp.push_back(variable.data());
  argv.push_back(nullptr);
  envp.push_back(nullptr);
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  const std::string log = folder_ + "/log-" + std::to_string(slot);
  posix_spawn_file_actions_addopen(&files, 1, log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
  posix_spawn_file_actions_adddup2(&files, 1, 2);
  pid_t pid = 0;
  REQUIRE(::posix_spawn(&pid, PAWL_LAUNCH_PATH, &files, nullptr, argv.data(), envp.data()) == 0);
  posix_spawn_file_actions_destroy(&files);
  pids_[slot] = pid;
}

void GangFixture::start_all(const std::vector<std::string>& command) {
  for (int slot = 0; slot < options_.members; ++slot) start(slot, command);
}

void GangFixture::signal(int slot, int number) { REQUIRE(::kill(pids_.at(slot), number) == 0); }

int GangFixture::wait(int slot, std::chrono::milliseconds timeout) {
  const pid_t pid = pids_.at(slot);
  const os::Fd handle{static_cast<int>(::syscall(SYS_pidfd_open, pid, 0))};
  pollfd waiting{handle.get(), POLLIN, 0};
  if (::poll(&waiting, 1, static_cast<int>(timeout.count())) <= 0) return -1;
  int status = 0;
  ::waitpid(pid, &status, 0);
  pids_[slot] = 0;
  server_->dismiss(uid(slot));
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

bool GangFixture::until(const std::function<bool(const api::WorkerGroup&)>& condition) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, kWaitMax, [&] { return condition(record_); });
}

api::WorkerGroup GangFixture::record() {
  return api::decode_worker_group(
             call(kube::get_request(kube::resources::kWorkerGroups, "team", "job")))
      .value();
}

std::string GangFixture::output(int slot) const {
  return read_file(folder_ + "/log-" + std::to_string(slot));
}

api::Failure GangFixture::termination(int slot) const {
  return api::decode_termination(read_file(folder_ + "/termination-" + std::to_string(slot)))
      .value_or(api::Failure{});
}

std::vector<std::string> GangFixture::checkpoints() const {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder_ + "/checkpoints", error)) {
    const bool is_published = fs::exists(entry.path() / "manifest.json");
    if (is_published) names.push_back(entry.path().filename().string());
  }
  std::ranges::sort(names);
  return names;
}

std::string GangFixture::checkpoint(std::int64_t step) {
  return checkpoint::folder_of({step, 1, 1, checkpoint::job_tag("job-uid")});
}

std::vector<std::string> GangFixture::trainer(const std::vector<int>& numbers) {
  std::vector<std::string> command = {PAWL_CHANNEL_TRAINER_PATH};
  for (const int number : numbers) command.push_back(std::to_string(number));
  return command;
}

}  // namespace pawl::launcher::test
