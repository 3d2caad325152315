// How to reach and authenticate to an API server: from a kubeconfig file or from inside a pod.
// Read once at start; files that rotate (token, certificates) are named here and re-read by the
// transport.
#pragma once

#include <string>

#include "common/base/result.h"

namespace pawl::kube {

struct ClusterConfig {
  std::string server;            // "https://10.0.0.1:6443"; http:// only for loopback addresses
  std::string ca_data;           // PEM; required for https
  std::string client_cert_data;  // PEM, with client_key_data
  std::string client_key_data;
  std::string token;       // a fixed bearer token
  std::string token_file;  // or a file that rotates; re-read at most every 10 s
  std::string ns;          // the context's or the pod's namespace, "default" if none
};

// `path` empty: the files of $KUBECONFIG, else ~/.kube/config. `context` empty: current-context. A
// credential plugin (exec) is run, once; what it gives is not renewed.
Result<ClusterConfig> load_kubeconfig(const std::string& path, const std::string& context = "");
// /var/run/secrets/kubernetes.io/serviceaccount and KUBERNETES_SERVICE_HOST/PORT.
// `token_file`, `ca_file`: other places, empty = the standard ones.
Result<ClusterConfig> in_cluster_config(const std::string& token_file = "",
                                        const std::string& ca_file = "");

}  // namespace pawl::kube
