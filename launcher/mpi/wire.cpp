#include "launcher/mpi/wire.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <array>
#include <cerrno>
#include <utility>

#include "common/os/process.h"

namespace pawl::launcher::mpi {
namespace {

constexpr std::size_t kHeaderBytes = 4, kBodyBytesMax = 1 << 20;

std::string header_of(std::size_t bytes) {
  std::string header;
  for (int shift = 24; shift >= 0; shift -= 8)
    header += static_cast<char>(static_cast<unsigned char>(bytes >> shift));
  return header;
}

std::size_t body_bytes(std::string_view header) {
  std::size_t bytes = 0;
  for (const char letter : header.substr(0, kHeaderBytes))
    bytes = (bytes << 8) | static_cast<unsigned char>(letter);
  return bytes;
}

// A connection over which nothing is said for days is kept open by whoever is between, and one
// whose other side is gone is seen to be, within a minute.
void keep_alive(int fd) {
  constexpr int kIdleSeconds = 20, kEverySeconds = 10, kTries = 3, kLostMs = 50'000, kOn = 1;
  ::setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &kOn, sizeof kOn);
  ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &kIdleSeconds, sizeof kIdleSeconds);
  ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &kEverySeconds, sizeof kEverySeconds);
  ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &kTries, sizeof kTries);
  ::setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &kLostMs, sizeof kLostMs);
}

}  // namespace

Wire::Wire(os::Fd fd, Side side, std::string key)
    : fd_(std::move(fd)), side_(side), key_(std::move(key)) {
  keep_alive(fd_.get());
  if (side_ == Side::kAgent) {
    nonces_.agent = make_nonce();
    unsent_ = nonces_.agent;
  } else {
    nonces_.caller = make_nonce();
  }
}

Status Wire::service() {
  Status done = write();
  const Status got = read();
  PAWL_TRY_VOID(greet());
  PAWL_TRY_VOID(read_frames());
  if (done) done = write();
  return got ? done : got;
}

Status Wire::read() {
  std::array<char, 64 * 1024> bytes{};
  while (received_.size() < 2 * kBodyBytesMax) {
    const ssize_t count = ::recv(fd_.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (count > 0) {
      received_.append(bytes.data(), static_cast<std::size_t>(count));
      continue;
    }
    if (count == 0) return fail(Code::kUnavailable, "the other side has hung up");
    if (errno == EAGAIN) return {};
    if (errno != EINTR) return fail(Code::kUnavailable, os::errno_text());
  }
  return {};
}

Status Wire::write() {
  while (!unsent_.empty()) {
    const ssize_t count =
        ::send(fd_.get(), unsent_.data(), unsent_.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (count < 0 && errno == EAGAIN) return {};
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return fail(Code::kUnavailable, os::errno_text());
    unsent_.erase(0, static_cast<std::size_t>(count));
  }
  return {};
}

Status Wire::greet() {
  if (is_trusted_) return {};
  if (side_ == Side::kAgent) {
    if (received_.size() < kNonceBytes + kMacBytes) return {};
    nonces_.caller = received_.substr(0, kNonceBytes);
    PAWL_TRY_VOID(check_proof(Side::kCaller, received_.substr(kNonceBytes, kMacBytes)));
    received_.erase(0, kNonceBytes + kMacBytes);
    unsent_ += proof_of(Side::kAgent, key_, nonces_);
  } else {
    if (!has_answered_) {
      if (received_.size() < kNonceBytes) return {};
      nonces_.agent = received_.substr(0, kNonceBytes);
      received_.erase(0, kNonceBytes);
      unsent_ += nonces_.caller + proof_of(Side::kCaller, key_, nonces_);
      has_answered_ = true;
    }
    if (received_.size() < kMacBytes) return {};
    PAWL_TRY_VOID(check_proof(Side::kAgent, received_.substr(0, kMacBytes)));
    received_.erase(0, kMacBytes);
  }
  is_trusted_ = true;
  session_ = session_key(key_, nonces_);
  for (const Frame& frame : std::exchange(waiting_, {})) seal(frame.type, frame.text);
  return {};
}

Status Wire::check_proof(Side side, std::string_view proof) {
  if (are_equal(proof, proof_of(side, key_, nonces_))) return {};
  return fail(Code::kForbidden, "the other side does not know this generation's key");
}

Status Wire::read_frames() {
  while (is_trusted_ && received_.size() >= kHeaderBytes) {
    const std::size_t bytes = body_bytes(received_);
    if (bytes == 0 || bytes > kBodyBytesMax) return fail(Code::kCorrupt, "not a frame of ours");
    if (received_.size() < kHeaderBytes + bytes + kMacBytes) return {};
    const std::string_view body = std::string_view{received_}.substr(kHeaderBytes, bytes);
    const Side other = side_ == Side::kAgent ? Side::kCaller : Side::kAgent;
    const std::string_view code =
        std::string_view{received_}.substr(kHeaderBytes + bytes, kMacBytes);
    if (!are_equal(code, frame_mac(session_, other, taken_, body)))
      return fail(Code::kForbidden, "a frame that the other side has not sent");
    ++taken_;
    frames_.push_back({body.front(), std::string{body.substr(1)}});
    received_.erase(0, kHeaderBytes + bytes + kMacBytes);
  }
  return {};
}

void Wire::send(char type, std::string_view text) {
  if (is_trusted_) return seal(type, text);
  waiting_.push_back({type, std::string{text}});
}

void Wire::seal(char type, std::string_view text) {
  std::string body{type};
  body += text;
  unsent_ += header_of(body.size()) + body + frame_mac(session_, side_, sent_++, body);
}

std::vector<Frame> Wire::take_frames() { return std::exchange(frames_, {}); }

}  // namespace pawl::launcher::mpi
