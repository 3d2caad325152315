// Service account tokens of `pawl run`: JSON Web Tokens signed ES256 with a key made at start, with
// the claims of Kubernetes' own projected tokens, so that launchers verify them here as they do in
// a cluster. Immutable after create(); any thread.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/clock.h"
#include "common/base/result.h"

namespace pawl::local {

// The audience of the API itself, as in a cluster.
inline constexpr char kApiAudience[] = "https://kubernetes.default.svc";

struct TokenClaims {
  std::string audience;
  std::string ns, pod_name, pod_uid, service_account;
  TimePoint expiry;
};

class TokenAuthority {
 public:
  static Result<std::unique_ptr<TokenAuthority>> create();
  ~TokenAuthority();

  Result<std::string> mint(const TokenClaims& claims, TimePoint now) const;
  // Forbidden for anything not signed here, for another audience, or too late.
  Result<TokenClaims> verify(std::string_view token, std::string_view audience,
                             TimePoint now) const;
  // The key set that /openid/v1/jwks serves.
  std::string jwks() const;

 private:
  struct Key;
  explicit TokenAuthority(std::unique_ptr<Key> key);
  std::unique_ptr<Key> key_;
};

}  // namespace pawl::local
