#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/ecdsa.h>
#include <openssl/evp.h>
#include <openssl/param_build.h>
#include <optional>
#include <utility>

#include "common/base/json.h"
#include "launcher/peer/token.h"

namespace pawl::launcher {
namespace {

using nlohmann::json;

constexpr std::size_t kTokenBytesMax = 16 * 1024;
constexpr std::chrono::seconds kClockSkew{30};

int value_of(char c) {
  if (c >= 'A' && c <= 'Z') return c - 'A';
  if (c >= 'a' && c <= 'z') return c - 'a' + 26;
  if (c >= '0' && c <= '9') return c - '0' + 52;
  return c == '-' ? 62 : c == '_' ? 63 : -1;
}

std::optional<std::string> from_base64url(std::string_view text) {
  std::string out;
  unsigned bits = 0;
  int count = 0;
  for (const char c : text) {
    const int value = value_of(c);
    if (value < 0) return std::nullopt;
    bits = (bits << 6) | static_cast<unsigned>(value);
    count += 6;
    if (count < 8) continue;
    count -= 8;
    out += static_cast<char>((bits >> count) & 0xff);
  }
  return out;
}

const unsigned char* bytes_of(const std::string& text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

Openssl<EVP_PKEY> key_from(const char* type, OSSL_PARAM_BLD* builder) {
  EVP_PKEY* key = nullptr;
  OSSL_PARAM* params = OSSL_PARAM_BLD_to_param(builder);
  EVP_PKEY_CTX* ctx = EVP_PKEY_CTX_new_from_name(nullptr, type, nullptr);
  if (params != nullptr && ctx != nullptr && EVP_PKEY_fromdata_init(ctx) == 1) {
    EVP_PKEY_fromdata(ctx, &key, EVP_PKEY_PUBLIC_KEY, params);
  }
  EVP_PKEY_CTX_free(ctx);
  OSSL_PARAM_free(params);
  return Openssl<EVP_PKEY>{key};
}

Openssl<EVP_PKEY> rsa_key(const std::string& modulus, const std::string& exponent) {
  BIGNUM* n = BN_bin2bn(bytes_of(modulus), static_cast<int>(modulus.size()), nullptr);
  BIGNUM* e = BN_bin2bn(bytes_of(exponent), static_cast<int>(exponent.size()), nullptr);
  OSSL_PARAM_BLD* builder = OSSL_PARAM_BLD_new();
  OSSL_PARAM_BLD_push_BN(builder, OSSL_PKEY_PARAM_RSA_N, n);
  OSSL_PARAM_BLD_push_BN(builder, OSSL_PKEY_PARAM_RSA_E, e);
  Openssl<EVP_PKEY> key = key_from("RSA", builder);
  OSSL_PARAM_BLD_free(builder);
  BN_free(n);
  BN_free(e);
  return key;
}

Openssl<EVP_PKEY> p256_key(const std::string& x, const std::string& y) {
  if (x.size() != 32 || y.size() != 32) return nullptr;
  const std::string point = "\x04" + x + y;
  OSSL_PARAM_BLD* builder = OSSL_PARAM_BLD_new();
  OSSL_PARAM_BLD_push_utf8_string(builder, OSSL_PKEY_PARAM_GROUP_NAME, "prime256v1", 0);
  OSSL_PARAM_BLD_push_octet_string(builder, OSSL_PKEY_PARAM_PUB_KEY, point.data(), point.size());
  Openssl<EVP_PKEY> key = key_from("EC", builder);
  OSSL_PARAM_BLD_free(builder);
  return key;
}

Openssl<EVP_PKEY> key_of(const json& jwk) {
  const auto part = [&](const char* name) {
    return from_base64url(jwk.value(name, "")).value_or("");
  };
  if (jwk.value("kty", "") == "RSA") return rsa_key(part("n"), part("e"));
  if (jwk.value("kty", "") == "EC" && jwk.value("crv", "") == "P-256")
    return p256_key(part("x"), part("y"));
  return nullptr;
}

// JWS carries r and s side by side, OpenSSL wants them in DER.
std::string der_signature(const std::string& raw) {
  if (raw.size() != 64) return {};
  ECDSA_SIG* signature = ECDSA_SIG_new();
  ECDSA_SIG_set0(signature, BN_bin2bn(bytes_of(raw), 32, nullptr),
                 BN_bin2bn(bytes_of(raw) + 32, 32, nullptr));
  unsigned char* der = nullptr;
  const int length = i2d_ECDSA_SIG(signature, &der);
  std::string text =
      length > 0 ? std::string(reinterpret_cast<char*>(der), static_cast<std::size_t>(length)) : "";
  OPENSSL_free(der);
  ECDSA_SIG_free(signature);
  return text;
}

bool is_signed_by(EVP_PKEY* key, std::string_view algorithm, std::string_view text,
                  std::string signature) {
  const bool is_rsa = algorithm == "RS256" && EVP_PKEY_is_a(key, "RSA") == 1;
  const bool is_ec = algorithm == "ES256" && EVP_PKEY_is_a(key, "EC") == 1;
  if (!is_rsa && !is_ec) return false;
  if (is_ec) signature = der_signature(signature);
  EVP_MD_CTX* ctx = EVP_MD_CTX_new();
  const bool is_good =
      ctx != nullptr && EVP_DigestVerifyInit(ctx, nullptr, EVP_sha256(), nullptr, key) == 1 &&
      EVP_DigestVerify(ctx, bytes_of(signature), signature.size(),
                       reinterpret_cast<const unsigned char*>(text.data()), text.size()) == 1;
  EVP_MD_CTX_free(ctx);
  openssl_error();  // a bad signature leaves entries that are nobody's later failure
  return is_good;
}

Status check_claims(const json& claims, const TokenExpectation& expected, TimePoint now) {
  const json& audience = claims.at("aud");
  bool is_for_us = audience.is_string() && audience == expected.audience;
  if (audience.is_array()) {
    for (const json& one : audience) is_for_us = is_for_us || one == expected.audience;
  }
  if (!is_for_us) return fail(Code::kForbidden, "token: wrong audience");
  const std::chrono::seconds time =
      std::chrono::duration_cast<std::chrono::seconds>(now.time_since_epoch());
  if (std::chrono::seconds{claims.at("exp").get<std::int64_t>()} + kClockSkew < time) {
    return fail(Code::kForbidden, "token: expired");
  }
  if (std::chrono::seconds{claims.value("nbf", std::int64_t{0})} - kClockSkew > time) {
    return fail(Code::kForbidden, "token: not valid yet");
  }
  const json& bound = claims.at("kubernetes.io");
  if (bound.at("namespace") != expected.ns)
    return fail(Code::kForbidden, "token: of another namespace");
  if (bound.at("pod").at("uid") != expected.pod_uid || expected.pod_uid.empty()) {
    return fail(Code::kForbidden, "token: of another pod");
  }
  return {};
}

}  // namespace

Result<KeySet> KeySet::parse(const std::string& jwks_json) {
  try {
    KeySet set;
    const json document = parse_json(jwks_json);
    for (const json& jwk : document.at("keys")) {
      if (auto key = key_of(jwk)) set.keys_[jwk.value("kid", "")] = std::move(key);
    }
    return set;
  } catch (const json::exception& error) {
    return fail(Code::kInvalid, std::string{"the cluster's public keys: "} + error.what());
  }
}

EVP_PKEY* KeySet::find(const std::string& kid) const {
  const auto found = keys_.find(kid);
  return found == keys_.end() ? nullptr : found->second.get();
}

Status verify_token(const std::string& token, const KeySet& keys, const TokenExpectation& expected,
                    TimePoint now) {
  const std::size_t first = token.find('.');
  const std::size_t second = first == std::string::npos ? first : token.find('.', first + 1);
  if (token.size() > kTokenBytesMax || second == std::string::npos)
    return fail(Code::kForbidden, "token: not a JWT");
  const std::string_view view{token};
  const auto header_text = from_base64url(view.substr(0, first));
  const auto claims_text = from_base64url(view.substr(first + 1, second - first - 1));
  const auto signature = from_base64url(view.substr(second + 1));
  if (!header_text || !claims_text || !signature) return fail(Code::kForbidden, "token: not a JWT");
  try {
    const json header = parse_json(*header_text);
    EVP_PKEY* key = keys.find(header.value("kid", ""));
    if (key == nullptr)
      return fail(Code::kNotFound, "token: signed by a key that the cluster does not have");
    // Nothing of the claims is looked at before the signature is good.
    if (!is_signed_by(key, header.value("alg", ""), view.substr(0, second), *signature)) {
      return fail(Code::kForbidden, "token: bad signature");
    }
    return check_claims(parse_json(*claims_text), expected, now);
  } catch (const json::exception&) {
    return fail(Code::kForbidden, "token: a claim is missing or of the wrong type");
  }
}

}  // namespace pawl::launcher
