#include "launcher/peer/certificate.h"

#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <array>
#include <utility>

#include "common/os/process.h"

namespace pawl::launcher {

void FreeOpenssl::operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
void FreeOpenssl::operator()(X509* certificate) const { X509_free(certificate); }
void FreeOpenssl::operator()(SSL_CTX* ctx) const { SSL_CTX_free(ctx); }
void FreeOpenssl::operator()(SSL* ssl) const { SSL_free(ssl); }

void initialise_openssl() {
  OPENSSL_init_ssl(OPENSSL_INIT_NO_LOAD_CONFIG | OPENSSL_INIT_LOAD_SSL_STRINGS, nullptr);
}

std::string openssl_error() {
  const unsigned long code = ERR_peek_last_error();
  std::array<char, 256> text{};
  ERR_error_string_n(code, text.data(), text.size());
  ERR_clear_error();
  return code == 0 ? "no reason given" : text.data();
}

std::string fingerprint_of(X509* certificate) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned length = 0;
  if (certificate == nullptr || X509_digest(certificate, EVP_sha256(), digest.data(), &length) != 1)
    return {};
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (unsigned i = 0; i < length; ++i) {
    text += kDigits[digest[i] >> 4];
    text += kDigits[digest[i] & 15];
  }
  return text;
}

namespace {

Openssl<X509> self_sign(EVP_PKEY* key) {
  Openssl<X509> certificate{X509_new()};
  if (!certificate) return nullptr;
  X509* raw = certificate.get();
  X509_set_version(raw, 2);
  ASN1_INTEGER_set_uint64(X509_get_serialNumber(raw), os::entropy() >> 1);
  // Only the fingerprint counts, so clocks that differ between nodes must not matter.
  X509_gmtime_adj(X509_getm_notBefore(raw), -24L * 3600);
  X509_gmtime_adj(X509_getm_notAfter(raw), 20L * 365 * 24 * 3600);
  X509_set_pubkey(raw, key);
  X509_NAME* name = X509_get_subject_name(raw);
  const auto* text = reinterpret_cast<const unsigned char*>("pawl-launch");
  X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, text, -1, -1, 0);
  X509_set_issuer_name(raw, name);
  if (X509_sign(raw, key, EVP_sha256()) == 0) return nullptr;
  return certificate;
}

Openssl<SSL_CTX> make_context(const SSL_METHOD* method) {
  Openssl<SSL_CTX> ctx{SSL_CTX_new(method)};
  if (!ctx) return nullptr;
  SSL_CTX_set_min_proto_version(ctx.get(), TLS1_3_VERSION);
  SSL_CTX_set_options(ctx.get(), SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION);
  SSL_CTX_set_num_tickets(ctx.get(), 0);
  SSL_CTX_set_session_cache_mode(ctx.get(), SSL_SESS_CACHE_OFF);
  SSL_CTX_set_mode(ctx.get(), SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  // No chain of authorities: the client compares the fingerprint before it sends a byte.
  SSL_CTX_set_verify(ctx.get(), SSL_VERIFY_NONE, nullptr);
  return ctx;
}

}  // namespace

Result<TlsIdentity> make_tls_identity() {
  const Openssl<EVP_PKEY> key{EVP_EC_gen("P-256")};
  if (!key) return fail(Code::kIo, "making a TLS key: " + openssl_error());
  const Openssl<X509> certificate = self_sign(key.get());
  TlsIdentity identity{make_context(TLS_server_method()), make_context(TLS_client_method()),
                       fingerprint_of(certificate.get())};
  if (!certificate || !identity.server || !identity.client ||
      SSL_CTX_use_certificate(identity.server.get(), certificate.get()) != 1 ||
      SSL_CTX_use_PrivateKey(identity.server.get(), key.get()) != 1) {
    return fail(Code::kIo, "making a TLS identity: " + openssl_error());
  }
  return identity;
}

}  // namespace pawl::launcher
