// Keys, tokens and a loop for the tests of launcher/peer.
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "common/base/clock.h"
#include "launcher/loop/poller.h"
#include "launcher/peer/certificate.h"

namespace pawl::launcher::test {

// Signs tokens as an API server does, and publishes its key.
class Issuer {
 public:
  enum class Kind { kRsa, kEc };
  Issuer(Kind kind, std::string kid);
  std::string jwks() const;
  std::string sign(const std::string& claims_json, const std::string& algorithm = "") const;

 private:
  Kind kind_;
  std::string kid_;
  Openssl<EVP_PKEY> key_;
};

// Turns the loop until `is_done`, at most 10 s; false when the time is up.
bool run_until(Poller& poller, const std::function<bool()>& is_done);

}  // namespace pawl::launcher::test
