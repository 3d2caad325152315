#include "cli/local/health_probe.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>
#include <array>
#include <cerrno>
#include <utility>

namespace pawl::local {
namespace {
constexpr std::string_view kStatusLine = "HTTP/1.1 200";
constexpr std::size_t kClassAt = 9;  // of the status code's first digit
}  // namespace

HealthProbe::HealthProbe(std::uint16_t port, std::string path)
    : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)),
      request_("GET " + std::move(path) +
               " HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n") {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const int result =
      ::connect(fd_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address);
  if (result != 0 && errno != EINPROGRESS) fd_.reset();
}

short HealthProbe::events() const { return is_sent_ ? POLLIN : POLLOUT; }

std::optional<bool> HealthProbe::proceed() {
  if (!fd_.is_open()) return false;
  if (!is_sent_) {
    const ssize_t sent = ::send(fd_.get(), request_.data(), request_.size(), MSG_NOSIGNAL);
    if (sent < 0 && (errno == EAGAIN || errno == EINTR)) return std::nullopt;
    // The request is smaller than any socket buffer.
    if (sent != static_cast<ssize_t>(request_.size())) return false;
    is_sent_ = true;
    return std::nullopt;
  }
  std::array<char, 256> piece;
  const ssize_t length = ::recv(fd_.get(), piece.data(), piece.size(), 0);
  if (length < 0 && (errno == EAGAIN || errno == EINTR)) return std::nullopt;
  if (length <= 0) return false;
  answer_.append(piece.data(), static_cast<std::size_t>(length));
  if (answer_.size() < kStatusLine.size()) return std::nullopt;
  return answer_[kClassAt] == '2';
}

}  // namespace pawl::local
