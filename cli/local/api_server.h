// The embedded API on 127.0.0.1 for launchers: HTTP in front of the StoreTransport, and the few
// rights a worker pod has in a cluster, enforced the same way. A pod's token may get and watch its
// own job's WorkerGroup and patch its status; everything else is 403, a bad or late token 401.
// /openid/v1/jwks is open, as launchers verify each other with it. Who runs all this may do
// anything, with a token made at start. Public methods from any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "cli/local/store_transport.h"
#include "cli/local/tokens.h"
#include "common/base/clock.h"
#include "common/base/result.h"

namespace pawl::http {
struct Reply;
}

namespace pawl::local {

struct ApiTarget;

struct PodIdentity {
  std::string ns, pod_name, pod_uid, service_account;
  std::string job;  // name of its TrainingJob, hence of its WorkerGroup
};

class ApiServer {
 public:
  static Result<std::unique_ptr<ApiServer>> start(StoreTransport& transport,
                                                  const TokenAuthority& tokens, const Clock& clock);
  ~ApiServer();

  std::string url() const;  // "http://127.0.0.1:40123"
  const std::string& user_token() const;
  // From admit to dismiss a token of this pod is good, as a cluster's is for as long as the pod
  // exists.
  void admit(const PodIdentity& pod);
  void dismiss(const std::string& pod_uid);
  // The kubelet's part, without which there are no logs: answers GET …/pods/NAME/log, on the
  // server's thread. After serve_logs(nullptr) it is not called any more.
  using LogHandler = std::function<void(const ApiTarget&, const http::Reply&)>;
  void serve_logs(LogHandler handler);

 private:
  class Impl;
  explicit ApiServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace pawl::local
