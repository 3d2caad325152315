// The cluster that a command talks to: the options that choose it, the way to it, and reads with
// errors that say in one sentence what to change. Blocking; one thread.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "cli/arguments.h"
#include "common/base/clock.h"
#include "common/kube/requests.h"

namespace pawl::cli {

// -n, -A, --kubeconfig, --context.
std::vector<Flag> cluster_flags();

// Where an error came from, for the sentence about it.
struct Place {
  std::string server;  // "https://10.0.0.1:6443"
  std::string ns;      // "": all
};
// One sentence: what is wrong and what to change. Pure.
std::string explain(const Error& error, const Place& place);

class Connection {
 public:
  // By kubeconfig; inside a pod without one, by its service account.
  static Result<Connection> open(const Arguments& arguments, const Clock& clock);
  // Over a transport that somebody else owns: tests.
  Connection(kube::Transport& transport, Place place, std::string default_ns);

  // The namespace of the command; "" for all of them (-A).
  const std::string& ns() const { return place_.ns; }
  const Place& place() const { return place_; }
  kube::Transport& transport() { return *transport_; }

  // The code of the error is the API server's, its message is a sentence of explain().
  Result<nlohmann::json> get(const kube::Resource& resource, const std::string& name);
  // All pages. `ns` empty: all namespaces.
  Result<std::vector<nlohmann::json>> list(const kube::Resource& resource, const std::string& ns,
                                           const std::string& label_selector = "",
                                           const std::string& field_selector = "");
  // False only if the API server says that there is no such namespace.
  bool has_namespace(const std::string& ns);

 private:
  Result<nlohmann::json> call(const kube::HttpRequest& request);

  std::unique_ptr<kube::Transport> owned_;
  kube::Transport* transport_;
  Place place_;
};

}  // namespace pawl::cli
