#include "common/kube/config.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <sstream>
#include <vector>

#include "common/os/fd.h"
#include "common/os/process.h"
#include "common/os/run_program.h"

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

std::string yaml_text(const YAML::Node& node, const char* key) {
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

std::string to_base64(const std::string& data) {
  constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  std::uint32_t bits = 0;
  int count = 0;
  for (const char c : data) {
    bits = (bits << 8) | static_cast<unsigned char>(c);
    for (count += 8; count >= 6; count -= 6) out += kDigits[(bits >> (count - 6)) & 63];
  }
  if (count > 0) out += kDigits[(bits << (6 - count)) & 63];
  while (out.size() % 4 != 0) out += '=';
  return out;
}

// One entry of a list, and the folder that relative paths in it are relative to.
struct Entry {
  YAML::Node node;
  std::string path;  // of its file

  std::string beside(const std::string& file) const {
    const std::size_t slash = path.rfind('/');
    return file.front() == '/' || slash == std::string::npos ? file
                                                             : path.substr(0, slash + 1) + file;
  }
};

// Kubeconfig files that have been parsed, and how their entries are read: of each name the first
// counts, as in kubectl.
class Kubeconfig {
 public:
  explicit Kubeconfig(std::vector<Entry> files) : files_(std::move(files)) {}
  Result<ClusterConfig> read(const std::string& context_name) const;

 private:
  Result<Entry> named(const char* list, const char* entry, const std::string& name) const;
  std::string current_context() const;
  std::string paths() const;

  const std::vector<Entry> files_;
};

Result<Entry> Kubeconfig::named(const char* list, const char* entry,
                                const std::string& name) const {
  for (const Entry& file : files_) {
    const YAML::Node items = file.node[list];
    if (!items || !items.IsSequence()) continue;
    for (const YAML::Node& item : items) {
      if (yaml_text(item, "name") == name && item[entry] && item[entry].IsMap()) {
        return Entry{item[entry], file.path};
      }
    }
  }
  return fail(Code::kInvalid, paths() + " has no " + entry + " named \"" + name + "\"");
}

std::string Kubeconfig::current_context() const {
  for (const Entry& file : files_) {
    const std::string name = yaml_text(file.node, "current-context");
    if (!name.empty()) return name;
  }
  return "";
}

std::string Kubeconfig::paths() const {
  std::string text;
  for (const Entry& file : files_) text += (text.empty() ? "" : ":") + file.path;
  return text;
}

// "<key>-data" wins over "<key>", as in kubectl.
Result<std::string> data_or_file(const Entry& entry, const char* key) {
  const std::string data_key = std::string{key} + "-data";
  const std::string data = yaml_text(entry.node, data_key.c_str());
  if (!data.empty()) {
    auto decoded = from_base64(data);
    if (!decoded) return fail_with(std::move(decoded).error(), entry.path + ": " + data_key);
    return decoded;
  }
  const std::string file = yaml_text(entry.node, key);
  return file.empty() ? Result<std::string>{std::string{}} : read_text(entry.beside(file));
}

Status read_cluster(const Entry& cluster, ClusterConfig& config) {
  config.server = yaml_text(cluster.node, "server");
  if (config.server.empty()) {
    return fail(Code::kInvalid, cluster.path + ": the cluster has no server");
  }
  if (is_true(cluster.node, "insecure-skip-tls-verify")) {
    return fail(Code::kInvalid,
                cluster.path +
                    ": insecure-skip-tls-verify is not supported, Pawl always verifies the "
                    "server; set certificate-authority instead");
  }
  for (const char* key : {"proxy-url", "tls-server-name"}) {
    if (!yaml_text(cluster.node, key).empty()) {
      return fail(Code::kInvalid, cluster.path + ": " + key + " is not supported");
    }
  }
  PAWL_TRY(ca_data, data_or_file(cluster, "certificate-authority"));
  config.ca_data = std::move(ca_data);
  return {};
}

std::vector<std::string> texts_at(const YAML::Node& node, const char* key) {
  std::vector<std::string> texts;
  if (!node[key] || !node[key].IsSequence()) return texts;
  for (const YAML::Node& item : node[key]) texts.push_back(item.as<std::string>());
  return texts;
}

// What a plugin is told (KUBERNETES_EXEC_INFO). JSON is YAML, and YAML's quoted strings are JSON's.
std::string exec_info(const YAML::Node& exec, const ClusterConfig& config) {
  YAML::Emitter out;
  out.SetMapFormat(YAML::Flow);
  out.SetStringFormat(YAML::DoubleQuoted);
  out << YAML::BeginMap << YAML::Key << "apiVersion" << YAML::Value << yaml_text(exec, "apiVersion")
      << YAML::Key << "kind" << YAML::Value << "ExecCredential" << YAML::Key << "spec"
      << YAML::Value << YAML::BeginMap << YAML::Key << "interactive" << YAML::Value << false;
  if (is_true(exec, "provideClusterInfo")) {
    out << YAML::Key << "cluster" << YAML::Value << YAML::BeginMap << YAML::Key << "server"
        << YAML::Value << config.server << YAML::Key << "certificate-authority-data" << YAML::Value
        << to_base64(config.ca_data) << YAML::EndMap;
  }
  out << YAML::EndMap << YAML::EndMap;
  return out.c_str();
}

// Asks a credential plugin of client.authentication.k8s.io (aws, gke-gcloud-auth-plugin,
// kubelogin), once: what it gives lasts for minutes to hours.
Status ask_plugin(const Entry& user, ClusterConfig& config) {
  const YAML::Node exec = user.node["exec"];
  const std::string command = yaml_text(exec, "command");
  if (command.empty()) return fail(Code::kInvalid, user.path + ": exec has no command");
  // A path with a slash is relative to the kubeconfig, a name is looked for in PATH.
  const bool is_path = command.find('/') != std::string::npos;
  std::vector<std::string> arguments{is_path ? user.beside(command) : command};
  for (std::string& text : texts_at(exec, "args")) arguments.push_back(std::move(text));
  std::map<std::string, std::string> extra{{"KUBERNETES_EXEC_INFO", exec_info(exec, config)}};
  if (exec["env"] && exec["env"].IsSequence()) {
    for (const YAML::Node& item : exec["env"])
      extra[yaml_text(item, "name")] = yaml_text(item, "value");
  }
  const std::string what = user.path + ": credential plugin " + command;
  const auto answer = os::output_of(arguments, extra);
  if (!answer) {
    const std::string hint = yaml_text(exec, "installHint");
    return fail(answer.error().code,
                what + ": " + answer.error().message + (hint.empty() ? "" : "; " + hint));
  }
  const YAML::Node status = YAML::Load(*answer)["status"];
  config.token = yaml_text(status, "token");
  config.client_cert_data = yaml_text(status, "clientCertificateData");
  config.client_key_data = yaml_text(status, "clientKeyData");
  if (config.token.empty() && config.client_cert_data.empty()) {
    return fail(Code::kInvalid, what + " gave neither a token nor a certificate");
  }
  return {};
}

Status read_user(const Entry& user, ClusterConfig& config) {
  if (user.node["auth-provider"]) {
    return fail(Code::kInvalid,
                user.path +
                    ": auth-provider is no longer supported by Kubernetes; use a credential "
                    "plugin (exec), a token, a tokenFile or a client certificate");
  }
  if (!yaml_text(user.node, "username").empty()) {
    return fail(Code::kInvalid, user.path + ": username and password are not supported");
  }
  PAWL_TRY(certificate, data_or_file(user, "client-certificate"));
  PAWL_TRY(key, data_or_file(user, "client-key"));
  if (certificate.empty() != key.empty()) {
    return fail(Code::kInvalid, user.path + ": client-certificate and client-key belong together");
  }
  config.client_cert_data = std::move(certificate);
  config.client_key_data = std::move(key);
  // tokenFile wins, as in kubectl.
  const std::string token_file = yaml_text(user.node, "tokenFile");
  if (!token_file.empty()) {
    config.token_file = user.beside(token_file);
  } else {
    config.token = yaml_text(user.node, "token");
  }
  const bool has_own =
      !config.token.empty() || !config.token_file.empty() || !config.client_cert_data.empty();
  if (user.node["exec"] && !has_own) return ask_plugin(user, config);
  return {};
}

Result<ClusterConfig> Kubeconfig::read(const std::string& context_name) const {
  const std::string name = context_name.empty() ? current_context() : context_name;
  if (name.empty()) return fail(Code::kInvalid, paths() + " has no current-context");
  PAWL_TRY(context, named("contexts", "context", name));
  PAWL_TRY(cluster, named("clusters", "cluster", yaml_text(context.node, "cluster")));
  ClusterConfig config;
  config.ns = yaml_text(context.node, "namespace");
  if (config.ns.empty()) config.ns = "default";
  PAWL_TRY_VOID(read_cluster(cluster, config));
  const std::string user_name = yaml_text(context.node, "user");
  if (!user_name.empty()) {
    PAWL_TRY(user, named("users", "user", user_name));
    PAWL_TRY_VOID(read_user(user, config));
  }
  return config;
}

// Of several files in KUBECONFIG those that are there count.
Result<std::vector<std::string>> default_paths() {
  std::vector<std::string> paths;
  const auto from_environment = os::env("KUBECONFIG");
  if (from_environment && !from_environment->empty()) {
    std::istringstream list(*from_environment);
    const bool is_list = from_environment->find(':') != std::string::npos;
    for (std::string path; std::getline(list, path, ':');) {
      if (!path.empty() && (!is_list || std::ifstream(path))) paths.push_back(path);
    }
    if (paths.empty()) return fail(Code::kInvalid, "no file of KUBECONFIG is there");
    return paths;
  }
  const auto home = os::env("HOME");
  if (!home) return fail(Code::kInvalid, "neither KUBECONFIG nor HOME is set");
  paths.push_back(*home + "/.kube/config");
  return paths;
}

// yaml-cpp throws; this is the one place that lets it.
Result<ClusterConfig> load(const std::vector<std::string>& paths, const std::string& context) {
  std::vector<Entry> files;
  std::string present;
  try {
    for (const std::string& path : paths) {
      present = path;
      PAWL_TRY(text, read_text(path));
      files.push_back({YAML::Load(text), path});
      if (!files.back().node.IsMap()) return fail(Code::kInvalid, path + " is not a kubeconfig");
    }
    return Kubeconfig{std::move(files)}.read(context);
  } catch (const YAML::Exception& error) {
    return fail(Code::kInvalid, present + " is not valid YAML: " + error.what());
  }
}

}  // namespace

Result<ClusterConfig> load_kubeconfig(const std::string& path, const std::string& context) {
  if (!path.empty()) return load({path}, context);
  PAWL_TRY(paths, default_paths());
  return load(paths, context);
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
