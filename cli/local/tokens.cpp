#include "cli/local/tokens.h"

#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/ec.h>
#include <openssl/ecdsa.h>
#include <openssl/evp.h>

#include <array>
#include <optional>

#include "common/base/hash.h"
#include "common/base/json.h"

namespace pawl::local {
namespace {

constexpr char kIssuer[] = "https://kubernetes.default.svc.cluster.local";
constexpr int kCoordinateBytes = 32;  // of P-256

template <auto kFree>
struct Freer {
  template <typename T>
  void operator()(T* pointer) const {
    kFree(pointer);
  }
};
using KeyPointer = std::unique_ptr<EVP_PKEY, Freer<EVP_PKEY_free>>;
using DigestPointer = std::unique_ptr<EVP_MD_CTX, Freer<EVP_MD_CTX_free>>;
using SignaturePointer = std::unique_ptr<ECDSA_SIG, Freer<ECDSA_SIG_free>>;
using NumberPointer = std::unique_ptr<BIGNUM, Freer<BN_free>>;

constexpr std::string_view kBase64Url =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

std::string encode_base64url(std::string_view bytes) {
  std::string text;
  std::uint32_t bits = 0;
  int count = 0;
  for (const char byte : bytes) {
    bits = (bits << 8) | static_cast<unsigned char>(byte);
    count += 8;
    while (count >= 6) {
      count -= 6;
      text += kBase64Url[(bits >> count) & 63];
    }
  }
  if (count > 0) text += kBase64Url[(bits << (6 - count)) & 63];
  return text;
}

std::optional<std::string> decode_base64url(std::string_view text) {
  std::string bytes;
  std::uint32_t bits = 0;
  int count = 0;
  for (const char symbol : text) {
    const auto value = kBase64Url.find(symbol);
    if (value == std::string_view::npos) return std::nullopt;
    bits = (bits << 6) | static_cast<std::uint32_t>(value);
    count += 6;
    if (count >= 8) {
      count -= 8;
      bytes += static_cast<char>((bits >> count) & 255);
    }
  }
  return bytes;
}

const unsigned char* bytes_of(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

// JWS wants r and s side by side (RFC 7518 §3.4); OpenSSL speaks DER.
Result<std::string> sign(EVP_PKEY* key, std::string_view text) {
  const DigestPointer digest{EVP_MD_CTX_new()};
  std::size_t length = 0;
  std::string der;
  const bool is_started =
      digest && EVP_DigestSignInit(digest.get(), nullptr, EVP_sha256(), nullptr, key) == 1 &&
      EVP_DigestSign(digest.get(), nullptr, &length, bytes_of(text), text.size()) == 1;
  der.resize(length);
  if (!is_started || EVP_DigestSign(digest.get(), reinterpret_cast<unsigned char*>(der.data()),
                                    &length, bytes_of(text), text.size()) != 1) {
    return fail(Code::kIo, "OpenSSL could not sign a token");
  }
  const unsigned char* cursor = bytes_of(der);
  const SignaturePointer signature{d2i_ECDSA_SIG(nullptr, &cursor, static_cast<long>(length))};
  std::string pair(2 * kCoordinateBytes, '\0');
  auto* out = reinterpret_cast<unsigned char*>(pair.data());
  if (!signature || BN_bn2binpad(ECDSA_SIG_get0_r(signature.get()), out, kCoordinateBytes) < 0 ||
      BN_bn2binpad(ECDSA_SIG_get0_s(signature.get()), out + kCoordinateBytes, kCoordinateBytes) <
          0) {
    return fail(Code::kIo, "OpenSSL gave an unusable signature");
  }
  return pair;
}

bool is_signed_by(EVP_PKEY* key, std::string_view text, std::string_view pair) {
  if (pair.size() != 2 * kCoordinateBytes) return false;
  const SignaturePointer signature{ECDSA_SIG_new()};
  NumberPointer r{BN_bin2bn(bytes_of(pair), kCoordinateBytes, nullptr)};
  NumberPointer s{BN_bin2bn(bytes_of(pair.substr(kCoordinateBytes)), kCoordinateBytes, nullptr)};
  if (!signature || !r || !s || ECDSA_SIG_set0(signature.get(), r.get(), s.get()) != 1)
    return false;
  static_cast<void>(r.release());  // the signature owns them now
  static_cast<void>(s.release());
  unsigned char* der = nullptr;
  const int length = i2d_ECDSA_SIG(signature.get(), &der);
  if (length <= 0) return false;
  const DigestPointer digest{EVP_MD_CTX_new()};
  const bool is_good =
      digest && EVP_DigestVerifyInit(digest.get(), nullptr, EVP_sha256(), nullptr, key) == 1 &&
      EVP_DigestVerify(digest.get(), der, static_cast<std::size_t>(length), bytes_of(text),
                       text.size()) == 1;
  OPENSSL_free(der);
  return is_good;
}

std::string coordinate_of(EVP_PKEY* key, const char* name) {
  BIGNUM* raw = nullptr;
  EVP_PKEY_get_bn_param(key, name, &raw);
  const NumberPointer number{raw};
  std::string bytes(kCoordinateBytes, '\0');
  BN_bn2binpad(number.get(), reinterpret_cast<unsigned char*>(bytes.data()), kCoordinateBytes);
  return encode_base64url(bytes);
}

std::int64_t seconds_of(TimePoint time) {
  return std::chrono::floor<std::chrono::seconds>(time).time_since_epoch().count();
}

TokenClaims claims_of(const nlohmann::json& payload) {
  const auto& kubernetes = payload.at("kubernetes.io");
  TokenClaims claims;
  claims.audience = payload.at("aud").at(0).get<std::string>();
  claims.ns = kubernetes.at("namespace").get<std::string>();
  claims.pod_name = kubernetes.at("pod").at("name").get<std::string>();
  claims.pod_uid = kubernetes.at("pod").at("uid").get<std::string>();
  claims.service_account = kubernetes.at("serviceaccount").at("name").get<std::string>();
  claims.expiry = TimePoint{std::chrono::seconds{payload.at("exp").get<std::int64_t>()}};
  return claims;
}

}  // namespace

struct TokenAuthority::Key {
  KeyPointer key;
  std::string x, y, id;
};

TokenAuthority::TokenAuthority(std::unique_ptr<Key> key) : key_(std::move(key)) {}
TokenAuthority::~TokenAuthority() = default;

Result<std::unique_ptr<TokenAuthority>> TokenAuthority::create() {
  auto key = std::make_unique<Key>();
  key->key.reset(EVP_EC_gen("P-256"));
  if (!key->key) return fail(Code::kIo, "OpenSSL could not make a P-256 key");
  key->x = coordinate_of(key->key.get(), OSSL_PKEY_PARAM_EC_PUB_X);
  key->y = coordinate_of(key->key.get(), OSSL_PKEY_PARAM_EC_PUB_Y);
  key->id = sha256_hex(key->x + "." + key->y).substr(0, 16);
  return std::unique_ptr<TokenAuthority>{new TokenAuthority{std::move(key)}};
}

Result<std::string> TokenAuthority::mint(const TokenClaims& claims, TimePoint now) const {
  const nlohmann::json header = {{"alg", "ES256"}, {"kid", key_->id}, {"typ", "JWT"}};
  const nlohmann::json payload = {
      {"aud", {claims.audience}},
      {"exp", seconds_of(claims.expiry)},
      {"iat", seconds_of(now)},
      {"nbf", seconds_of(now)},
      {"iss", kIssuer},
      {"sub", "system:serviceaccount:" + claims.ns + ":" + claims.service_account},
      {"kubernetes.io",
       {{"namespace", claims.ns},
        {"pod", {{"name", claims.pod_name}, {"uid", claims.pod_uid}}},
        {"serviceaccount", {{"name", claims.service_account}}}}}};
  const std::string text = encode_base64url(header.dump()) + "." + encode_base64url(payload.dump());
  PAWL_TRY(signature, sign(key_->key.get(), text));
  return text + "." + encode_base64url(signature);
}

Result<TokenClaims> TokenAuthority::verify(std::string_view token, std::string_view audience,
                                           TimePoint now) const {
  const auto refuse = [](const char* why) { return fail(Code::kForbidden, why); };
  const auto first = token.find('.');
  const auto second = token.rfind('.');
  if (first == std::string_view::npos || first == second) return refuse("not a token");
  const auto header = decode_base64url(token.substr(0, first));
  const auto payload = decode_base64url(token.substr(first + 1, second - first - 1));
  const auto signature = decode_base64url(token.substr(second + 1));
  if (!header || !payload || !signature) return refuse("not a token");
  const auto head = parse_json(*header);
  // The algorithm is ours to choose, never the token's.
  if (!head.is_object() || head.value("alg", nlohmann::json{}) != "ES256")
    return refuse("not signed ES256");
  if (!is_signed_by(key_->key.get(), token.substr(0, second), *signature))
    return refuse("not signed here");
  const TokenClaims claims = claims_of(parse_json(*payload));  // signed here, so it has our shape
  if (claims.audience != audience) return refuse("for another audience");
  if (now >= claims.expiry) return refuse("expired");
  return claims;
}

std::string TokenAuthority::jwks() const {
  const nlohmann::json key = {{"kty", "EC"},     {"crv", "P-256"}, {"use", "sig"}, {"alg", "ES256"},
                              {"kid", key_->id}, {"x", key_->x},   {"y", key_->y}};
  return nlohmann::json{{"keys", {key}}}.dump();
}

}  // namespace pawl::local
