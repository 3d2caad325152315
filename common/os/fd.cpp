#include "common/os/fd.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cerrno>
#include <charconv>

#include "common/os/process.h"

namespace pawl::os {
namespace {

struct Endpoint {
  sockaddr_storage storage{};
  socklen_t length = 0;
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

Result<Endpoint> endpoint_of(const std::string& address, std::uint16_t port) {
  Endpoint endpoint;
  auto* v4 = reinterpret_cast<sockaddr_in*>(&endpoint.storage);
  if (::inet_pton(AF_INET, address.c_str(), &v4->sin_addr) == 1) {
    v4->sin_family = AF_INET;
    v4->sin_port = htons(port);
    endpoint.length = sizeof(sockaddr_in);
    return endpoint;
  }
  auto* v6 = reinterpret_cast<sockaddr_in6*>(&endpoint.storage);
  if (::inet_pton(AF_INET6, address.c_str(), &v6->sin6_addr) == 1) {
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons(port);
    endpoint.length = sizeof(sockaddr_in6);
    return endpoint;
  }
  return fail(Code::kInvalid, "not a numeric IP address: \"" + address + "\"");
}

Result<Fd> open_stream_socket(const Endpoint& endpoint) {
  Fd fd{::socket(endpoint.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  if (!fd.is_open()) return fail(Code::kIo, "socket: " + errno_text());
  return fd;
}

}  // namespace

void Fd::reset(int fd) {
  if (fd_ >= 0) ::close(fd_);
  fd_ = fd;
}

Result<Fd> listen_tcp(const std::string& address, std::uint16_t port, int backlog) {
  PAWL_TRY(endpoint, endpoint_of(address, port));
  PAWL_TRY(fd, open_stream_socket(endpoint));
  const int on = 1;
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (::bind(fd.get(), endpoint.get(), endpoint.length) != 0 || ::listen(fd.get(), backlog) != 0) {
    return fail(Code::kIo, "listen on " + join_host_port(address, port) + ": " + errno_text());
  }
  return fd;
}

Result<std::uint16_t> local_port(int fd) {
  Endpoint endpoint;
  endpoint.length = sizeof endpoint.storage;
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&endpoint.storage), &endpoint.length) != 0) {
    return fail(Code::kIo, "getsockname: " + errno_text());
  }
  if (endpoint.storage.ss_family == AF_INET6) {
    return ntohs(reinterpret_cast<sockaddr_in6*>(&endpoint.storage)->sin6_port);
  }
  return ntohs(reinterpret_cast<sockaddr_in*>(&endpoint.storage)->sin_port);
}

Status set_nonblocking(int fd, bool on) {
  const int flags = ::fcntl(fd, F_GETFL);
  const int wanted = on ? flags | O_NONBLOCK : flags & ~O_NONBLOCK;
  if (flags < 0 || ::fcntl(fd, F_SETFL, wanted) != 0)
    return fail(Code::kIo, "fcntl: " + errno_text());
  return {};
}

Result<Fd> start_connect_tcp(const std::string& address, std::uint16_t port) {
  PAWL_TRY(endpoint, endpoint_of(address, port));
  PAWL_TRY(fd, open_stream_socket(endpoint));
  PAWL_TRY_VOID(set_nonblocking(fd.get(), true));
  const int on = 1;
  ::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  if (::connect(fd.get(), endpoint.get(), endpoint.length) != 0 && errno != EINPROGRESS) {
    return fail(Code::kUnavailable,
                "connect to " + join_host_port(address, port) + ": " + errno_text());
  }
  return fd;
}

Status connect_error(int fd) {
  int error = 0;
  socklen_t length = sizeof error;
  ::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length);
  if (error != 0) return fail(Code::kUnavailable, "connect: " + errno_text(error));
  return {};
}

Result<Fd> connect_tcp(const std::string& address, std::uint16_t port,
                       std::chrono::milliseconds timeout) {
  PAWL_TRY(fd, start_connect_tcp(address, port));
  const std::string where = "connect to " + join_host_port(address, port);
  pollfd waiting{fd.get(), POLLOUT, 0};
  const int ready = ::poll(&waiting, 1, static_cast<int>(timeout.count()));
  if (ready <= 0) return fail(Code::kUnavailable, where + ": timed out");
  const Status connected = connect_error(fd.get());
  if (!connected) return fail_with(connected.error(), where);
  PAWL_TRY_VOID(set_nonblocking(fd.get(), false));
  return fd;
}

std::string join_host_port(const std::string& address, std::uint16_t port) {
  const bool is_v6 = address.find(':') != std::string::npos;
  return (is_v6 ? "[" + address + "]" : address) + ":" + std::to_string(port);
}

Result<std::pair<std::string, std::uint16_t>> split_host_port(const std::string& text) {
  const auto colon = text.rfind(':');
  std::uint16_t port = 0;
  if (colon == std::string::npos) return fail(Code::kInvalid, "no port in \"" + text + "\"");
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data() + colon + 1, end, port);
  if (error != std::errc{} || stop != end)
    return fail(Code::kInvalid, "no port in \"" + text + "\"");
  std::string host = text.substr(0, colon);
  if (host.size() >= 2 && host.front() == '[' && host.back() == ']')
    host = host.substr(1, host.size() - 2);
  return std::pair{host, port};
}

}  // namespace pawl::os
