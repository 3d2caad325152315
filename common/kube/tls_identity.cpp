#include "common/kube/tls_identity.h"

#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

namespace pawl::kube {
namespace {

struct BioRelease {
  void operator()(BIO* bio) const { BIO_free(bio); }
};
using Bio = std::unique_ptr<BIO, BioRelease>;

Bio reader(const std::string& text) {
  return Bio{BIO_new_mem_buf(text.data(), static_cast<int>(text.size()))};
}

// Without one, OpenSSL would ask on the terminal for the password of an encrypted key.
int no_password(char*, int, int, void*) { return 0; }

bool is_ip_address(const std::string& host) {
  in6_addr buffer{};
  return ::inet_pton(AF_INET, host.c_str(), &buffer) == 1 ||
         ::inet_pton(AF_INET6, host.c_str(), &buffer) == 1;
}

}  // namespace

Result<std::vector<TlsIdentity::Certificate>> TlsIdentity::read_certificates(const std::string& pem,
                                                                             const char* what) {
  std::vector<Certificate> found;
  const Bio bio = reader(pem);
  while (X509* certificate = PEM_read_bio_X509(bio.get(), nullptr, no_password, nullptr)) {
    found.emplace_back(certificate);
  }
  ERR_clear_error();  // the end of the text is an error to OpenSSL
  if (found.empty()) {
    return fail(Code::kInvalid, std::string{what} + " holds no PEM certificate");
  }
  return found;
}

Status TlsIdentity::read_key(const std::string& pem) {
  const Bio bio = reader(pem);
  key_.reset(PEM_read_bio_PrivateKey(bio.get(), nullptr, no_password, nullptr));
  ERR_clear_error();
  if (!key_) return fail(Code::kInvalid, "the client key is not an unencrypted PEM key");
  if (X509_check_private_key(own_.front().get(), key_.get()) != 1) {
    ERR_clear_error();
    return fail(Code::kInvalid, "the client key does not belong to the client certificate");
  }
  return {};
}

Result<std::shared_ptr<TlsIdentity>> TlsIdentity::make(const ClusterConfig& config,
                                                       const std::string& host) {
  auto identity = std::make_shared<TlsIdentity>();
  identity->host_ = host;
  identity->is_address_ = is_ip_address(host);
  PAWL_TRY(authorities, read_certificates(config.ca_data, "the cluster's CA"));
  identity->trusted_.reset(X509_STORE_new());
  for (const Certificate& authority : authorities) {
    X509_STORE_add_cert(identity->trusted_.get(), authority.get());
  }
  if (!config.client_cert_data.empty()) {
    PAWL_TRY(own, read_certificates(config.client_cert_data, "the client certificate"));
    identity->own_ = std::move(own);
    PAWL_TRY_VOID(identity->read_key(config.client_key_data));
  }
  return identity;
}

bool TlsIdentity::apply(SSL_CTX* context) {
  SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
  // Replaces the store with the system's authorities that the library has loaded.
  SSL_CTX_set1_cert_store(context, trusted_.get());
  X509_VERIFY_PARAM* expected = SSL_CTX_get0_param(context);
  X509_VERIFY_PARAM_set_hostflags(
      expected, X509_CHECK_FLAG_NEVER_CHECK_SUBJECT | X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
  bool is_good = is_address_ ? X509_VERIFY_PARAM_set1_ip_asc(expected, host_.c_str()) == 1
                             : X509_VERIFY_PARAM_set1_host(expected, host_.c_str(), 0) == 1;
  SSL_CTX_set_cert_verify_callback(context, &TlsIdentity::verify, this);
  if (own_.empty()) return is_good;
  is_good = is_good && SSL_CTX_use_certificate(context, own_.front().get()) == 1;
  is_good = is_good && SSL_CTX_use_PrivateKey(context, key_.get()) == 1;
  for (std::size_t i = 1; is_good && i < own_.size(); ++i) {
    is_good = SSL_CTX_add1_chain_cert(context, own_[i].get()) == 1;
  }
  return is_good;
}

int TlsIdentity::verify(X509_STORE_CTX* chain, void* self) {
  const int is_trusted = X509_verify_cert(chain);
  if (is_trusted == 1) return 1;
  auto* identity = static_cast<TlsIdentity*>(self);
  const std::lock_guard lock(identity->mutex_);
  identity->last_refusal_ = X509_verify_cert_error_string(X509_STORE_CTX_get_error(chain));
  return 0;
}

std::string TlsIdentity::last_refusal() const {
  const std::lock_guard lock(mutex_);
  return last_refusal_;
}

}  // namespace pawl::kube
