#include "tests/integration/kube/cluster.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <unistd.h>

#include <fstream>
#include <iterator>

#include "common/os/fd.h"
#include "common/os/process.h"

namespace pawl::kube {

const Resource kConfigMaps{"", "v1", "configmaps", "ConfigMap"};

namespace {

const Resource kNamespaces{"", "v1", "namespaces", "Namespace", false};

std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// "a\0b\0" → {"a", "b"}.
std::vector<std::string> split_zero(const std::string& text) {
  std::vector<std::string> words;
  for (std::size_t at = 0; at < text.size(); at = text.find('\0', at) + 1)
    words.emplace_back(text.c_str() + at);
  return words;
}

std::vector<char*> pointers(std::vector<std::string>& words) {
  std::vector<char*> out;
  for (std::string& word : words) out.push_back(word.data());
  out.push_back(nullptr);
  return out;
}

// Asks `holds` again and again until it is true; the pause is between polls of another process.
template <typename Holds>
void poll_until(const char* what, const Holds& holds) {
  const auto end = std::chrono::steady_clock::now() + kPatience;
  while (!holds()) {
    INFO("waiting for " << what);
    REQUIRE(std::chrono::steady_clock::now() < end);
    ::poll(nullptr, 0, 50);
  }
}

ClusterConfig config_from_environment() {
  const auto path = os::env("PAWL_TEST_KUBECONFIG");
  if (!path || path->empty()) {
    SKIP(
        "PAWL_TEST_KUBECONFIG is not set: start `e2e/cluster/cluster.py apiserver-only up` and set "
        "it "
        "to the kubeconfig that it prints");
  }
  auto config = load_kubeconfig(*path);
  if (!config) FAIL(config.error().message);
  return *config;
}

std::unique_ptr<Transport> connect(const ClusterConfig& config, const Clock& clock) {
  auto transport = make_transport(config, clock, {"pawl-integration-test/1", 32});
  if (!transport) FAIL(transport.error().message);
  return std::move(*transport);
}

}  // namespace

Cluster::Cluster()
    : log_(clock_, [this](std::string_view line) { write_log(line); }),
      config_(config_from_environment()),
      transport_(connect(config_, clock_)),
      ns_("it-" + os::random_hex(6)) {
  folder_ = std::filesystem::path(*os::env("PAWL_TEST_KUBECONFIG")).parent_path();
  wait_until_ready();
  created(kNamespaces, {{"metadata", {{"name", ns_}}}});
}

Cluster::~Cluster() {
  // Also after a test that failed while it was frozen; a running server takes no notice.
  if (!folder_.empty()) ::kill(api_server_pid(), SIGCONT);
  const auto ours = call(get_request(kNamespaces, "", ns_));
  if (!ours) return;
  DeleteOptions options;
  options.uid = (*ours)["metadata"]["uid"];
  (void)call(delete_request(kNamespaces, "", ns_, options));
}

Result<json> Cluster::call(Transport& transport, const HttpRequest& request) {
  PAWL_TRY(response, send_and_wait(transport, request));
  return read_response(request, response);
}

void Cluster::write_log(std::string_view line) {
  os::write_stderr(line);
  const std::lock_guard lock(mutex_);
  lines_ += line;
  logged_.notify_all();
}

void Cluster::wait_for_log(const std::string& text) {
  std::unique_lock lock(mutex_);
  INFO("waiting for \"" << text << "\" in the log");
  REQUIRE(
      logged_.wait_for(lock, kPatience, [&] { return lines_.find(text) != std::string::npos; }));
}

int Cluster::api_server_pid() const {
  return std::stoi(read_file(folder_ / "run" / "kube-apiserver.pid"));
}

void Cluster::freeze_api_server() { REQUIRE(::kill(api_server_pid(), SIGSTOP) == 0); }

void Cluster::thaw_api_server() { REQUIRE(::kill(api_server_pid(), SIGCONT) == 0); }

json Cluster::created(const Resource& resource, const json& object) {
  const auto made = call(create_request(resource, ns_, object));
  if (!made) FAIL(made.error().message);
  return *made;
}

json Cluster::create(const std::string& name, const json& labels) {
  return created(kConfigMaps,
                 {{"metadata", {{"name", name}, {"labels", labels}}}, {"data", {{"v", "0"}}}});
}

json Cluster::patch(const std::string& name, const json& patch) {
  const auto changed = call(merge_patch_request(kConfigMaps, ns_, name, patch));
  if (!changed) FAIL(changed.error().message);
  return *changed;
}

void Cluster::remove(const json& object) {
  DeleteOptions options;
  options.uid = object["metadata"]["uid"];
  const auto gone = call(delete_request(kConfigMaps, ns_, object["metadata"]["name"], options));
  if (!gone) FAIL(gone.error().message);
}

std::unique_ptr<Transport> Cluster::as_service_account(const std::string& name, const json& rules) {
  created(resources::kServiceAccounts, {{"metadata", {{"name", name}}}});
  if (!rules.empty()) {
    created(resources::kRoles, {{"metadata", {{"name", name}}}, {"rules", rules}});
    const std::string rbac = "rbac.authorization.k8s.io";
    created(resources::kRoleBindings,
            {{"metadata", {{"name", name}}},
             {"roleRef", {{"apiGroup", rbac}, {"kind", "Role"}, {"name", name}}},
             {"subjects", {{{"kind", "ServiceAccount"}, {"name", name}, {"namespace", ns_}}}}});
  }
  HttpRequest request = create_request(resources::kServiceAccounts, ns_,
                                       {{"apiVersion", "authentication.k8s.io/v1"},
                                        {"kind", "TokenRequest"},
                                        {"spec", {{"expirationSeconds", 3600}}}});
  request.target = path_of(resources::kServiceAccounts, ns_, name, "token");
  const auto answer = call(request);
  if (!answer) FAIL(answer.error().message);
  ClusterConfig config = config_;
  config.client_cert_data.clear();
  config.client_key_data.clear();
  config.token = (*answer)["status"]["token"];
  return connect(config, clock_);
}

void Cluster::compact_history() {
  const int pid = std::stoi(read_file(folder_ / "run" / "kube-apiserver.pid"));
  std::string etcd;
  for (const std::string& word :
       split_zero(read_file("/proc/" + std::to_string(pid) + "/cmdline"))) {
    if (word.starts_with("--etcd-servers=")) etcd = word.substr(15);
  }
  const auto transport = connect({.server = etcd}, clock_);
  const auto ask = [&](const char* path, const json& body) {
    HttpRequest request;
    request.method = Method::kPost;
    request.target = path;
    request.content_type = "application/json";
    request.body = body.dump();
    const auto answer = call(*transport, request);
    if (!answer) FAIL(answer.error().message);
    return *answer;
  };
  const std::string now = ask("/v3/kv/range", {{"key", "AA=="}})["header"]["revision"];
  ask("/v3/kv/compaction", {{"revision", now}, {"physical", true}});
}

namespace {
std::uint16_t port_of(const std::vector<std::string>& arguments) {
  constexpr std::string_view kFlag = "--secure-port=";
  for (const std::string& argument : arguments) {
    if (argument.starts_with(kFlag)) {
      return static_cast<std::uint16_t>(std::stoi(argument.substr(kFlag.size())));
    }
  }
  FAIL("the API server's arguments name no port");
  return 0;
}
}  // namespace

void Cluster::restart_api_server() {
  const auto pid_file = folder_ / "run" / "kube-apiserver.pid";
  const pid_t old = api_server_pid();
  const std::string proc = "/proc/" + std::to_string(old);
  auto arguments = split_zero(read_file(proc + "/cmdline"));
  auto environment = split_zero(read_file(proc + "/environ"));
  const std::string program = std::filesystem::read_symlink(proc + "/exe").string();
  REQUIRE(!arguments.empty());
  REQUIRE(::kill(old, SIGKILL) == 0);
  poll_until("the API server's end", [&] { return read_file(proc + "/cmdline").empty(); });
  // Its memory goes before its sockets: the successor would find the port taken.
  poll_until("the API server's port",
             [&] { return os::listen_tcp("127.0.0.1", port_of(arguments)).has_value(); });

  posix_spawn_file_actions_t files;
  ::posix_spawn_file_actions_init(&files);
  const std::string log = (folder_ / "log" / "kube-apiserver.log").string();
  ::posix_spawn_file_actions_addopen(&files, 1, log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
  ::posix_spawn_file_actions_adddup2(&files, 1, 2);
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID);
  pid_t fresh = 0;
  // By its path: the program chooses by its first argument which of its parts it is.
  REQUIRE(::posix_spawn(&fresh, program.c_str(), &files, &attributes, pointers(arguments).data(),
                        pointers(environment).data()) == 0);
  ::posix_spawn_file_actions_destroy(&files);
  ::posix_spawnattr_destroy(&attributes);
  std::ofstream(pid_file) << fresh;
}

void Cluster::wait_until_ready() {
  poll_until("the API server", [&] {
    HttpRequest request;
    request.target = "/readyz";
    const auto answer = send_and_wait(*transport_, request);
    return answer && answer->status == 200;
  });
}

View::View(Cluster& cluster, Transport& transport, InformerOptions options) {
  options.resource = kConfigMaps;
  options.ns = cluster.ns();
  InformerEvents events;
  const auto note = [this](const std::string& word) {
    told_.push_back(word);
    changed_.notify_all();
  };
  events.on_upsert = [this, note](const json& object) {
    const std::lock_guard lock(mutex_);
    objects_[object["metadata"]["uid"]] = object;
    note("+" + object["metadata"]["name"].get<std::string>());
  };
  events.on_delete = [this, note](const json& object) {
    const std::lock_guard lock(mutex_);
    objects_.erase(object["metadata"]["uid"]);
    note("-" + object["metadata"]["name"].get<std::string>());
  };
  events.on_synced = [this, note](const std::string&) {
    const std::lock_guard lock(mutex_);
    ++synced_;
    note("synced");
  };
  informer_ =
      std::make_unique<Informer>(transport, cluster.clock(), cluster.log(), options, events);
  informer_->start();
}

std::string View::value(const std::string& name) {
  const std::lock_guard lock(mutex_);
  for (const auto& [uid, object] : objects_) {
    if (object["metadata"]["name"] == name) return object["data"]["v"];
  }
  return "";
}

std::size_t View::size() {
  const std::lock_guard lock(mutex_);
  return objects_.size();
}

std::vector<std::string> View::told() {
  const std::lock_guard lock(mutex_);
  return told_;
}

int View::synced() {
  const std::lock_guard lock(mutex_);
  return synced_;
}

bool View::is_told(const std::string& word) {
  const std::lock_guard lock(mutex_);
  return std::find(told_.begin(), told_.end(), word) != told_.end();
}

void View::wait_for(const std::string& what, const std::function<bool(View&)>& holds) {
  std::unique_lock lock(mutex_);
  INFO("waiting for " << what);
  REQUIRE(changed_.wait_for(lock, kPatience, [&] { return holds(*this); }));
}

}  // namespace pawl::kube
