// An owned file descriptor, and the few helpers every socket user needs. An Fd belongs to one
// owner.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>

#include "common/base/result.h"

namespace pawl::os {

class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    if (this != &other) reset(std::exchange(other.fd_, -1));
    return *this;
  }
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;
  ~Fd() { reset(); }

  int get() const { return fd_; }
  bool is_open() const { return fd_ >= 0; }
  int release() { return std::exchange(fd_, -1); }
  void reset(int fd = -1);

 private:
  int fd_ = -1;
};

// A listening TCP socket on `address` ("0.0.0.0", "127.0.0.1", "::"), port 0 = any; close-on-exec,
// SO_REUSEADDR.
Result<Fd> listen_tcp(const std::string& address, std::uint16_t port, int backlog = 128);
Result<std::uint16_t> local_port(int fd);
// Begins to connect to a numeric address; non-blocking, TCP_NODELAY, close-on-exec. Writable when
// it is decided; connect_error() then says how.
Result<Fd> start_connect_tcp(const std::string& address, std::uint16_t port);
Status connect_error(int fd);
// Connects to a numeric IPv4 or IPv6 address within `timeout`; TCP_NODELAY, close-on-exec, blocking
// afterwards.
Result<Fd> connect_tcp(const std::string& address, std::uint16_t port,
                       std::chrono::milliseconds timeout);
Status set_nonblocking(int fd, bool on);
// "10.0.0.1:80" or "[::1]:80" → address and port.
Result<std::pair<std::string, std::uint16_t>> split_host_port(const std::string& text);
std::string join_host_port(const std::string& address, std::uint16_t port);

}  // namespace pawl::os
