#include "peer_fixture.h"

#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/ecdsa.h>
#include <openssl/evp.h>
#include <openssl/rsa.h>
#include <vector>

#include "common/base/json.h"

namespace pawl::launcher::test {
namespace {

std::string base64url(const std::string& bytes) {
  static constexpr char kDigits[] =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
  std::string out;
  unsigned bits = 0;
  int count = 0;
  for (const char c : bytes) {
    bits = (bits << 8) | static_cast<unsigned char>(c);
    count += 8;
    for (; count >= 6; count -= 6) out += kDigits[(bits >> (count - 6)) & 63];
  }
  if (count > 0) out += kDigits[(bits << (6 - count)) & 63];
  return out;
}

std::string number_of(EVP_PKEY* key, const char* name, int bytes) {
  BIGNUM* number = nullptr;
  EVP_PKEY_get_bn_param(key, name, &number);
  std::string text(static_cast<std::size_t>(bytes == 0 ? BN_num_bytes(number) : bytes), '\0');
  BN_bn2binpad(number, reinterpret_cast<unsigned char*>(text.data()),
               static_cast<int>(text.size()));
  BN_free(number);
  return text;
}

std::string raw_signature(const std::string& der) {
  const auto* bytes = reinterpret_cast<const unsigned char*>(der.data());
  ECDSA_SIG* signature = d2i_ECDSA_SIG(nullptr, &bytes, static_cast<long>(der.size()));
  std::string raw(64, '\0');
  auto* out = reinterpret_cast<unsigned char*>(raw.data());
  BN_bn2binpad(ECDSA_SIG_get0_r(signature), out, 32);
  BN_bn2binpad(ECDSA_SIG_get0_s(signature), out + 32, 32);
  ECDSA_SIG_free(signature);
  return raw;
}

}  // namespace

Issuer::Issuer(Kind kind, std::string kid) : kind_(kind), kid_(std::move(kid)) {
  key_.reset(kind == Kind::kRsa ? EVP_RSA_gen(2048) : EVP_EC_gen("P-256"));
}

std::string Issuer::jwks() const {
  nlohmann::json key = {{"kid", kid_}, {"use", "sig"}};
  if (kind_ == Kind::kRsa) {
    key.update({{"kty", "RSA"},
                {"n", base64url(number_of(key_.get(), OSSL_PKEY_PARAM_RSA_N, 0))},
                {"e", base64url(number_of(key_.get(), OSSL_PKEY_PARAM_RSA_E, 0))}});
  } else {
    key.update({{"kty", "EC"},
                {"crv", "P-256"},
                {"x", base64url(number_of(key_.get(), OSSL_PKEY_PARAM_EC_PUB_X, 32))},
                {"y", base64url(number_of(key_.get(), OSSL_PKEY_PARAM_EC_PUB_Y, 32))}});
  }
  return nlohmann::json{{"keys", {key}}}.dump();
}

std::string Issuer::sign(const std::string& claims_json, const std::string& algorithm) const {
  const std::string usual = kind_ == Kind::kRsa ? "RS256" : "ES256";
  const nlohmann::json header = {{"alg", algorithm.empty() ? usual : algorithm}, {"kid", kid_}};
  const std::string text = base64url(header.dump()) + "." + base64url(claims_json);
  std::string signature(512, '\0');
  std::size_t length = signature.size();
  EVP_MD_CTX* ctx = EVP_MD_CTX_new();
  EVP_DigestSignInit(ctx, nullptr, EVP_sha256(), nullptr, key_.get());
  EVP_DigestSign(ctx, reinterpret_cast<unsigned char*>(signature.data()), &length,
                 reinterpret_cast<const unsigned char*>(text.data()), text.size());
  EVP_MD_CTX_free(ctx);
  signature.resize(length);
  if (kind_ == Kind::kEc) signature = raw_signature(signature);
  return text + "." + base64url(signature);
}

bool run_until(Poller& poller, const std::function<bool()>& is_done) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds{10};
  while (!is_done()) {
    if (std::chrono::steady_clock::now() > end) return false;
    poller.run_once(std::chrono::milliseconds{20});
  }
  return true;
}

}  // namespace pawl::launcher::test
