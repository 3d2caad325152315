// `pawl status`, `why` and `logs` as a user starts them, against a real API server. There is no
// kubelet: of the logs only the ways to fail are here.
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <sstream>

#include "common/api/codec.h"
#include "common/os/process.h"
#include "tests/integration/kube/cluster.h"

using namespace pawl;
using namespace pawl::kube;

namespace {

const Resource kCrds{"apiextensions.k8s.io", "v1", "customresourcedefinitions",
                     "CustomResourceDefinition", false};

struct Ran {
  int exit_code = -1;
  std::string out, err;
};

std::string read_all(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream{path, std::ios::binary}.rdbuf();
  return text.str();
}

// Starts the program with these arguments and waits for it.
Ran run(const std::string& program, std::vector<std::string> arguments) {
  const auto folder = std::filesystem::temp_directory_path() / ("pawl-cli-" + os::random_hex(6));
  std::filesystem::create_directories(folder);
  arguments.insert(arguments.begin(), program);
  std::vector<char*> pointers;
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  posix_spawn_file_actions_t files;
  ::posix_spawn_file_actions_init(&files);
  ::posix_spawn_file_actions_addopen(&files, 1, (folder / "out").c_str(), O_WRONLY | O_CREAT, 0600);
  ::posix_spawn_file_actions_addopen(&files, 2, (folder / "err").c_str(), O_WRONLY | O_CREAT, 0600);
  pid_t pid = 0;
  REQUIRE(::posix_spawn(&pid, program.c_str(), &files, nullptr, pointers.data(), environ) == 0);
  ::posix_spawn_file_actions_destroy(&files);
  int status = 0;
  REQUIRE(::waitpid(pid, &status, 0) == pid);
  Ran ran{WIFEXITED(status) ? WEXITSTATUS(status) : -1, read_all(folder / "out"),
          read_all(folder / "err")};
  std::filesystem::remove_all(folder);
  return ran;
}

Ran pawl_command(std::vector<std::string> arguments) {
  arguments.insert(arguments.end(), {"--kubeconfig", *os::env("PAWL_TEST_KUBECONFIG")});
  return run(PAWL_PROGRAM, std::move(arguments));
}

// The cluster with our definitions in it; tests share them, so they stay.
class PawlCluster : public Cluster {
 public:
  PawlCluster() {
    for (const char* name : {"trainingjobs", "workergroups"}) define(name);
  }

  json create_job(const std::string& name) {
    const json job = {
        {"apiVersion", "pawl.dev/v1alpha1"},
        {"kind", "TrainingJob"},
        {"metadata", {{"name", name}}},
        {"spec",
         {{"replicas", 2},
          {"template",
           {{"spec",
             {{"containers", {{{"name", "worker"}, {"image", "x"}, {"command", {"x"}}}}}}}}}}}};
    const auto made = call(create_request(resources::kTrainingJobs, ns(), job));
    if (!made) FAIL(made.error().message);
    return *made;
  }
  std::string token_of(const std::string& account) {
    const auto made = call(
        create_request(resources::kServiceAccounts, ns(), {{"metadata", {{"name", account}}}}));
    if (!made) FAIL(made.error().message);
    HttpRequest request = create_request(resources::kServiceAccounts, ns(),
                                         {{"apiVersion", "authentication.k8s.io/v1"},
                                          {"kind", "TokenRequest"},
                                          {"spec", {{"expirationSeconds", 3600}}}});
    request.target = path_of(resources::kServiceAccounts, ns(), account, "token");
    return call(request).value()["status"]["token"];
  }
  void set_status(const std::string& name, const json& status) {
    const auto set = call(
        merge_patch_request(resources::kTrainingJobs, ns(), name, {{"status", status}}, "status"));
    if (!set) FAIL(set.error().message);
  }
  void create_pod(const json& job, const std::string& name) {
    const json pod = {
        {"metadata", {{"name", name}, {"labels", {{"pawl.dev/job-uid", job["metadata"]["uid"]}}}}},
        {"spec", {{"containers", {{{"name", "worker"}, {"image", "x"}}}}}}};
    // A new namespace takes no pod before its default ServiceAccount is there.
    const auto end = std::chrono::steady_clock::now() + kPatience;
    while (true) {
      const auto made = call(create_request(resources::kPods, ns(), pod));
      if (made) return;
      const bool is_too_early = made.error().message.find("service account") != std::string::npos;
      if (!is_too_early || std::chrono::steady_clock::now() > end) FAIL(made.error().message);
      ::usleep(50'000);  // between polls of another process
    }
  }

 private:
  void define(const std::string& name) {
    const std::string full_name = name + ".pawl.dev";
    if (!call(get_request(kCrds, "", full_name))) {
      HttpRequest request;
      request.method = Method::kPatch;
      request.target = path_of(kCrds, "", full_name) + "?fieldManager=pawl-test";
      request.content_type = "application/apply-patch+yaml";
      request.body = read_all(std::string(PAWL_CRDS) + "/" + name + ".yaml");
      const auto made = call(request);
      if (!made) FAIL(made.error().message);
    }
    const auto end = std::chrono::steady_clock::now() + kPatience;
    const Resource resource{"pawl.dev", "v1alpha1", name, ""};
    while (!call(list_request(resource, ns(), {}))) {
      REQUIRE(std::chrono::steady_clock::now() < end);
      ::usleep(50'000);  // between polls of another process
    }
  }
};

class Folder {
 public:
  Folder() { std::filesystem::create_directories(path_); }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  std::string write_kubeconfig(const std::string& server, const std::string& ca,
                               const std::string& token) const {
    std::ofstream(path_ / "ca.crt") << ca;
    std::ofstream(path_ / "kubeconfig")
        << "current-context: c\ncontexts: [{name: c, context: {cluster: c, user: u}}]\n"
        << "clusters: [{name: c, cluster: {server: '" << server
        << "', certificate-authority: ca.crt}}]\n"
        << "users: [{name: u, user: {token: '" << token << "'}}]\n";
    return path_ / "kubeconfig";
  }

 private:
  std::filesystem::path path_ =
      std::filesystem::temp_directory_path() / ("pawl-cli-" + os::random_hex(6));
};

bool has(const std::string& text, const std::string& part) {
  INFO(text);
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("cli: status of all jobs, of one, and as JSON", "[kube][cli]") {
  PawlCluster cluster;
  cluster.create_job("first");
  const json second = cluster.create_job("second");
  cluster.set_status(
      "second",
      {{"observedGeneration", 1},
       {"phase", "Running"},
       {"ready", "2/2"},
       {"attempt", 1},
       {"progress", {{"step", 10}, {"totalSteps", 40}, {"etaSeconds", 4985}, {"loss", "2.5"}}}});
  const Ran table = pawl_command({"status", "-n", cluster.ns()});
  CHECK(table.exit_code == 0);
  CHECK(has(table.out, "NAME    PHASE    READY  STEP   LOSS    ETA    RESTARTS  AGE\n"));
  CHECK(has(table.out, "first   Pending  -      -      -       -      0         "));
  CHECK(has(table.out, "second  Running  2/2    10/40  2.5000  1h23m  0         "));
  CHECK(has(pawl_command({"status", "-A", "-o", "wide"}).out, cluster.ns() + "  second"));

  cluster.create_pod(second, "second-1-0-0");
  const Ran page = pawl_command({"status", "tj/second", "-n", cluster.ns()});
  CHECK(page.exit_code == 0);
  CHECK(has(page.out, "second in namespace " + cluster.ns() + ": Running\n"));
  CHECK(has(page.out, "progress      step 10/40"));
  CHECK(has(page.out, "second-1-0-0  Pending  no"));
  const json all =
      parse_json(pawl_command({"status", "second", "-o", "json", "-n", cluster.ns()}).out);
  CHECK(all["job"]["metadata"]["uid"] == second["metadata"]["uid"]);
  CHECK(all["pods"].size() == 1);
  CHECK(all["workerGroup"].is_null());
  CHECK(
      parse_json(pawl_command({"status", "-o", "json", "-n", cluster.ns()}).out)["items"].size() ==
      2);
}

TEST_CASE("cli: why speaks from what the API server has", "[kube][cli]") {
  PawlCluster cluster;
  const json job = cluster.create_job("lonely");
  const Ran alone = pawl_command({"why", "lonely", "-n", cluster.ns()});
  CHECK(alone.exit_code == 0);
  CHECK(has(alone.out, "lonely is Pending: "));
  cluster.set_status(
      "lonely",
      {{"observedGeneration", 1}, {"phase", "Starting"}, {"attempt", 1}, {"message", "0/2"}});
  cluster.create_pod(job, "lonely-1-0-0");
  const json waiting = {{"status",
                         {{"phase", "Pending"},
                          {"conditions",
                           {{{"type", "PodScheduled"},
                             {"status", "False"},
                             {"reason", "Unschedulable"},
                             {"message", "0/1 nodes are available: 1 Insufficient memory."}}}}}}};
  REQUIRE(cluster.call(
      merge_patch_request(resources::kPods, cluster.ns(), "lonely-1-0-0", waiting, "status")));
  CHECK(has(pawl_command({"why", "lonely", "-n", cluster.ns()}).out,
            "lonely is Starting: no node takes pod lonely-1-0-0: 0/1 nodes are available: 1 "
            "Insufficient memory. Next: "));
}

TEST_CASE("cli: the ways of logs to find nothing", "[kube][cli]") {
  PawlCluster cluster;
  const json job = cluster.create_job("quiet");
  cluster.set_status(
      "quiet",
      {{"observedGeneration", 1},
       {"attempt", 2},
       {"lastFailure", {{"attempt", 2}, {"rank", 1}, {"exitCode", 7}, {"logTail", "the end"}}}});
  const Ran gone = pawl_command({"logs", "quiet", "-n", cluster.ns()});
  CHECK(gone.exit_code == 0);
  CHECK(gone.out == "the end\n");
  CHECK(has(gone.err, "the pods of attempt 2 are gone"));
  CHECK(pawl_command({"logs", "quiet", "--attempt", "1", "-n", cluster.ns()}).exit_code == 1);
  cluster.create_pod(job, "quiet-2-0-0");
  // The API server would give an empty log of a pod that has no node yet.
  const Ran none = pawl_command({"logs", "quiet", "-n", cluster.ns(), "--follow"});
  CHECK(none.exit_code == 1);
  CHECK(has(none.err, "pod quiet-2-0-0 has no node yet, so there is no log"));
  CHECK(none.out.empty());
}

TEST_CASE("cli: what is wrong is said in one sentence", "[kube][cli]") {
  PawlCluster cluster;
  const auto says = [&](const std::vector<std::string>& arguments, int exit_code,
                        const std::string& sentence) {
    const Ran ran = pawl_command(arguments);
    INFO(ran.err);
    return ran.exit_code == exit_code && ran.err.find(sentence) != std::string::npos;
  };
  CHECK(says({"status", "none", "-n", cluster.ns()}, 1,
             "no TrainingJob none in namespace " + cluster.ns()));
  CHECK(
      says({"why", "none", "-n", "no-such-ns"}, 1, "there is no namespace no-such-ns: correct -n"));
  CHECK(says({"status", "-n", "no-such-ns"}, 1, "there is no namespace no-such-ns: correct -n"));
  CHECK(says({"status", "-n", cluster.ns()}, 0, "no TrainingJobs in namespace " + cluster.ns()));
  CHECK(says({"status", "--context", "no-such", "-n", "x"}, 1, "no context named \"no-such\""));
  CHECK(says({"why"}, 2, "which job?"));
  CHECK(says({"logs", "a", "--rank", "x"}, 2, "write a whole number"));
  CHECK(says({"status", "-o", "yaml"}, 2, "write json or wide"));
  const Ran missing = run(PAWL_PROGRAM, {"status", "--kubeconfig", "/no/such/file"});
  CHECK(missing.exit_code == 1);
  CHECK(has(missing.err, "no kubeconfig (cannot open /no/such/file"));
}

TEST_CASE("cli: a server that is not there, rights that are not, credentials that are wrong",
          "[kube][cli]") {
  PawlCluster cluster;
  const Folder folder;
  const auto config = load_kubeconfig(*os::env("PAWL_TEST_KUBECONFIG"));
  REQUIRE(config);
  const auto status_at = [&](const std::string& server, const std::string& token) {
    const std::string file = folder.write_kubeconfig(server, config->ca_data, token);
    const Ran ran = run(PAWL_PROGRAM, {"status", "--kubeconfig", file, "-n", cluster.ns()});
    CHECK(ran.exit_code == 1);
    return ran.err;
  };
  CHECK(has(status_at("https://127.0.0.1:1", "x"),
            "the API server https://127.0.0.1:1 cannot be reached"));
  CHECK(has(status_at(config->server, "wrong"), "does not accept your credentials"));
  const std::string nobody = cluster.token_of("nobody");
  CHECK(
      has(status_at(config->server, nobody), "you may not read this in namespace " + cluster.ns()));
}
