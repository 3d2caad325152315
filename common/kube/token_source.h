// The bearer token of each request: fixed, or from a file that rotates and is read again at most
// every 10 s, and after the server has refused it. One owner at a time.
#pragma once

#include <optional>
#include <string>

#include "common/base/clock.h"
#include "common/kube/config.h"

namespace pawl::kube {

class TokenSource {
 public:
  TokenSource(const ClusterConfig& config, const Clock& clock);

  // The value of the Authorization header; empty without a token. While the file cannot be read the
  // last token stands.
  std::string authorization();
  // The server answered 401: the next call reads the file again.
  void refused() { read_at_.reset(); }

 private:
  const Clock& clock_;
  std::string token_;
  std::string file_;
  std::optional<SteadyPoint> read_at_;
};

}  // namespace pawl::kube
