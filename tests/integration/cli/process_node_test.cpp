// The process node with real processes: what a pod's status says of them, and how they end.
#include <sys/stat.h>
#include <catch2/catch_test_macros.hpp>
#include <csignal>
#include <fstream>
#include <future>
#include <sstream>

#include "common/kube/cpprest_transport.h"
#include "tests/integration/cli/local_fixture.h"

using namespace pawl;
using namespace pawl::local;
using nlohmann::json;

namespace {

struct Node {
  Node()
      : keeper(Keeper::start().value()),
        log(clock, [](std::string_view) {}),
        node({api.transport, *api.server, *api.tokens, *keeper, clock, log},
             {"n1", folder.path, os::environment(), std::chrono::milliseconds{5},
              std::chrono::milliseconds{20}}),
        view(api.transport) {}

  void create(const std::string& name, const std::string& script,
              const json& more = json::object()) {
    json container = {{"name", "worker"}, {"command", {"/bin/sh", "-c", script}}};
    container.update(more);
    const json pod = {
        {"apiVersion", "v1"},
        {"kind", "Pod"},
        {"metadata", {{"name", name}}},
        {"spec", {{"restartPolicy", "Never"}, {"containers", json::array({container})}}}};
    REQUIRE(api.call(kube::Method::kPost, kPods, pod).status == 201);
  }
  json wait_for_phase(const std::string& name, const std::string& phase) {
    return view.wait(
        name, [&](const json& pod) { return !pod.is_null() && pod["status"]["phase"] == phase; });
  }
  std::string log_of(const std::string& name) {
    std::ifstream file{node.log_file(name)};
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
  }

  std::unique_ptr<Keeper> keeper;  // first: it forks
  Folder folder;
  RealClock clock;
  LocalApi api;
  Log log;
  ProcessNode node;
  PodView view;
};

bool is_ready(const json& pod) {
  for (const json& condition : pod["status"].value("conditions", json::array())) {
    if (condition["type"] == "Ready") return condition["status"] == "True";
  }
  return false;
}

json terminated(const json& pod) {
  return pod["status"]["containerStatuses"][0]["state"]["terminated"];
}

}  // namespace

TEST_CASE("process_node: a pod runs to its end, with its log and termination message", "[cli]") {
  Node node;
  node.create("good", "echo hello; echo trouble >&2; ls -l $PAWL_TOKEN_FILE");
  const json good = node.wait_for_phase("good", "Succeeded");
  REQUIRE(terminated(good)["exitCode"] == 0);
  CHECK(terminated(good)["reason"] == "Completed");
  CHECK(good["spec"]["nodeName"] == "n1");
  CHECK(good["status"]["podIP"] == "127.0.0.1");
  const std::string log = node.log_of("good");
  CHECK(log.find("hello\ntrouble\n-rw-------") == 0);

  node.create("bad", "printf because > $PAWL_TERMINATION_LOG; exit 7");
  const json bad = node.wait_for_phase("bad", "Failed");
  CHECK(terminated(bad)["exitCode"] == 7);
  CHECK(terminated(bad)["reason"] == "Error");
  CHECK(terminated(bad)["message"] == "because");

  node.create("killed", "kill -9 $$$$" /* $$ is a $ in a pod */);
  const json killed = node.wait_for_phase("killed", "Failed");
  CHECK(terminated(killed)["exitCode"] == 137);
  CHECK(terminated(killed)["signal"] == SIGKILL);
}

TEST_CASE("process_node: a pod that cannot start fails with the reason", "[cli]") {
  Node node;
  node.create("missing", "", {{"command", {"no-such-program-of-anybody"}}});
  const json missing = node.wait_for_phase("missing", "Failed");
  CHECK(terminated(missing)["reason"] == "StartError");
  CHECK(terminated(missing)["exitCode"] == 128);
  CHECK(terminated(missing)["message"].get<std::string>().find("no-such-program-of-anybody") !=
        std::string::npos);
  node.create("secret", "true", {{"envFrom", json::array({{{"secretRef", {{"name", "s"}}}}})}});
  const json secret = node.wait_for_phase("secret", "Failed");
  CHECK(terminated(secret)["reason"] == "CreateContainerConfigError");
}

TEST_CASE("process_node: a deleted pod gets SIGTERM, its grace, then SIGKILL", "[cli]") {
  Node node;
  const std::string ready = node.folder.file("ready");
  REQUIRE(::mkfifo(ready.c_str(), 0600) == 0);
  const auto wait_until_it_runs = [&] {
    std::ifstream reader{ready};
    std::string line;
    std::getline(reader, line);
  };
  const std::string loop = "; echo > " + ready + "; while :; do sleep 1000 & wait; done";
  node.create("polite", "trap 'echo bye; exit 75' TERM" + loop);
  wait_until_it_runs();
  REQUIRE(node.api.call(kube::Method::kDelete, std::string{kPods} + "/polite").status == 200);
  CHECK(node.view.wait("polite", [](const json& pod) { return pod.is_null(); }).is_null());
  CHECK(node.log_of("polite") == "bye\n");

  node.create("stubborn", "trap '' TERM" + loop);
  wait_until_it_runs();
  node.wait_for_phase("stubborn", "Running");
  const auto pid = node.node.pid_of("stubborn");
  REQUIRE(pid.has_value());
  REQUIRE(node.api
              .call(kube::Method::kDelete, std::string{kPods} + "/stubborn",
                    {{"gracePeriodSeconds", 1}})
              .status == 200);
  CHECK(node.view.wait("stubborn", [](const json& pod) { return pod.is_null(); }).is_null());
  CHECK(::kill(*pid, 0) != 0);
}

TEST_CASE("process_node: logs are read, cut and followed as from a kubelet", "[cli]") {
  Node node;
  const std::string ready = node.folder.file("ready"), go = node.folder.file("go");
  REQUIRE(::mkfifo(ready.c_str(), 0600) == 0);
  REQUIRE(::mkfifo(go.c_str(), 0600) == 0);
  node.create("talker",
              "echo one; echo two; echo > " + ready + "; read line < " + go + "; echo three");
  std::string line;
  std::getline(std::ifstream{ready}, line);
  kube::ClusterConfig config;
  config.server = node.api.server->url();
  config.token = node.api.server->user_token();
  const auto user = kube::make_transport(config, node.clock, {"test/0", 4}).value();
  const auto request = [](const std::string& path) {
    kube::HttpRequest log;
    log.target = std::string{kPods} + "/" + path;
    return log;
  };
  const auto get = [&](const std::string& path) {
    return kube::send_and_wait(*user, request(path)).value();
  };
  CHECK(get("talker/log?container=worker").body == "one\ntwo\n");
  CHECK(get("talker/log?tailLines=1").body == "two\n");
  CHECK(get("talker/log?tailLines=0").body.empty());
  CHECK(get("talker/log?tailLines=9").body == "one\ntwo\n");
  CHECK(get("talker/log?tailLines=x").status == 400);
  CHECK(get("nobody/log").status == 400);
  std::ofstream{node.folder.file("secret.log")} << "secret";
  CHECK(get("..%2Fsecret/log").status == 400);

  std::promise<void> begun, ended;
  std::string seen;  // written on the transport's thread, read after the promises
  user->stream(
      request("talker/log?follow=true&tailLines=1"),
      [&](std::string_view bytes) {
        if (seen.empty()) begun.set_value();
        seen += bytes;
      },
      [&](const Result<kube::HttpResponse>&) { ended.set_value(); });
  begun.get_future().wait();
  std::ofstream{go} << "\n";
  ended.get_future().wait();  // the pod's end ends it
  CHECK(seen == "two\nthree\n");
  CHECK(get("talker/log?tailLines=1").body == "three\n");
}

TEST_CASE("process_node: readiness follows the probe", "[cli]") {
  Node node;
  const json probe = {{"readinessProbe", {{"httpGet", {{"path", "/readyz"}, {"port", 8471}}}}}};
  const std::string script = R"(
import http.server, os
class Handler(http.server.BaseHTTPRequestHandler):
    count = 0
    def do_GET(self):
        Handler.count += 1
        self.send_response(200 if self.path == '/readyz' and Handler.count % 20 > 3 else 503)
        self.end_headers()
    def log_message(self, *args): pass
http.server.HTTPServer(('127.0.0.1', int(os.environ['PAWL_HEALTH_PORT'])), Handler).serve_forever()
)";
  json more = probe;
  more["command"] = {"python3", "-c", script};
  node.create("p", "", more);
  CHECK(is_ready(
      node.view.wait("p", [](const json& pod) { return !pod.is_null() && is_ready(pod); })));
  CHECK_FALSE(is_ready(node.view.wait("p", [](const json& pod) { return !is_ready(pod); })));
  node.create("unprobed", "sleep 1000");
  CHECK(is_ready(
      node.view.wait("unprobed", [](const json& pod) { return !pod.is_null() && is_ready(pod); })));
}
