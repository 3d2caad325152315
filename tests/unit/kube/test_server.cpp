#include "tests/unit/kube/test_server.h"

#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>

#include "common/os/process.h"

namespace pawl::kube {
namespace {

using Key = std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)>;
using Certificate = std::unique_ptr<X509, decltype(&X509_free)>;
using Bio = std::unique_ptr<BIO, decltype(&BIO_free)>;

std::string text_of(BIO* bio) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio, &data);
  return {data, static_cast<std::size_t>(size)};
}

Bio bio_of(const std::string& text) {
  return {BIO_new_mem_buf(text.data(), static_cast<int>(text.size())), &BIO_free};
}

Key key_from(const std::string& pem) {
  return {PEM_read_bio_PrivateKey(bio_of(pem).get(), nullptr, nullptr, nullptr), &EVP_PKEY_free};
}

Certificate certificate_from(const std::string& pem) {
  return {PEM_read_bio_X509(bio_of(pem).get(), nullptr, nullptr, nullptr), &X509_free};
}

void add_extension(X509* certificate, int what, const std::string& value) {
  X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, nullptr, what, value.c_str());
  REQUIRE(extension != nullptr);
  X509_add_ext(certificate, extension, -1);
  X509_EXTENSION_free(extension);
}

// A certificate for a new key; signed by `issuer`, or by itself without one.
KeyPair make(const std::string& name, const std::string& subject_names, const KeyPair* issuer) {
  const Key key{EVP_EC_gen("P-256"), &EVP_PKEY_free};
  const Certificate certificate{X509_new(), &X509_free};
  X509_set_version(certificate.get(), 2);
  static std::atomic<long> serial{1};
  ASN1_INTEGER_set(X509_get_serialNumber(certificate.get()), ++serial);
  X509_gmtime_adj(X509_getm_notBefore(certificate.get()), -3600);
  X509_gmtime_adj(X509_getm_notAfter(certificate.get()), 3600);
  X509_set_pubkey(certificate.get(), key.get());
  X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate.get()), "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1, 0);
  if (issuer == nullptr) {
    add_extension(certificate.get(), NID_basic_constraints, "critical,CA:TRUE");
    X509_set_issuer_name(certificate.get(), X509_get_subject_name(certificate.get()));
    X509_sign(certificate.get(), key.get(), EVP_sha256());
  } else {
    if (!subject_names.empty())
      add_extension(certificate.get(), NID_subject_alt_name, subject_names);
    const Certificate parent = certificate_from(issuer->certificate);
    X509_set_issuer_name(certificate.get(), X509_get_subject_name(parent.get()));
    X509_sign(certificate.get(), key_from(issuer->key).get(), EVP_sha256());
  }
  const Bio certificate_text{BIO_new(BIO_s_mem()), &BIO_free};
  const Bio key_text{BIO_new(BIO_s_mem()), &BIO_free};
  PEM_write_bio_X509(certificate_text.get(), certificate.get());
  PEM_write_bio_PrivateKey(key_text.get(), key.get(), nullptr, nullptr, 0, nullptr, nullptr);
  return {text_of(certificate_text.get()), text_of(key_text.get())};
}

bool is_readable(int fd, std::chrono::milliseconds patience) {
  pollfd waiting{fd, POLLIN, 0};
  return ::poll(&waiting, 1, static_cast<int>(patience.count())) == 1;
}

}  // namespace

TestAuthority::TestAuthority() : own_(make("test authority", "", nullptr)) {}

KeyPair TestAuthority::issue(const std::string& subject_names,
                             const std::string& common_name) const {
  return make(common_name, subject_names, &own_);
}

Peer::Peer(os::Fd fd, SSL_CTX* tls) : fd_(std::move(fd)), ssl_(nullptr, &SSL_free) {
  if (tls == nullptr) return;
  ssl_.reset(SSL_new(tls));
  SSL_set_fd(ssl_.get(), fd_.get());
}

Peer::~Peer() {
  if (ssl_ && SSL_is_init_finished(ssl_.get())) SSL_shutdown(ssl_.get());
  ERR_clear_error();
}

bool Peer::read_some() {
  char buffer[65536];
  if (ssl_ && !SSL_is_init_finished(ssl_.get()) && SSL_accept(ssl_.get()) != 1) return false;
  const long bytes = ssl_ ? SSL_read(ssl_.get(), buffer, sizeof buffer)
                          : static_cast<long>(::recv(fd_.get(), buffer, sizeof buffer, 0));
  if (bytes > 0) received_.append(buffer, static_cast<std::size_t>(bytes));
  return bytes > 0;
}

std::string Peer::read_request() {
  std::size_t head = std::string::npos;
  while ((head = received_.find("\r\n\r\n")) == std::string::npos) {
    if (!read_some()) return "";
  }
  const std::size_t field = received_.find("Content-Length:");
  const std::size_t body = field < head ? std::stoul(received_.substr(field + 15)) : 0;
  while (received_.size() < head + 4 + body) {
    if (!read_some()) return "";
  }
  std::string request = received_.substr(0, head + 4 + body);
  received_.erase(0, request.size());
  return request;
}

bool Peer::write(std::string_view bytes) {
  while (!bytes.empty()) {
    const long sent =
        ssl_ ? SSL_write(ssl_.get(), bytes.data(), static_cast<int>(bytes.size()))
             : static_cast<long>(::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL));
    if (sent <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
  return true;
}

std::size_t Peer::write_until_stalled(std::string_view piece, std::size_t bytes_max,
                                      std::chrono::milliseconds patience) {
  std::size_t total = 0;
  std::size_t at = 0;
  while (total < bytes_max) {
    pollfd waiting{fd_.get(), POLLOUT, 0};
    if (::poll(&waiting, 1, static_cast<int>(patience.count())) != 1) break;
    const ssize_t sent =
        ::send(fd_.get(), piece.data() + at, piece.size() - at, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0) break;
    total += static_cast<std::size_t>(sent);
    at = (at + static_cast<std::size_t>(sent)) % piece.size();
  }
  // What is left of the piece, so that the chunk is whole.
  if (at != 0) write(piece.substr(at));
  return total;
}

void Peer::wait_for_end() {
  while (read_some()) {
  }
}

bool Peer::lives_on(std::chrono::milliseconds time) { return !is_readable(fd_.get(), time); }

void Peer::shut_down() { ::shutdown(fd_.get(), SHUT_RDWR); }

TestServer::TestServer(Script script, const KeyPair& identity, const std::string& client_authority)
    : script_(std::move(script)), tls_(nullptr, &SSL_CTX_free) {
  os::ignore_sigpipe();  // OpenSSL writes without MSG_NOSIGNAL
  if (!identity.certificate.empty()) {
    tls_.reset(SSL_CTX_new(TLS_server_method()));
    REQUIRE(SSL_CTX_use_certificate(tls_.get(), certificate_from(identity.certificate).get()) == 1);
    REQUIRE(SSL_CTX_use_PrivateKey(tls_.get(), key_from(identity.key).get()) == 1);
  }
  if (!client_authority.empty()) {
    X509_STORE_add_cert(SSL_CTX_get_cert_store(tls_.get()),
                        certificate_from(client_authority).get());
    SSL_CTX_set_verify(tls_.get(), SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  }
  auto listener = os::listen_tcp("127.0.0.1", 0);
  REQUIRE(listener);
  listener_ = std::move(*listener);
  port_ = os::local_port(listener_.get()).value();
  int wake[2];
  REQUIRE(::pipe2(wake, O_CLOEXEC) == 0);
  wake_read_ = os::Fd{wake[0]};
  wake_write_ = os::Fd{wake[1]};
  acceptor_ = std::thread([this] { accept_all(); });
}

TestServer::~TestServer() {
  wake_write_.reset();
  acceptor_.join();
  {
    const std::lock_guard lock(mutex_);
    for (const auto& weak : peers_) {
      if (const auto peer = weak.lock()) peer->shut_down();
    }
  }
  for (std::thread& thread : threads_) thread.join();
}

std::string TestServer::url() const {
  return (tls_ ? "https://127.0.0.1:" : "http://127.0.0.1:") + std::to_string(port_);
}

void TestServer::accept_all() {
  while (true) {
    pollfd waiting[2] = {{listener_.get(), POLLIN, 0}, {wake_read_.get(), POLLIN, 0}};
    ::poll(waiting, 2, -1);
    if (waiting[1].revents != 0) return;
    os::Fd client{::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC)};
    if (!client.is_open()) continue;
    ++connections_;
    auto peer = std::make_shared<Peer>(std::move(client), tls_.get());
    const std::lock_guard lock(mutex_);
    peers_.push_back(peer);
    threads_.emplace_back([this, peer = std::move(peer)]() mutable {
      script_(*peer);
      peer.reset();
    });
  }
}

std::string http_answer(int status, const std::string& body, const std::string& headers) {
  return "HTTP/1.1 " + std::to_string(status) +
         " X\r\nContent-Length: " + std::to_string(body.size()) + "\r\n" + headers + "\r\n" + body;
}

}  // namespace pawl::kube
