#include <catch2/catch_test_macros.hpp>
#include <future>

#include "common/http/server.h"
#include "tests/unit/http/client.h"

using namespace pawl;
using namespace pawl::http;

namespace {

constexpr char kGet[] = "GET /watch HTTP/1.1\r\nHost: x\r\n\r\n";

// A server whose every answer is a stream that the test holds.
class Streaming {
 public:
  explicit Streaming(ServerOptions options = {}) {
    auto server = Server::start(options, [this](Request request, Reply reply) {
      if (request.target == "/plain") return reply.respond({.body = "plain"});
      started_.set_value(reply.start_stream({.content_type = "application/json"}));
    });
    REQUIRE(server);
    server_ = std::move(*server);
  }
  std::shared_ptr<Stream> next() {
    auto stream = started_.get_future().get();
    started_ = {};
    return stream;
  }
  std::uint16_t port() const { return server_->port(); }
  void stop() { server_.reset(); }

 private:
  std::promise<std::shared_ptr<Stream>> started_;
  std::unique_ptr<Server> server_;
};

// Waits until the server has seen that the client is gone.
bool turns_closed(const Stream& stream) {
  const auto begin = std::chrono::steady_clock::now();
  while (stream.is_open() && std::chrono::steady_clock::now() - begin < kPatience) {
    ::poll(nullptr, 0, 1);
  }
  return !stream.is_open();
}

}  // namespace

TEST_CASE("http stream: chunks arrive as they are written, then the connection goes on", "[http]") {
  Streaming server;
  RawClient client(server.port());
  client.send(kGet);
  const auto stream = server.next();
  const std::string head = client.read_until("\r\n\r\n");
  CHECK(head.find("Transfer-Encoding: chunked") != std::string::npos);
  CHECK(head.find("application/json") != std::string::npos);
  CHECK(stream->is_open());
  stream->write("one\n");
  client.read_until("4\r\none\n\r\n");
  stream->write("twenty-six letters of text");
  client.read_until("1a\r\ntwenty-six letters of text\r\n");
  stream->close();
  CHECK(!stream->is_open());
  client.read_until("0\r\n\r\n");
  client.send("GET /plain HTTP/1.1\r\nHost: x\r\n\r\n");
  client.read_until("plain");
}

TEST_CASE("http stream: what was written before close arrives before the end", "[http]") {
  Streaming server;
  RawClient client(server.port());
  client.send(kGet);
  const auto stream = server.next();
  std::size_t total = 0;
  for (int i = 0; i < 1000; ++i) {
    stream->write(std::string(1000, 'x'));
    total += 1000;
  }
  stream->close();
  const std::string body = client.read_until("\r\n0\r\n\r\n");
  CHECK(static_cast<std::size_t>(std::count(body.begin(), body.end(), 'x')) == total);
}

TEST_CASE("http stream: a client that goes away turns is_open false without a write", "[http]") {
  Streaming server;
  std::optional<RawClient> client(server.port());
  client->send(kGet);
  const auto stream = server.next();
  client->read_until("\r\n\r\n");
  client.reset();
  CHECK(turns_closed(*stream));
  stream->write("ignored");
  stream->close();
}

TEST_CASE("http stream: a dropped stream ends the answer", "[http]") {
  Streaming server;
  RawClient client(server.port());
  client.send(kGet);
  server.next().reset();
  client.read_until("0\r\n\r\n");
}

TEST_CASE("http stream: a client that does not read is cut off at the bound", "[http]") {
  ServerOptions options;
  options.stream_bytes_max = 1'000'000;
  Streaming server(options);
  RawClient client(server.port());
  client.send(kGet);
  const auto stream = server.next();
  client.read_until("\r\n\r\n");
  // Far more than the socket's buffers take, without anybody reading.
  for (int i = 0; i < 2000 && stream->is_open(); ++i) stream->write(std::string(50'000, 'x'));
  CHECK(!stream->is_open());
  CHECK(client.is_closed_by_server());
}

TEST_CASE("http stream: a quiet stream lives longer than the idle and request times", "[http]") {
  ServerOptions options;
  options.idle_timeout = std::chrono::milliseconds{20};
  options.request_timeout = std::chrono::milliseconds{20};
  Streaming server(options);
  RawClient client(server.port());
  client.send(kGet);
  const auto stream = server.next();
  client.read_until("\r\n\r\n");
  // Quiet for ten times as long; the wait ends early only if the server closes.
  pollfd ended{client.fd(), POLLIN, 0};
  CHECK(::poll(&ended, 1, 200) == 0);
  CHECK(stream->is_open());
  stream->write("alive");
  client.read_until("alive");
}

TEST_CASE("http stream: the server's end closes streams that are still held", "[http]") {
  Streaming server;
  RawClient client(server.port());
  client.send(kGet);
  const auto stream = server.next();
  client.read_until("\r\n\r\n");
  server.stop();
  CHECK(client.is_closed_by_server());
  CHECK(!stream->is_open());
  stream->write("ignored");
}

TEST_CASE("http stream: HTTP/1.0 has no chunks and is told so", "[http]") {
  Streaming server;
  RawClient client(server.port());
  client.send("GET /watch HTTP/1.0\r\n\r\n");
  const auto stream = server.next();
  CHECK(client.read_to_end().find(" 505 ") != std::string::npos);
  CHECK(!stream->is_open());
}
