#include "common/kube/config.h"

#include <stdlib.h>

#include <catch2/catch_test_macros.hpp>
#include <filesystem>
#include <fstream>

#include "common/os/process.h"

using namespace pawl;
using namespace pawl::kube;

namespace {

// A folder that is gone when the test ends.
class Folder {
 public:
  Folder() : path_(std::filesystem::temp_directory_path() / ("pawl-" + os::random_hex(8))) {
    std::filesystem::create_directory(path_);
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(path_ / name) << text;
    return (path_ / name).string();
  }
  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

// An environment variable that has its old value back when the test ends.
class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name), old_(os::env(name)) {
    ::setenv(name, value.c_str(), 1);
  }
  ~Variable() {
    if (old_) {
      ::setenv(name_, old_->c_str(), 1);
    } else {
      ::unsetenv(name_);
    }
  }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
  std::optional<std::string> old_;
};

std::string kubeconfig(const std::string& cluster, const std::string& user) {
  return "apiVersion: v1\nkind: Config\ncurrent-context: one\n"
         "contexts:\n"
         "- {name: one, context: {cluster: c, user: u, namespace: team}}\n"
         "- {name: two, context: {cluster: c, user: nobody}}\n"
         "clusters:\n- name: c\n  cluster: {server: 'https://10.0.0.1:6443', " +
         cluster +
         "}\n"
         "users:\n- name: u\n  user: {" +
         user +
         "}\n"
         "- name: nobody\n  user: {}\n";
}

}  // namespace

TEST_CASE("config: a kubeconfig with data inside it", "[kube]") {
  const Folder folder;
  const std::string path = folder.write(
      "config", kubeconfig("certificate-authority-data: Q0E=",
                           "client-certificate-data: Q0VSVA==, client-key-data: S0VZIQ=="));
  const auto config = load_kubeconfig(path);
  REQUIRE(config);
  CHECK(config->server == "https://10.0.0.1:6443");
  CHECK(config->ca_data == "CA");
  CHECK(config->client_cert_data == "CERT");
  CHECK(config->client_key_data == "KEY!");
  CHECK(config->ns == "team");
  const auto other = load_kubeconfig(path, "two");
  REQUIRE(other);
  CHECK(other->ns == "default");
  CHECK(other->client_cert_data.empty());
}

TEST_CASE("config: files are relative to the kubeconfig that names them", "[kube]") {
  const Folder folder;
  folder.write("ca.pem", "CA");
  folder.write("cert.pem", "CERT");
  folder.write("key.pem", "KEY");
  const std::string path = folder.write(
      "config", kubeconfig("certificate-authority: ca.pem",
                           "client-certificate: cert.pem, client-key: key.pem, token: abc"));
  const auto config = load_kubeconfig(path);
  REQUIRE(config);
  CHECK(config->ca_data == "CA");
  CHECK(config->client_cert_data == "CERT");
  CHECK(config->client_key_data == "KEY");
  CHECK(config->token == "abc");
}

TEST_CASE("config: a token file is named, not read; $KUBECONFIG is the default", "[kube]") {
  const Folder folder;
  const Variable variable("KUBECONFIG",
                          folder.write("config", kubeconfig("x: y", "tokenFile: tok, token: old")));
  const auto config = load_kubeconfig("");
  REQUIRE(config);
  CHECK(config->token_file == folder.path() + "/tok");
  CHECK(config->token.empty());
}

TEST_CASE("config: a credential plugin is asked as kubectl asks it", "[kube]") {
  const Folder folder;
  const std::string plugin =
      folder.write("plugin.sh",
                   "#!/bin/sh\nprintf '%s' \"$KUBERNETES_EXEC_INFO\" >\"$REGION-$1\"\n"
                   "echo '{\"kind\":\"ExecCredential\",\"status\":{\"token\":\"fresh\","
                   "\"expirationTimestamp\":\"2030-01-01T00:00:00Z\"}}'\n");
  std::filesystem::permissions(plugin, std::filesystem::perms::owner_all);
  const std::string user =
      "exec: {apiVersion: client.authentication.k8s.io/v1, command: ./plugin.sh, "
      "args: [told], env: [{name: REGION, value: '" +
      folder.path() + "/x'}], provideClusterInfo: true}";
  const auto config =
      load_kubeconfig(folder.write("config", kubeconfig("certificate-authority-data: Q0E=", user)));
  REQUIRE(config);
  CHECK(config->token == "fresh");
  std::ifstream told(folder.path() + "/x-told");
  const std::string info{std::istreambuf_iterator<char>(told), {}};
  CHECK(info == R"({"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", )"
                R"("spec": {"interactive": false, "cluster": {"server": "https://10.0.0.1:6443", )"
                R"("certificate-authority-data": "Q0E="}}})");
  // A token of its own is enough.
  const auto own = load_kubeconfig(
      folder.write("own", kubeconfig("x: y", "token: mine, exec: {command: 'false'}")));
  REQUIRE(own);
  CHECK(own->token == "mine");
}

TEST_CASE("config: of several files in KUBECONFIG the first that names something counts",
          "[kube]") {
  const Folder folder;
  const std::string first = folder.write("first",
                                         "current-context: two\nusers:\n"
                                         "- {name: nobody, user: {tokenFile: here}}\n");
  const std::string second = folder.write("second", kubeconfig("x: y", "token: t"));
  const Variable variable("KUBECONFIG", first + ":" + folder.path() + "/none:" + second);
  const auto config = load_kubeconfig("");
  REQUIRE(config);
  CHECK(config->server == "https://10.0.0.1:6443");
  CHECK(config->token_file == folder.path() + "/here");
  CHECK(load_kubeconfig("", "one")->token == "t");
  const auto missing = load_kubeconfig("", "three");
  REQUIRE(!missing);
  CHECK(missing.error().message == first + ":" + second + " has no context named \"three\"");
  const Variable nowhere("KUBECONFIG", folder.path() + "/a:" + folder.path() + "/b");
  CHECK(load_kubeconfig("").error().message == "no file of KUBECONFIG is there");
}

TEST_CASE("config: what Pawl does not support is refused by name", "[kube]") {
  struct Row {
    const char* cluster;
    const char* user;
    const char* says;
  };
  const Row rows[] = {
      {"insecure-skip-tls-verify: true", "token: a", "insecure-skip-tls-verify is not supported"},
      {"proxy-url: 'http://x'", "token: a", "proxy-url is not supported"},
      {"x: y", "exec: {command: no-such-plugin, installHint: install it}",
       "credential plugin no-such-plugin: cannot start it: errno 2 (No such file or directory); "
       "install it"},
      {"x: y", "exec: {command: 'false'}", "credential plugin false: it exited with 1"},
      {"x: y", "exec: {command: echo, args: ['{}']}", "neither a token nor a certificate"},
      {"x: y", "exec: {args: [a]}", "exec has no command"},
      {"x: y", "auth-provider: {name: gcp}", "auth-provider is no longer supported"},
      {"x: y", "username: a, password: b", "username and password"},
      {"x: y", "client-certificate-data: Q0E=", "belong together"},
      {"certificate-authority-data: '*'", "token: a", "not base64"},
      {"certificate-authority: missing.pem", "token: a", "missing.pem"},
  };
  const Folder folder;
  for (const Row& row : rows) {
    CAPTURE(row.says);
    const auto config = load_kubeconfig(folder.write("config", kubeconfig(row.cluster, row.user)));
    REQUIRE(!config);
    CHECK(config.error().message.find(row.says) != std::string::npos);
  }
  CHECK(load_kubeconfig(
      folder.write("a", kubeconfig("insecure-skip-tls-verify: false", "token: a"))));
}

TEST_CASE("config: broken kubeconfigs end in an error that names the file", "[kube]") {
  const Folder folder;
  for (const char* text :
       {"", "a: [", "- 1", "current-context: x", "{}", "contexts: 5\ncurrent-context: x",
        "current-context: x\ncontexts: [{name: x, context: {cluster: gone}}]"}) {
    CAPTURE(text);
    const auto config = load_kubeconfig(folder.write("config", text));
    REQUIRE(!config);
    CHECK(config.error().code == Code::kInvalid);
    CHECK(config.error().message.find("config") != std::string::npos);
  }
  CHECK(load_kubeconfig(folder.path() + "/none").error().code == Code::kIo);
  CHECK(load_kubeconfig(folder.write("config", kubeconfig("a: b", "token: a")), "three")
            .error()
            .code == Code::kInvalid);
}

TEST_CASE("config: in a pod the service's address and the mounted files count", "[kube]") {
  const Folder folder;
  const std::string token = folder.write("token", "t");
  const std::string ca = folder.write("ca.crt", "CA");
  const Variable host("KUBERNETES_SERVICE_HOST", "10.1.0.1");
  const Variable port("KUBERNETES_SERVICE_PORT", "443");
  const auto config = in_cluster_config(token, ca);
  REQUIRE(config);
  CHECK(config->server == "https://10.1.0.1:443");
  CHECK(config->token_file == token);
  CHECK(config->ca_data == "CA");
  CHECK(in_cluster_config(folder.path() + "/none", ca).error().code == Code::kIo);
  const Variable ipv6("KUBERNETES_SERVICE_HOST", "fd00::1");
  CHECK(in_cluster_config(token, ca)->server == "https://kubernetes.default.svc:443");
  const Variable none("KUBERNETES_SERVICE_HOST", "");
  CHECK(in_cluster_config(token, ca).error().code == Code::kInvalid);
}
