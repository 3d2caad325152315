// One TLS connection between launchers: handshake, then frames (4 bytes of length, big-endian, then
// the text) in both directions. Non-blocking: service() does what is possible now. Owner thread
// only.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/os/fd.h"
#include "launcher/peer/certificate.h"

namespace pawl::launcher {

inline constexpr std::size_t kFrameBytesMax = 1 << 20;
inline constexpr std::size_t kUnsentBytesMax = 8 << 20;  // beyond, the other side is not reading

class Connection {
 public:
  // A client (dial) has the fingerprint that the server's certificate must have; a server has none.
  static Result<Connection> start(SSL_CTX* ctx, os::Fd fd, const std::string& expected_fingerprint);

  // Call when the socket is ready. An error ends the connection.
  Status service();
  // Queued until the handshake is over.
  Status send(std::string_view text);
  std::vector<std::string> take_frames();
  // Nothing more will be sent. The socket stays readable, or closing it could destroy what is still
  // on its way.
  void finish();

  bool is_open() const { return is_open_; }  // the handshake is over and the fingerprint is right
  bool has_unsent() const { return !unsent_.empty(); }
  bool wants_write() const { return is_connecting_ || wants_write_ || (is_open_ && has_unsent()); }
  int fd() const { return fd_.get(); }
  // Before the other side has proved who it is, a frame may only be small.
  void set_frame_bytes_max(std::size_t bytes) { frame_bytes_max_ = bytes; }

 private:
  Connection(os::Fd fd, Openssl<SSL> ssl, std::string expected_fingerprint);
  Status handshake();
  Status read_frames();
  Status write_unsent();
  Status failed(int result, const char* what);

  os::Fd fd_;
  Openssl<SSL> ssl_;  // after fd_: freed first
  std::string expected_fingerprint_;
  bool is_connecting_ = false, is_open_ = false, wants_write_ = false;
  std::size_t frame_bytes_max_ = kFrameBytesMax;
  std::string received_, unsent_;
  std::vector<std::string> frames_;
};

}  // namespace pawl::launcher
