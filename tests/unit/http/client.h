// A raw TCP client for tests: sends exactly the bytes it is given and reads with a deadline.
#pragma once

#include <poll.h>
#include <sys/socket.h>

#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <string>

#include "common/os/fd.h"

namespace pawl::http {

constexpr std::chrono::milliseconds kPatience{5'000};

class RawClient {
 public:
  explicit RawClient(std::uint16_t port) {
    auto fd = os::connect_tcp("127.0.0.1", port, kPatience);
    REQUIRE(fd);
    fd_ = std::move(*fd);
  }

  void send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return;
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
  }

  // Reads until `needle` is there, and takes everything up to its end; fails the test at the
  // deadline.
  std::string read_until(const std::string& needle) {
    while (received_.find(needle) == std::string::npos) {
      INFO("received so far: " << received_);
      REQUIRE(read_some());
    }
    const std::size_t end = received_.find(needle) + needle.size();
    std::string taken = received_.substr(0, end);
    received_.erase(0, end);
    return taken;
  }

  // Everything until the server closes; fails the test if it does not.
  std::string read_to_end() {
    while (read_some()) {
    }
    REQUIRE(is_ended_);
    return std::exchange(received_, {});
  }

  // Whether the server has closed; waits for it until the deadline.
  bool is_closed_by_server() {
    while (read_some()) {
    }
    return is_ended_;
  }

  const std::string& received() const { return received_; }
  void close() { fd_.reset(); }
  int fd() const { return fd_.get(); }

 private:
  // False at the end of the connection and at the deadline.
  bool read_some() {
    pollfd waiting{fd_.get(), POLLIN, 0};
    if (::poll(&waiting, 1, static_cast<int>(kPatience.count())) != 1) return false;
    char buffer[65536];
    const ssize_t bytes = ::recv(fd_.get(), buffer, sizeof buffer, 0);
    is_ended_ = bytes <= 0;
    if (bytes > 0) received_.append(buffer, static_cast<std::size_t>(bytes));
    return bytes > 0;
  }

  os::Fd fd_;
  std::string received_;
  bool is_ended_ = false;
};

}  // namespace pawl::http
