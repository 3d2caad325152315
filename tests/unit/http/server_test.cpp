#include "common/http/server.h"

#include <catch2/catch_test_macros.hpp>
#include <future>
#include <thread>
#include <vector>

#include "tests/unit/http/client.h"

using namespace pawl;
using namespace pawl::http;

namespace {

// Answers with what it was asked.
void echo(Request request, Reply reply) {
  reply.respond({.status = 200,
                 .content_type = "text/plain",
                 .body = request.method + " " + request.target + " [" + request.authorization +
                         "] [" + request.content_type + "] " + request.body});
}

std::unique_ptr<Server> serve(Handler handler = echo, ServerOptions options = {}) {
  auto server = Server::start(options, std::move(handler));
  REQUIRE(server);
  REQUIRE((*server)->port() != 0);
  return std::move(*server);
}

std::string get(const std::string& target) {
  return "GET " + target + " HTTP/1.1\r\nHost: x\r\n\r\n";
}

}  // namespace

TEST_CASE("http server: a request reaches the handler whole, the connection stays", "[http]") {
  const auto server = serve();
  RawClient client(server->port());
  client.send(
      "POST /a?b=c HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer t\r\nContent-Type: text/x\r\n"
      "Content-Length: 5\r\n\r\nhello");
  const std::string answer = client.read_until("POST /a?b=c [Bearer t] [text/x] hello");
  CHECK(answer.starts_with("HTTP/1.1 200 OK\r\n"));
  CHECK(answer.find("Content-Type: text/plain\r\n") != std::string::npos);
  client.send(get("/second"));
  client.read_until("GET /second [] [] ");
}

TEST_CASE("http server: pipelined requests are answered in order", "[http]") {
  const auto server = serve();
  RawClient client(server->port());
  client.send(get("/1") + get("/2") + get("/3"));
  client.read_until("GET /1 ");
  client.read_until("GET /2 ");
  client.read_until("GET /3 ");
}

TEST_CASE("http server: one byte at a time is still a request", "[http]") {
  const auto server = serve();
  RawClient client(server->port());
  for (const char c : get("/slow")) client.send({&c, 1});
  client.read_until("GET /slow ");
}

TEST_CASE("http server: Connection: close and HTTP/1.0 end the connection after the answer",
          "[http]") {
  const auto server = serve();
  RawClient polite(server->port());
  polite.send("GET /x HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  CHECK(polite.read_to_end().ends_with("GET /x [] [] "));
  RawClient old(server->port());
  old.send("GET /x HTTP/1.0\r\n\r\n");
  CHECK(old.read_to_end().ends_with("GET /x [] [] "));
}

TEST_CASE("http server: HEAD gets the length and no body", "[http]") {
  const auto server = serve();
  RawClient client(server->port());
  client.send("HEAD /x HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  const std::string answer = client.read_to_end();
  CHECK(answer.find("Content-Length: 14\r\n") != std::string::npos);
  CHECK(answer.ends_with("\r\n\r\n"));
}

TEST_CASE("http server: a client that expects 100-continue is told to go on", "[http]") {
  const auto server = serve();
  RawClient client(server->port());
  client.send("PUT /x HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
  client.read_until("HTTP/1.1 100 Continue\r\n\r\n");
  client.send("ok");
  client.read_until("] ok");
}

TEST_CASE("http server: a half-sent request is closed at the deadline", "[http]") {
  ServerOptions options;
  options.request_timeout = std::chrono::milliseconds{100};
  const auto server = serve(echo, options);
  const auto begin = std::chrono::steady_clock::now();
  RawClient header(server->port());
  header.send("GET /x HTTP/1.1\r\nHost:");
  RawClient body(server->port());
  body.send("POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nhalf");
  CHECK(header.is_closed_by_server());
  CHECK(body.is_closed_by_server());
  CHECK(std::chrono::steady_clock::now() - begin < kPatience / 2);
}

TEST_CASE("http server: dripping bytes does not move the deadline", "[http]") {
  ServerOptions options;
  options.request_timeout = std::chrono::milliseconds{200};
  const auto server = serve(echo, options);
  RawClient client(server->port());
  client.send("GET / HTTP/1.1\r\nX: ");
  const auto begin = std::chrono::steady_clock::now();
  // The pause between the bytes is the wait for the server's end itself.
  pollfd ended{client.fd(), POLLIN, 0};
  while (::poll(&ended, 1, 20) == 0 && std::chrono::steady_clock::now() - begin < kPatience) {
    client.send("x");
  }
  CHECK(client.is_closed_by_server());
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds{2});
}

TEST_CASE("http server: an idle connection is closed after the idle time", "[http]") {
  ServerOptions options;
  options.idle_timeout = std::chrono::milliseconds{50};
  const auto server = serve(echo, options);
  RawClient fresh(server->port());
  CHECK(fresh.is_closed_by_server());
  RawClient used(server->port());
  used.send(get("/x"));
  used.read_until("GET /x ");
  CHECK(used.is_closed_by_server());
}

TEST_CASE("http server: an oversized header is answered 431, a body 413", "[http]") {
  ServerOptions options;
  options.body_bytes_max = 1000;
  const auto server = serve(echo, options);
  RawClient header(server->port());
  header.send("GET / HTTP/1.1\r\nX: " + std::string(options.header_bytes_max, 'x') + "\r\n\r\n");
  CHECK(header.read_to_end().starts_with("HTTP/1.1 431 "));
  RawClient endless(server->port());
  endless.send("GET / HTTP/1.1\r\nX: " + std::string(1'000'000, 'x'));
  CHECK(endless.read_to_end().starts_with("HTTP/1.1 431 "));
  RawClient body(server->port());
  body.send("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1001\r\n\r\n" + std::string(1001, 'x'));
  CHECK(body.read_to_end().starts_with("HTTP/1.1 413 "));
  RawClient chunks(server->port());
  chunks.send("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n7d0\r\n" +
              std::string(2000, 'x'));
  CHECK(chunks.read_to_end().starts_with("HTTP/1.1 413 "));
}

TEST_CASE("http server: malformed requests are refused and the server lives on", "[http]") {
  const auto server = serve();
  for (const char* bytes : {"\x16\x03\x01\x02\x01 TLS here\r\n\r\n", "GET\r\n\r\n",
                            "GET / HTTP/9.9\r\n\r\n", "GET / HTTP/1.1\r\nbad header\r\n\r\n",
                            "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n\r\n",
                            "POST / HTTP/1.1\r\nContent-Length: -5\r\n\r\n"}) {
    CAPTURE(bytes);
    RawClient client(server->port());
    client.send(bytes);
    CHECK(client.read_to_end().starts_with("HTTP/1.1 400 "));
  }
  RawClient client(server->port());
  client.send(get("/alive"));
  client.read_until("GET /alive ");
}

TEST_CASE("http server: the handler may answer later and from another thread", "[http]") {
  std::promise<Reply> asked;
  const auto server = serve([&](Request, Reply reply) { asked.set_value(std::move(reply)); });
  RawClient client(server->port());
  client.send(get("/x"));
  std::thread answering(
      [&] { asked.get_future().get().respond({.status = 503, .body = "not ready"}); });
  client.read_until("HTTP/1.1 503 Service Unavailable\r\n");
  client.read_until("not ready");
  answering.join();
}

TEST_CASE("http server: a handler that forgets its reply answers 500", "[http]") {
  const auto server = serve([](Request, Reply) {});
  RawClient client(server->port());
  client.send(get("/x"));
  client.read_until("HTTP/1.1 500 ");
}

TEST_CASE("http server: replies outlive the client and the server", "[http]") {
  std::promise<Reply> first, second;
  auto server = serve([&](Request request, Reply reply) {
    (request.target == "/first" ? first : second).set_value(std::move(reply));
  });
  std::optional<RawClient> client(server->port());
  client->send(get("/first"));
  Reply late = first.get_future().get();
  client.reset();
  RawClient other(server->port());
  other.send(get("/second"));
  Reply later = second.get_future().get();
  late.respond({});
  server.reset();
  CHECK(other.is_closed_by_server());
  const auto stream = later.start_stream({});
  stream->write("x");
  CHECK(!stream->is_open());
}

TEST_CASE("http server: beyond the cap the client that idles longest makes room", "[http]") {
  const auto server = serve();
  const std::size_t cap = ServerOptions{}.connections_max;
  REQUIRE(cap == 512);
  std::vector<std::unique_ptr<RawClient>> clients;
  for (std::size_t i = 0; i < cap; ++i) {
    clients.push_back(std::make_unique<RawClient>(server->port()));
  }
  // The first is not the longest idle any more: it has just been answered.
  clients.front()->send(get("/full"));
  clients.front()->read_until("GET /full ");
  RawClient next(server->port());
  next.send("GET /next HTTP/1.1\r\nConnection: close\r\n\r\n");
  CHECK(next.read_to_end().find("/next") != std::string::npos);
  CHECK(clients[1]->is_closed_by_server());
  clients.front()->send(get("/again"));
  clients.front()->read_until("GET /again ");
}

TEST_CASE("http server: an address that is taken or wrong is an error", "[http]") {
  const auto server = serve();
  ServerOptions same;
  same.port = server->port();
  const auto taken = Server::start(same, echo);
  REQUIRE(!taken);
  CHECK(taken.error().code == Code::kIo);
  ServerOptions wrong;
  wrong.address = "localhost";
  CHECK(Server::start(wrong, echo).error().code == Code::kInvalid);
}
