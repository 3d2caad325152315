#include "cli/local/pod_process.h"

#include <optional>

#include "cli/local/api_objects.h"
#include "common/api/contract.h"
#include "common/base/json.h"

namespace pawl::local {
namespace {

// A `pawl run` inside of a job must not hand its own rank on.
constexpr const char* kNotInherited[] = {
    "RANK",       "LOCAL_RANK", "WORLD_SIZE",      "LOCAL_WORLD_SIZE",
    "GROUP_RANK", "ROLE_RANK",  "MASTER_ADDR",     "MASTER_PORT",
    "NODE_RANK",  "HOSTNAME",   "ROLE_WORLD_SIZE", "GROUP_WORLD_SIZE"};

using Environment = std::map<std::string, std::string>;

Environment inherited(const PodPlace& place) {
  Environment environment;
  for (const auto& [name, value] : place.environment) {
    if (name.rfind("PAWL_", 0) != 0) environment.emplace(name, value);
  }
  for (const char* name : kNotInherited) environment.erase(name);
  return environment;
}

// "$(NAME)" → its value if it is defined, "$$(NAME)" → "$(NAME)": Kubernetes' rule.
std::string expand(const std::string& text, const Environment& environment) {
  std::string expanded;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '$' || i + 1 >= text.size()) {
      expanded += text[i];
      continue;
    }
    if (text[i + 1] == '$') {
      expanded += '$';
      ++i;
      continue;
    }
    const auto close = text[i + 1] == '(' ? text.find(')', i) : std::string::npos;
    const auto value = close == std::string::npos
                           ? environment.end()
                           : environment.find(text.substr(i + 2, close - i - 2));
    if (value == environment.end()) {
      expanded += '$';
      continue;
    }
    expanded += value->second;
    i = close;
  }
  return expanded;
}

// metadata.labels['x'] and metadata.annotations['x'].
std::optional<std::string> keyed_field(const nlohmann::json& pod, const std::string& path,
                                       const std::string& map) {
  const std::string open = "metadata." + map + "['";
  if (path.rfind(open, 0) != 0 || path.size() < open.size() + 2) return std::nullopt;
  const std::string key = path.substr(open.size(), path.size() - open.size() - 2);
  const auto& meta = pod.at("metadata");
  return meta.contains(map) ? text_of(meta.at(map), key.c_str()) : std::string{};
}

Result<std::string> field_value(const nlohmann::json& pod, const std::string& path) {
  if (path == "metadata.name") return meta_text(pod, "name");
  if (path == "metadata.namespace") return meta_text(pod, "namespace");
  if (path == "metadata.uid") return meta_text(pod, "uid");
  if (path == "spec.nodeName") return text_of(pod.at("spec"), "nodeName");
  if (path == "spec.serviceAccountName") return text_of(pod.at("spec"), "serviceAccountName");
  if (path == "status.podIP" || path == "status.hostIP" || path == "status.podIPs" ||
      path == "status.hostIPs") {
    return std::string{kLocalAddress};
  }
  if (const auto label = keyed_field(pod, path, "labels")) return *label;
  if (const auto annotation = keyed_field(pod, path, "annotations")) return *annotation;
  return fail(Code::kInvalid, "fieldRef \"" + path + "\" is not supported by `pawl run`");
}

Status add_container_environment(const nlohmann::json& pod, const nlohmann::json& container,
                                 Environment& environment) {
  if (container.contains("envFrom") && !container.at("envFrom").empty()) {
    return fail(
        Code::kInvalid,
        "envFrom: there are no ConfigMaps and Secrets in `pawl run`; set the variables by env");
  }
  if (!container.contains("env")) return {};
  for (const auto& entry : container.at("env")) {
    const std::string name = text_of(entry, "name");
    if (!entry.contains("valueFrom")) {
      environment[name] = expand(text_of(entry, "value"), environment);
      continue;
    }
    const auto& source = entry.at("valueFrom");
    if (source.contains("fieldRef")) {
      PAWL_TRY(value, field_value(pod, text_of(source.at("fieldRef"), "fieldPath")));
      environment[name] = value;
      continue;
    }
    for (const char* kind : {"secretKeyRef", "configMapKeyRef"}) {
      if (!source.contains(kind) || source.at(kind).value("optional", false)) continue;
      return fail(Code::kInvalid,
                  "env " + name + ": " + kind + " is not supported by `pawl run`; give it a value");
    }
  }
  return {};
}

}  // namespace

std::string token_file(const PodPlace& place) { return place.folder + "/" + api::kTokenFileName; }
std::string peer_token_file(const PodPlace& place) {
  return place.folder + "/" + api::kPeerTokenFileName;
}
std::string termination_log(const PodPlace& place) { return place.folder + "/termination-log"; }

const nlohmann::json& worker_container(const nlohmann::json& pod) {
  const auto& containers = pod.at("spec").at("containers");
  for (const auto& container : containers) {
    if (text_of(container, "name") == "worker") return container;
  }
  return containers.at(0);
}

Result<ProcessSpec> process_of(const nlohmann::json& pod, const PodPlace& place) {
  const auto& spec = pod.at("spec");
  if (!spec.contains("containers") || spec.at("containers").empty()) {
    return fail(Code::kInvalid, "spec.containers: must have a container");
  }
  if (spec.at("containers").size() > 1) {
    return fail(Code::kInvalid,
                "spec.containers: `pawl run` runs one container a pod; remove the side cars");
  }
  if (spec.contains("initContainers") && !spec.at("initContainers").empty()) {
    return fail(Code::kInvalid, "spec.initContainers: `pawl run` has no containers to run them in");
  }
  const auto& container = worker_container(pod);
  ProcessSpec process;
  process.environment = inherited(place);
  process.environment["HOSTNAME"] = meta_text(pod, "name");
  PAWL_TRY_VOID(add_container_environment(pod, container, process.environment));
  process.environment[api::kEnvPodUid] =
      meta_text(pod, "uid");  // the keeper recognises strays by it
  process.environment[api::kEnvApiServer] = place.api_server;
  process.environment[api::kEnvTokenFile] = token_file(place);
  process.environment[api::kEnvPeerTokenFile] = peer_token_file(place);
  process.environment[api::kEnvTerminationLog] = termination_log(place);
  process.environment[api::kEnvHealthPort] = std::to_string(place.health_port);
  for (const char* part : {"command", "args"}) {
    if (!container.contains(part)) continue;
    for (const auto& word : container.at(part)) {
      process.command.push_back(expand(word.get<std::string>(), process.environment));
    }
  }
  if (process.command.empty()) {
    return fail(Code::kInvalid,
                "spec.containers[0].command: is required, there is no image to take it from");
  }
  process.folder = text_of(container, "workingDir");
  process.log = place.log;
  return process;
}

}  // namespace pawl::local
