// A small HTTP/1.1 server on Boost.Beast: health probes and metrics of operator and launcher, and
// the embedded API of `pawl run`. Bounded headers, bodies, connections and idle times. The handler
// runs on the server's one thread and must not block; a streaming answer is fed from any thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "common/base/result.h"

namespace pawl::http {

struct Request {
  std::string method;  // "GET"
  std::string target;  // path and query
  std::string authorization;
  std::string content_type;
  std::string body;
};

struct Response {
  int status = 200;
  std::string content_type = "text/plain; charset=utf-8";
  std::string body;
};

// A chunked answer that goes on; write() after the client has gone is ignored and is_open() turns
// false.
class Stream {
 public:
  virtual ~Stream() = default;
  virtual void write(std::string bytes) = 0;
  virtual void close() = 0;
  virtual bool is_open() const = 0;
};

// Exactly one of respond/start_stream is to be called for each request, once, from any thread, also
// after the Server is gone (then nothing happens). A Reply that is dropped unused answers 500.
struct Reply {
  std::function<void(Response)> respond;
  std::function<std::shared_ptr<Stream>(Response head)> start_stream;
};

struct ServerOptions {
  std::string address = "127.0.0.1";
  std::uint16_t port = 0;
  std::size_t header_bytes_max = 16 * 1024;      // beyond: 431
  std::size_t body_bytes_max = 4 * 1024 * 1024;  // beyond: 413
  std::size_t stream_bytes_max =
      16 * 1024 * 1024;               // unsent bytes of one stream; beyond: the client is dropped
  std::size_t connections_max = 512;  // beyond: the one that idles longest is closed
  std::chrono::milliseconds idle_timeout{60'000};     // between requests, and for each write
  std::chrono::milliseconds request_timeout{15'000};  // from a request's first byte to its last
};

using Handler = std::function<void(Request, Reply)>;

class Server {
 public:
  static Result<std::unique_ptr<Server>> start(const ServerOptions& options, Handler handler);
  ~Server();  // closes all connections and joins its thread
  std::uint16_t port() const;

 private:
  class Impl;
  explicit Server(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace pawl::http
