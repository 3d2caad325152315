// The production Transport, on cpprestsdk. Pooled keep-alive HTTPS connections, certificates always
// verified against the cluster's CA alone, tokens re-read on rotation, a deadline per request.
// Thread-safe.
#pragma once

#include <memory>

#include "common/base/clock.h"
#include "common/kube/config.h"
#include "common/kube/transport.h"

namespace pawl::kube {

// user_agent: "pawl-operator/0.1.0". At most `concurrency_max` calls at once (streams apart); more
// wait.
struct TransportOptions {
  std::string user_agent;
  int concurrency_max = 32;
};

// Call first thing in main, before any other thread exists: sizes cpprest's pool, keeps the
// system's CA bundle out of it. SSL_CERT_FILE is /dev/null in this process afterwards: other TLS
// clients in it name their CA file, and children get os::environment(), which does not show it.
void initialise_http();

Result<std::unique_ptr<Transport>> make_transport(const ClusterConfig& config, const Clock& clock,
                                                  const TransportOptions& options);

}  // namespace pawl::kube
