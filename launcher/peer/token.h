// Is this service-account token the one of that pod? Signature by the cluster's public keys (JWKS
// of the API server's issuer), audience, times, namespace and pod UID. Pure but for OpenSSL's
// arithmetic; any thread.
#pragma once

#include <map>
#include <string>

#include "common/base/clock.h"
#include "common/base/result.h"
#include "launcher/peer/certificate.h"

namespace pawl::launcher {

// The public keys by key id. RSA (RS256) and P-256 (ES256); others are skipped.
class KeySet {
 public:
  KeySet() = default;
  static Result<KeySet> parse(const std::string& jwks_json);
  EVP_PKEY* find(const std::string& kid) const;
  std::size_t size() const { return keys_.size(); }

 private:
  std::map<std::string, Openssl<EVP_PKEY>> keys_;
};

struct TokenExpectation {
  std::string audience, ns, pod_uid;
};

// NotFound: signed by a key that the set does not hold (fetch the keys again, once). Forbidden:
// anything else that is wrong with it; the message says what, and never quotes the token.
Status verify_token(const std::string& token, const KeySet& keys, const TokenExpectation& expected,
                    TimePoint now);

}  // namespace pawl::launcher
