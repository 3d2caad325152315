// The TLS identity of one launcher process: an ephemeral P-256 key with a self-signed certificate,
// made at start and never stored. Its fingerprint (SHA-256 of the DER, hex) stands in the record;
// nothing else is trusted. Any thread.
#pragma once

#include <openssl/types.h>
#include <memory>
#include <string>

#include "common/base/result.h"

namespace pawl::launcher {

struct FreeOpenssl {
  void operator()(EVP_PKEY* key) const;
  void operator()(X509* certificate) const;
  void operator()(SSL_CTX* ctx) const;
  void operator()(SSL* ssl) const;
};
template <typename T>
using Openssl = std::unique_ptr<T, FreeOpenssl>;

// Before any other use of OpenSSL: a foreign image's configuration file is none of ours.
void initialise_openssl();
// The newest error of OpenSSL on this thread as text.
std::string openssl_error();

std::string fingerprint_of(X509* certificate);

struct TlsIdentity {
  Openssl<SSL_CTX> server, client;
  std::string fingerprint;
};
Result<TlsIdentity> make_tls_identity();

}  // namespace pawl::launcher
