#include "launcher/peer/connection.h"

#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/socket.h>
#include <array>
#include <utility>

#include "common/os/process.h"

namespace pawl::launcher {

Connection::Connection(os::Fd fd, Openssl<SSL> ssl, std::string expected_fingerprint)
    : fd_(std::move(fd)),
      ssl_(std::move(ssl)),
      expected_fingerprint_(std::move(expected_fingerprint)) {
  is_connecting_ = !expected_fingerprint_.empty();
}

Result<Connection> Connection::start(SSL_CTX* ctx, os::Fd fd,
                                     const std::string& expected_fingerprint) {
  PAWL_TRY_VOID(os::set_nonblocking(fd.get(), true));
  Openssl<SSL> ssl{SSL_new(ctx)};
  if (!ssl || SSL_set_fd(ssl.get(), fd.get()) != 1)
    return fail(Code::kIo, "TLS: " + openssl_error());
  if (expected_fingerprint.empty()) {
    SSL_set_accept_state(ssl.get());
  } else {
    SSL_set_connect_state(ssl.get());
  }
  return Connection{std::move(fd), std::move(ssl), expected_fingerprint};
}

Status Connection::service() {
  if (is_connecting_) {
    PAWL_TRY_VOID(os::connect_error(fd_.get()));
    is_connecting_ = false;
  }
  wants_write_ = false;
  if (!is_open_) PAWL_TRY_VOID(handshake());
  if (!is_open_) return {};
  // Reading first: what the other side said before it closed still counts.
  const Status status = read_frames();
  if (!status) return status;
  return write_unsent();
}

void Connection::finish() {
  if (is_open_) SSL_shutdown(ssl_.get());
  ::shutdown(fd_.get(), SHUT_WR);
}

Status Connection::handshake() {
  ERR_clear_error();
  const int result = SSL_do_handshake(ssl_.get());
  if (result != 1) return failed(result, "handshake");
  if (!expected_fingerprint_.empty()) {
    const Openssl<X509> certificate{SSL_get1_peer_certificate(ssl_.get())};
    const std::string actual = fingerprint_of(certificate.get());
    const bool is_right =
        actual.size() == expected_fingerprint_.size() &&
        CRYPTO_memcmp(actual.data(), expected_fingerprint_.data(), actual.size()) == 0;
    if (!is_right) return fail(Code::kForbidden, "the certificate is not the one in the record");
  }
  is_open_ = true;
  return {};
}

// "Not now" is no failure; anything else is the end.
Status Connection::failed(int result, const char* what) {
  const int error = SSL_get_error(ssl_.get(), result);
  if (error == SSL_ERROR_WANT_READ) return {};
  if (error == SSL_ERROR_WANT_WRITE) {
    wants_write_ = true;
    return {};
  }
  if (error == SSL_ERROR_ZERO_RETURN) return fail(Code::kUnavailable, "closed by the other side");
  if (error == SSL_ERROR_SYSCALL) {
    return fail(Code::kUnavailable, errno == 0 ? "closed by the other side" : os::errno_text());
  }
  return fail(Code::kUnavailable, std::string{"TLS "} + what + ": " + openssl_error());
}

Status Connection::send(std::string_view text) {
  if (text.size() > kFrameBytesMax) return fail(Code::kInvalid, "message too large");
  if (unsent_.size() > kUnsentBytesMax)
    return fail(Code::kUnavailable, "the other side does not read");
  const auto length = static_cast<std::uint32_t>(text.size());
  for (const int shift : {24, 16, 8, 0}) unsent_ += static_cast<char>((length >> shift) & 0xff);
  unsent_ += text;
  return is_open_ ? write_unsent() : Status{};
}

Status Connection::write_unsent() {
  std::size_t sent = 0;
  Status status;
  while (sent < unsent_.size()) {
    std::size_t count = 0;
    ERR_clear_error();
    const int result =
        SSL_write_ex(ssl_.get(), unsent_.data() + sent, unsent_.size() - sent, &count);
    if (result != 1) {
      status = failed(result, "write");
      break;
    }
    sent += count;
  }
  unsent_.erase(0, sent);
  return status;
}

Status Connection::read_frames() {
  std::array<char, 16'384> piece{};
  while (true) {
    std::size_t count = 0;
    ERR_clear_error();
    errno = 0;
    const int result = SSL_read_ex(ssl_.get(), piece.data(), piece.size(), &count);
    // Frames that came before the end are still delivered: the caller takes them first.
    if (result != 1) return failed(result, "read");
    received_.append(piece.data(), count);
    std::size_t used = 0;
    while (received_.size() - used >= 4) {
      std::size_t length = 0;
      for (std::size_t i = 0; i < 4; ++i) {
        length = (length << 8) | static_cast<unsigned char>(received_[used + i]);
      }
      if (length > frame_bytes_max_)
        return fail(Code::kInvalid, "frame of " + std::to_string(length) + " bytes");
      if (received_.size() - used - 4 < length) break;
      frames_.push_back(received_.substr(used + 4, length));
      used += 4 + length;
    }
    received_.erase(0, used);
  }
}

std::vector<std::string> Connection::take_frames() { return std::exchange(frames_, {}); }

}  // namespace pawl::launcher
