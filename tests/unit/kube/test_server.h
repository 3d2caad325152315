// A TCP or TLS server that does to its clients exactly what a test says, well-behaved or not: a
// thread a connection runs the script. And a certificate authority that lives for one test.
#pragma once

#include <openssl/ssl.h>

#include <atomic>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "common/os/fd.h"

namespace pawl::kube {

struct KeyPair {
  std::string certificate;  // PEM
  std::string key;          // PEM
};

// A certificate authority; `subject_names` as OpenSSL writes them: "IP:127.0.0.1,DNS:x". Empty:
// none.
class TestAuthority {
 public:
  TestAuthority();
  const std::string& certificate() const { return own_.certificate; }
  KeyPair issue(const std::string& subject_names, const std::string& common_name = "test") const;

 private:
  KeyPair own_;
};

// One connection, in the server's thread for it. Reads and writes end (false, 0) when the client or
// the test goes.
class Peer {
 public:
  Peer(os::Fd fd, SSL_CTX* tls);
  ~Peer();
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  // A whole request, head and body; empty at the end of the connection.
  std::string read_request();
  bool write(std::string_view bytes);
  // Writes until the client takes no more for `patience`; how many bytes went out.
  std::size_t write_until_stalled(std::string_view piece, std::size_t bytes_max,
                                  std::chrono::milliseconds patience);
  // Blocks until the client closes.
  void wait_for_end();
  // Waits for `time`, or less if the client closes.
  bool lives_on(std::chrono::milliseconds time);
  void shut_down();

 private:
  bool read_some();
  os::Fd fd_;
  std::unique_ptr<SSL, decltype(&SSL_free)> ssl_;
  std::string received_;
};

class TestServer {
 public:
  using Script = std::function<void(Peer&)>;
  explicit TestServer(Script script, const KeyPair& identity = {},
                      const std::string& client_authority = "");
  ~TestServer();
  TestServer(const TestServer&) = delete;
  TestServer& operator=(const TestServer&) = delete;

  std::uint16_t port() const { return port_; }
  std::string url() const;
  int connections() const { return connections_; }

 private:
  void accept_all();

  Script script_;
  std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> tls_;
  os::Fd listener_;
  os::Fd wake_read_, wake_write_;
  std::uint16_t port_ = 0;
  std::atomic<int> connections_{0};
  std::mutex mutex_;
  std::list<std::weak_ptr<Peer>> peers_;
  std::vector<std::thread> threads_;  // one a connection
  std::thread acceptor_;
};

std::string http_answer(int status, const std::string& body, const std::string& headers = "");

}  // namespace pawl::kube
