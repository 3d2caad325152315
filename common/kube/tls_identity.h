// Whom we trust and who we are on a TLS connection to the API server: the cluster's CA alone, the
// name that the server's certificate must carry, our client certificate. Parsed once; applied to
// the context of each new connection. Thread-safe after make().
#pragma once

#include <openssl/ssl.h>

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/kube/config.h"

namespace pawl::kube {

class TlsIdentity {
 public:
  // `host`: the server's name or IP address. Invalid when a PEM text cannot be read.
  static Result<std::shared_ptr<TlsIdentity>> make(const ClusterConfig& config,
                                                   const std::string& host);

  // The context keeps a pointer to this object. False when OpenSSL refuses.
  bool apply(SSL_CTX* context);

  // Why the last server certificate was refused, e.g. "hostname mismatch"; empty if none was.
  std::string last_refusal() const;

 private:
  template <typename T, void (*release)(T*)>
  struct Release {
    void operator()(T* object) const { release(object); }
  };
  using Certificate = std::unique_ptr<X509, Release<X509, X509_free>>;
  using Key = std::unique_ptr<EVP_PKEY, Release<EVP_PKEY, EVP_PKEY_free>>;
  using Store = std::unique_ptr<X509_STORE, Release<X509_STORE, X509_STORE_free>>;

  static Result<std::vector<Certificate>> read_certificates(const std::string& pem,
                                                            const char* what);
  Status read_key(const std::string& pem);
  static int verify(X509_STORE_CTX* chain, void* self);

  std::string host_;
  bool is_address_ = false;
  Store trusted_;
  std::vector<Certificate> own_;  // the leaf first
  Key key_;
  mutable std::mutex mutex_;
  std::string last_refusal_;
};

}  // namespace pawl::kube
