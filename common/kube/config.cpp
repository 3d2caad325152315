#include "common/kube/config.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "common/os/fd.h"
#include "common/os/process.h"

namespace pawl::kube {
namespace {

constexpr char kServiceAccountFolder[] = "/var/run/secrets/kubernetes.io/serviceaccount";

Result<std::string> read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return fail(Code::kIo, "cannot open " + path + ": " + os::errno_text());
  std::ostringstream text;
  text << file.rdbuf();
  if (!file) return fail(Code::kIo, "cannot read " + path + ": " + os::errno_text());
  return text.str();
}

std::string trimmed(const std::string& text) {
  const char* const blank = " \t\r\n";
  const std::size_t first = text.find_first_not_of(blank);
  if (first == std::string::npos) return "";
  return text.substr(first, text.find_last_not_of(blank) - first + 1);
}

std::string text_at(const YAML::Node& node, const char* key) {
  return node.IsMap() && node[key] && node[key].IsScalar() ? node[key].as<std::string>() : "";
}

bool is_true(const YAML::Node& node, const char* key) {
  return node.IsMap() && node[key] && node[key].IsScalar() && node[key].as<bool>(true);
}

// Standard base64, as kubeconfig holds PEM texts.
Result<std::string> from_base64(const std::string& text) {
  std::string out;
  std::uint32_t bits = 0;
  int count = 0;
  for (const char c : text) {
    if (c == '=' || c == '\n' || c == '\r' || c == ' ') continue;
    const int value = c >= 'A' && c <= 'Z'   ? c - 'A'
                      : c >= 'a' && c <= 'z' ? c - 'a' + 26
                      : c >= '0' && c <= '9' ? c - '0' + 52
                      : c == '+'             ? 62
                      : c == '/'             ? 63
                                             : -1;
    if (value < 0) return fail(Code::kInvalid, "not base64");
    bits = (bits << 6) | static_cast<std::uint32_t>(value);
    count += 6;
    if (count >= 8) {
      count -= 8;
      out += static_cast<char>((bits >> count) & 0xff);
    }
  }
  return out;
}

// One kubeconfig file that has been parsed, and how its entries are read.
class Kubeconfig {
 public:
  Kubeconfig(YAML::Node root, std::string path) : root_(std::move(root)), path_(std::move(path)) {}

  Result<ClusterConfig> read(const std::string& context_name) const;

 private:
  Result<YAML::Node> named(const char* list, const char* entry, const std::string& name) const;
  Result<std::string> data_or_file(const YAML::Node& node, const char* key) const;
  Status read_cluster(const YAML::Node& cluster, ClusterConfig& config) const;
  Status read_user(const YAML::Node& user, ClusterConfig& config) const;
  // Relative paths in a kubeconfig are relative to the file that holds them.
  std::string beside(const std::string& path) const {
    const std::size_t slash = path_.rfind('/');
    return path.front() == '/' || slash == std::string::npos ? path
                                                             : path_.substr(0, slash + 1) + path;
  }

  YAML::Node root_;
  std::string path_;
};

Result<YAML::Node> Kubeconfig::named(const char* list, const char* entry,
                                     const std::string& name) const {
  if (root_[list] && root_[list].IsSequence()) {
    for (const YAML::Node& item : root_[list]) {
      if (text_at(item, "name") == name && item[entry] && item[entry].IsMap()) return item[entry];
    }
  }
  return fail(Code::kInvalid, path_ + " has no " + entry + " named \"" + name + "\"");
}

// "<key>-data" wins over "<key>", as in kubectl.
Result<std::string> Kubeconfig::data_or_file(const YAML::Node& node, const char* key) const {
  const std::string data_key = std::string{key} + "-data";
  const std::string data = text_at(node, data_key.c_str());
  if (!data.empty()) {
    auto decoded = from_base64(data);
    if (!decoded) return fail_with(std::move(decoded).error(), path_ + ": " + data_key);
    return decoded;
  }
  const std::string file = text_at(node, key);
  return file.empty() ? Result<std::string>{std::string{}} : read_text(beside(file));
}

Status Kubeconfig::read_cluster(const YAML::Node& cluster, ClusterConfig& config) const {
  config.server = text_at(cluster, "server");
  if (config.server.empty()) {
    return fail(Code::kInvalid, path_ + ": the cluster has no server");
  }
  if (is_true(cluster, "insecure-skip-tls-verify")) {
    return fail(Code::kInvalid,
                path_ +
                    ": insecure-skip-tls-verify is not supported, Pawl always verifies the "
                    "server; set certificate-authority instead");
  }
  for (const char* key : {"proxy-url", "tls-server-name"}) {
    if (!text_at(cluster, key).empty()) {
      return fail(Code::kInvalid, path_ + ": " + key + " is not supported");
    }
  }
  PAWL_TRY(ca_data, data_or_file(cluster, "certificate-authority"));
  config.ca_data = std::move(ca_data);
  return {};
}

Status Kubeconfig::read_user(const YAML::Node& user, ClusterConfig& config) const {
  for (const char* key : {"exec", "auth-provider"}) {
    if (user[key]) {
      return fail(Code::kInvalid,
                  path_ + ": users with a credential plugin (" + key +
                      ") are not supported; use a token, a tokenFile or a client certificate");
    }
  }
  if (!text_at(user, "username").empty()) {
    return fail(Code::kInvalid, path_ + ": username and password are not supported");
  }
  PAWL_TRY(certificate, data_or_file(user, "client-certificate"));
  PAWL_TRY(key, data_or_file(user, "client-key"));
  if (certificate.empty() != key.empty()) {
    return fail(Code::kInvalid, path_ + ": client-certificate and client-key belong together");
  }
  config.client_cert_data = std::move(certificate);
  config.client_key_data = std::move(key);
  // tokenFile wins, as in kubectl.
  const std::string token_file = text_at(user, "tokenFile");
  if (!token_file.empty()) {
    config.token_file = beside(token_file);
  } else {
    config.token = text_at(user, "token");
  }
  return {};
}

Result<ClusterConfig> Kubeconfig::read(const std::string& context_name) const {
  if (!root_.IsMap()) return fail(Code::kInvalid, path_ + " is not a kubeconfig");
  const std::string name = context_name.empty() ? text_at(root_, "current-context") : context_name;
  if (name.empty()) return fail(Code::kInvalid, path_ + " has no current-context");
  PAWL_TRY(context, named("contexts", "context", name));
  PAWL_TRY(cluster, named("clusters", "cluster", text_at(context, "cluster")));
  ClusterConfig config;
  config.ns = text_at(context, "namespace");
  if (config.ns.empty()) config.ns = "default";
  PAWL_TRY_VOID(read_cluster(cluster, config));
  const std::string user_name = text_at(context, "user");
  if (!user_name.empty()) {
    PAWL_TRY(user, named("users", "user", user_name));
    PAWL_TRY_VOID(read_user(user, config));
  }
  return config;
}

Result<std::string> default_path() {
  const auto from_environment = os::env("KUBECONFIG");
  if (from_environment && !from_environment->empty()) {
    if (from_environment->find(':') != std::string::npos) {
      return fail(Code::kInvalid, "KUBECONFIG names several files; Pawl reads one");
    }
    return *from_environment;
  }
  const auto home = os::env("HOME");
  if (!home) return fail(Code::kInvalid, "neither KUBECONFIG nor HOME is set");
  return *home + "/.kube/config";
}

}  // namespace

Result<ClusterConfig> load_kubeconfig(const std::string& path, const std::string& context) {
  std::string file = path;
  if (file.empty()) {
    PAWL_TRY(found, default_path());
    file = std::move(found);
  }
  PAWL_TRY(text, read_text(file));
  // yaml-cpp throws; this is the one place that lets it.
  try {
    return Kubeconfig{YAML::Load(text), file}.read(context);
  } catch (const YAML::Exception& error) {
    return fail(Code::kInvalid, file + " is not valid YAML: " + error.what());
  }
}

Result<ClusterConfig> in_cluster_config(const std::string& token_file, const std::string& ca_file) {
  const auto host = os::env("KUBERNETES_SERVICE_HOST");
  const auto port = os::env("KUBERNETES_SERVICE_PORT");
  if (!host || host->empty() || !port || port->empty()) {
    return fail(
        Code::kInvalid,
        "not in a cluster: KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set");
  }
  const std::string folder = kServiceAccountFolder;
  ClusterConfig config;
  // cpprestsdk cannot connect to an IPv6 literal, and the server's certificate always has this
  // name.
  const bool is_ipv6 = host->find(':') != std::string::npos;
  config.server = "https://" + (is_ipv6 ? "kubernetes.default.svc" : *host) + ":" + *port;
  config.token_file = token_file.empty() ? folder + "/token" : token_file;
  PAWL_TRY(ca_data, read_text(ca_file.empty() ? folder + "/ca.crt" : ca_file));
  config.ca_data = std::move(ca_data);
  if (auto token = read_text(config.token_file); !token) {
    return tl::make_unexpected(std::move(token).error());
  }
  const auto ns = read_text(folder + "/namespace");
  config.ns = ns ? trimmed(*ns) : "default";
  return config;
}

}  // namespace pawl::kube
