#include "cli/cluster/connection.h"

#include "common/base/json.h"
#include "common/kube/config.h"
#include "common/kube/cpprest_transport.h"
#include "common/os/process.h"

namespace pawl::cli {
namespace {

const kube::Resource kNamespaces{"", "v1", "namespaces", "Namespace", false};

Result<kube::ClusterConfig> find_config(const Arguments& arguments) {
  const std::string file = arguments.value("--kubeconfig");
  const std::string context = arguments.value("--context");
  auto config = kube::load_kubeconfig(file, context);
  if (config) return config;
  const bool is_default = file.empty() && !os::env("KUBECONFIG");
  if (is_default && context.empty()) {
    if (auto own = kube::in_cluster_config()) return own;
  }
  const bool is_missing = config.error().code == Code::kIo;
  std::string message = config.error().message;
  if (is_missing) {
    message = "no kubeconfig (" + message + "): give one with --kubeconfig FILE or in KUBECONFIG";
  }
  return fail(Code::kInvalid, message);
}

bool mentions(const std::string& text, const char* part) {
  return text.find(part) != std::string::npos;
}

// The embedded API of `pawl run` is gone when the run is.
std::string where_logs_lie(const Place& place) {
  if (!place.server.starts_with("http://127.0.0.1:")) return "";
  return "; after the end of a `pawl run` there are the files in logs/, beside its kubeconfig";
}

std::string where(const Place& place) {
  return place.ns.empty() ? "in all namespaces" : "in namespace " + place.ns;
}

}  // namespace

std::vector<Flag> cluster_flags() {
  return {
      {"--namespace", "-n"}, {"--all-namespaces", "-A", false}, {"--kubeconfig"}, {"--context"}};
}

std::string explain(const Error& error, const Place& place) {
  const std::string& message = error.message;
  // Whatever the code: to an operator a refused token means "try again", to a person it does not.
  if (mentions(message, "Unauthorized") || mentions(message, "was answered 401")) {
    return "the API server " + place.server +
           " does not accept your credentials: renew them, or choose others with --context";
  }
  switch (error.code) {
    case Code::kForbidden:
      return "you may not read this " + where(place) +
             ": ask for the right, or choose another -n (" + message + ")";
    case Code::kNotFound:
      // The server's own sentence names the object; a plain 404 means that it does not know the
      // kind.
      if (mentions(message, "was answered 404")) {
        return "the cluster at " + place.server +
               " does not know TrainingJob: install Pawl there, or choose another cluster with "
               "--context";
      }
      return message;
    case Code::kUnavailable:
      if (mentions(message, "certificate")) {
        return "the API server " + place.server +
               " does not prove to be the kubeconfig's: " + message +
               "; get a fresh kubeconfig, or choose another with --context";
      }
      return "the API server " + place.server + " cannot be reached (" + message +
             "): see that the cluster runs and that the kubeconfig's server is right" +
             where_logs_lie(place);
    case Code::kThrottled:
      return "the API server " + place.server + " is overloaded: try again (" + message + ")";
    default:
      return message;
  }
}

Result<Connection> Connection::open(const Arguments& arguments, const Clock& clock) {
  PAWL_TRY(config, find_config(arguments));
  auto transport = kube::make_transport(config, clock, {"pawl/" PAWL_VERSION, 8});
  if (!transport) return tl::make_unexpected(transport.error());
  std::string ns = arguments.value("--namespace");
  if (ns.empty()) ns = config.ns;
  if (arguments.has("--all-namespaces")) ns.clear();
  Connection connection{**transport, Place{config.server, ""}, ns};
  connection.owned_ = std::move(*transport);
  return connection;
}

Connection::Connection(kube::Transport& transport, Place place, std::string default_ns)
    : transport_(&transport), place_(std::move(place)) {
  place_.ns = std::move(default_ns);
}

Result<nlohmann::json> Connection::call(const kube::HttpRequest& request) {
  auto response = kube::send_and_wait(*transport_, request);
  auto body = response ? kube::read_response(request, *response)
                       : Result<nlohmann::json>{tl::make_unexpected(response.error())};
  if (body) return body;
  return fail(body.error().code, explain(body.error(), place_));
}

Result<nlohmann::json> Connection::get(const kube::Resource& resource, const std::string& name) {
  return call(kube::get_request(resource, place_.ns, name));
}

Result<std::vector<nlohmann::json>> Connection::list(const kube::Resource& resource,
                                                     const std::string& ns,
                                                     const std::string& label_selector,
                                                     const std::string& field_selector) {
  std::vector<nlohmann::json> items;
  kube::ListOptions options;
  options.label_selector = label_selector;
  options.field_selector = field_selector;
  do {
    PAWL_TRY(page, call(kube::list_request(resource, ns, options)));
    // Of a list the API server always sends both; anything else is no list.
    if (!page.is_object() || !page["items"].is_array()) break;
    for (nlohmann::json& item : page["items"]) items.push_back(std::move(item));
    const nlohmann::json& meta = page["metadata"];
    const bool has_more =
        meta.is_object() && meta.contains("continue") && meta["continue"].is_string();
    options.continue_token = has_more ? meta["continue"].get<std::string>() : "";
  } while (!options.continue_token.empty());
  return items;
}

bool Connection::has_namespace(const std::string& ns) {
  const auto found = call(kube::get_request(kNamespaces, "", ns));
  // `pawl run` has no namespaces as objects, and says that it does not know the kind.
  return found || found.error().code != Code::kNotFound ||
         !mentions(found.error().message, "not found");
}

}  // namespace pawl::cli
