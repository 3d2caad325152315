#include "launcher/mpi/proof.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "common/base/check.h"
#include "common/os/process.h"

namespace pawl::launcher::mpi {

std::string make_nonce() { return os::random_hex(kNonceBytes / 2); }

std::string mac(std::string_view key, std::string_view text) {
  std::string code(EVP_MAX_MD_SIZE, '\0');
  unsigned length = 0;
  const unsigned char* made = HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
                                   reinterpret_cast<const unsigned char*>(text.data()), text.size(),
                                   reinterpret_cast<unsigned char*>(code.data()), &length);
  PAWL_CHECK(made != nullptr && length == kMacBytes, "HMAC-SHA256");
  code.resize(length);
  return code;
}

std::string hex(std::string_view bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const char byte : bytes) {
    const auto value = static_cast<unsigned char>(byte);
    text += kDigits[value / 16];
    text += kDigits[value % 16];
  }
  return text;
}

bool are_equal(std::string_view a, std::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

std::string proof_of(Side side, std::string_view key, const Nonces& nonces) {
  return mac(
      key, std::string{"pawl-mpi proof "} + static_cast<char>(side) + nonces.agent + nonces.caller);
}

std::string session_key(std::string_view key, const Nonces& nonces) {
  return mac(key, "pawl-mpi session " + nonces.agent + nonces.caller);
}

std::string frame_mac(std::string_view session, Side sender, std::uint64_t number,
                      std::string_view body) {
  std::string text{static_cast<char>(sender)};
  text += std::to_string(number) + ":";
  text += body;
  return mac(session, text);
}

}  // namespace pawl::launcher::mpi
