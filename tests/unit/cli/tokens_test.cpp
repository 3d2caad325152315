#include "cli/local/tokens.h"
#include "common/base/json.h"

#include <catch2/catch_test_macros.hpp>

using namespace pawl;
using namespace pawl::local;

namespace {
const TimePoint kNow{std::chrono::seconds{1'800'000'000}};
const TokenClaims kClaims{kApiAudience, "ns",      "pod-0",
                          "uid-0",      "account", kNow + std::chrono::hours{1}};
}  // namespace

TEST_CASE("tokens: what was minted here is verified with its claims", "[cli]") {
  const auto authority = TokenAuthority::create().value();
  const std::string token = authority->mint(kClaims, kNow).value();
  const auto claims = authority->verify(token, kApiAudience, kNow);
  REQUIRE(claims.has_value());
  CHECK(claims->pod_uid == "uid-0");
  CHECK(claims->pod_name == "pod-0");
  CHECK(claims->ns == "ns");
  CHECK(claims->service_account == "account");
}

TEST_CASE("tokens: forged, foreign, late and misdirected ones are refused", "[cli]") {
  const auto authority = TokenAuthority::create().value();
  const auto stranger = TokenAuthority::create().value();
  const std::string token = authority->mint(kClaims, kNow).value();
  const auto first = token.find('.'), second = token.rfind('.');
  std::string other_payload = token;
  other_payload[first + 10] = other_payload[first + 10] == 'A' ? 'B' : 'A';
  std::string other_signature = token;
  other_signature[second + 5] = other_signature[second + 5] == 'A' ? 'B' : 'A';
  // {"alg":"none"}
  const std::string unsigned_token =
      "eyJhbGciOiJub25lIn0" + token.substr(first, second - first + 1);
  struct Case {
    const char* what;
    std::string token;
    const char* audience;
    TimePoint now;
  };
  const std::vector<Case> cases = {
      {"another authority", stranger->mint(kClaims, kNow).value(), kApiAudience, kNow},
      {"changed payload", other_payload, kApiAudience, kNow},
      {"changed signature", other_signature, kApiAudience, kNow},
      {"no signature", token.substr(0, second + 1), kApiAudience, kNow},
      {"algorithm none", unsigned_token, kApiAudience, kNow},
      {"another audience", token, "pawl-launcher", kNow},
      {"late", token, kApiAudience, kNow + std::chrono::hours{1}},
      {"empty", "", kApiAudience, kNow},
      {"dots", "..", kApiAudience, kNow},
      {"not base64", "%.%.%", kApiAudience, kNow},
  };
  for (const Case& one : cases) {
    INFO(one.what);
    const auto claims = authority->verify(one.token, one.audience, one.now);
    REQUIRE_FALSE(claims.has_value());
    CHECK(claims.error().code == Code::kForbidden);
  }
}

TEST_CASE("tokens: the key set holds the public key alone", "[cli]") {
  const auto authority = TokenAuthority::create().value();
  const auto keys = parse_json(authority->jwks())["keys"];
  REQUIRE(keys.size() == 1);
  CHECK(keys[0]["kty"] == "EC");
  CHECK(keys[0]["crv"] == "P-256");
  CHECK(keys[0]["x"].get<std::string>().size() == 43);
  CHECK(keys[0]["y"].get<std::string>().size() == 43);
  CHECK_FALSE(keys[0].contains("d"));
}
