// The production transport against servers that behave and servers that do not: one test a pitfall.
#include <catch2/catch_test_macros.hpp>
#include <fstream>

#include "common/os/process.h"
#include "tests/unit/kube/transport_fixture.h"

using namespace pawl;
using namespace pawl::kube;
using std::chrono::milliseconds;

namespace {

// Answers every request with itself.
void echo(Peer& peer) {
  for (std::string request; !(request = peer.read_request()).empty();) {
    peer.write(http_answer(200, request));
  }
}

constexpr int kPooled = 10;

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("transport: the request arrives as it was built", "[kube]") {
  Loop loop(echo);
  HttpRequest request =
      post("/api/v1/x?labelSelector=a%20in%20%28b%2Cc%29&continue=eyJ%3D%26&limit=5");
  request.method = Method::kPatch;
  request.content_type = "application/merge-patch+json";
  request.body = std::string(300'000, 'b');
  const auto answer = loop.call(request);
  REQUIRE(answer);
  CHECK(answer->status == 200);
  CHECK(answer->body.starts_with(
      "PATCH /api/v1/x?labelSelector=a%20in%20%28b%2Cc%29&continue=eyJ%3D%26&limit=5 "
      "HTTP/1.1\r\n"));
  CHECK(has(answer->body, "Content-Type:application/merge-patch+json\r\n"));
  CHECK(has(answer->body, "User-Agent:pawl-test/1\r\n"));
  CHECK(has(answer->body, "Accept:application/json, */*;q=0.5\r\n"));
  CHECK(answer->body.ends_with("\r\n\r\n" + request.body));
  CHECK(!has(answer->body, "Authorization"));
}

TEST_CASE("transport: the methods are what they are called", "[kube]") {
  Loop loop(echo);
  for (const Method method :
       {Method::kGet, Method::kPost, Method::kPut, Method::kPatch, Method::kDelete}) {
    const auto answer = loop.call({method, "/x", "", "", kPatience});
    REQUIRE(answer);
    CHECK(answer->body.starts_with(std::string{method_name(method)} + " /x HTTP/1.1"));
  }
}

TEST_CASE("transport: one connection serves one call after the other", "[kube]") {
  Loop loop(echo);
  for (int i = 0; i < 50; ++i) REQUIRE(loop.call(i % 2 == 0 ? get("/x") : post("/x")));
  // The library gives a connection back a moment after the answer, so that now and then a second is
  // opened.
  CHECK(loop.server.connections() < 5);
}

TEST_CASE("transport: 4xx, 5xx and empty answers are answers, with Retry-After", "[kube]") {
  Loop loop([](Peer& peer) {
    for (std::string request; !(request = peer.read_request()).empty();) {
      if (has(request, "/throttled")) peer.write(http_answer(429, "slow", "Retry-After: 7\r\n"));
      if (has(request, "/away")) {
        peer.write(http_answer(503, "", "Retry-After: Wed, 21 Oct 2026 07:28:00 GMT\r\n"));
      }
      if (has(request, "/empty")) peer.write("HTTP/1.1 204 No Content\r\n\r\n");
    }
  });
  const auto throttled = loop.call(get("/throttled"));
  REQUIRE(throttled);
  CHECK(throttled->status == 429);
  CHECK(throttled->body == "slow");
  CHECK(throttled->retry_after == std::chrono::seconds{7});
  const auto away = loop.call(get("/away"));
  REQUIRE(away);
  CHECK(away->status == 503);
  CHECK(away->retry_after == std::chrono::seconds{0});
  CHECK(loop.call(get("/empty")).value().status == 204);
}

TEST_CASE("transport: a redirect is not followed and the token goes nowhere else", "[kube]") {
  TestServer other(echo);
  Loop loop([&](Peer& peer) {
    for (std::string request; !(request = peer.read_request()).empty();) {
      const bool is_far = has(request, "/far");
      peer.write(is_far ? http_answer(307, "", "Location: " + other.url() + "/y\r\n")
                        : http_answer(302, "", "Location: /far\r\n"));
    }
  });
  CHECK(loop.call(get("/far")).value().status == 307);
  CHECK(loop.call(get("/near")).value().status == 302);
  CHECK(other.connections() == 0);
}

TEST_CASE("transport: a server that dies in the answer loses a GET and leaves a write unknown",
          "[kube][B14]") {
  for (const char* half : {"HTTP/1.1 200 X\r\nContent-Length: 100\r\n\r\nhalf",
                           "HTTP/1.1 200 X\r\nTransfer-Encoding: chunked\r\n\r\n64\r\nhalf",
                           "HTTP/1.1 200 X\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n",
                           "HTTP/1.1 200 X\r\nContent-Le", "HTTP/1.1 200", ""}) {
    CAPTURE(half);
    Loop loop([half](Peer& peer) {
      peer.read_request();
      peer.write(half);
    });
    CHECK(code_of(loop.call(get("/x"))) == Code::kUnavailable);
    CHECK(code_of(loop.call(post("/x"))) == Code::kOutcomeUnknown);
  }
}

TEST_CASE("transport: a write on a reused connection is never sent twice", "[kube][B14]") {
  std::atomic<int> writes{0};
  Loop loop([&](Peer& peer) {
    for (std::string request; !(request = peer.read_request()).empty();) {
      if (request.starts_with("GET")) {
        peer.write(http_answer(200, "x"));
      } else {
        ++writes;  // applied, and the answer is lost
        return;
      }
    }
  });
  for (int i = 1; i <= 5; ++i) {
    const auto read = loop.call(get("/x"));
    INFO((read ? "" : read.error().message));
    REQUIRE(read);  // the next write reuses this connection
    CHECK(code_of(loop.call(post("/x"))) == Code::kOutcomeUnknown);
    CHECK(writes == i);
  }
}

TEST_CASE("transport: connections that the server closed while they were pooled cost nobody a call",
          "[kube][B14]") {
  std::mutex mutex;
  std::condition_variable changed;
  int arrived = 0, closed = 0;
  bool may_close = false;
  Loop loop([&](Peer& peer) {
    if (peer.read_request().empty()) return;
    std::unique_lock lock(mutex);
    const bool is_late = ++arrived > kPooled;
    changed.notify_all();
    // Only when all are on their way has each its own connection.
    changed.wait(lock, [&] { return arrived >= kPooled; });
    peer.write(http_answer(200, "x"));
    if (is_late) {
      lock.unlock();
      return peer.wait_for_end();
    }
    changed.wait(lock, [&] { return may_close; });
    peer.shut_down();
    ++closed;
    changed.notify_all();
  });
  Outcome outcomes[kPooled];
  for (Outcome& outcome : outcomes) loop.transport->send(get("/x"), outcome.done());
  for (Outcome& outcome : outcomes) REQUIRE(outcome.wait());
  {
    std::unique_lock lock(mutex);
    may_close = true;
    changed.notify_all();
    REQUIRE(changed.wait_for(lock, kPatience, [&] { return closed == kPooled; }));
  }
  const auto answer = loop.call(post("/x"));
  INFO((answer ? "" : answer.error().message));
  CHECK(answer);
}

TEST_CASE("transport: a silent server meets the deadline", "[kube][B12]") {
  Loop loop([](Peer& peer) { peer.wait_for_end(); });
  const auto begin = std::chrono::steady_clock::now();
  const auto lost = loop.call(get("/x", milliseconds{100}));
  CHECK(code_of(lost) == Code::kUnavailable);
  CHECK(has(lost.error().message, "GET /x: no answer within 100 ms"));
  CHECK(code_of(loop.call(post("/x", milliseconds{100}))) == Code::kOutcomeUnknown);
  CHECK(since(begin) >= milliseconds{200});
  CHECK(since(begin) < kPatience / 2);
}

TEST_CASE("transport: bytes that drip do not move the deadline of a call", "[kube]") {
  Loop loop([](Peer& peer) {
    peer.read_request();
    peer.write("HTTP/1.1 200 X\r\nTransfer-Encoding: chunked\r\n\r\n");
    while (peer.lives_on(milliseconds{10}) && peer.write("1\r\nx\r\n")) {
    }
  });
  const auto begin = std::chrono::steady_clock::now();
  CHECK(code_of(loop.call(get("/x", milliseconds{200}))) == Code::kUnavailable);
  CHECK(since(begin) < kPatience / 2);
}

TEST_CASE("transport: what was never sent is Unavailable, writes too", "[kube][B14]") {
  RealClock clock;
  auto listener = os::listen_tcp("127.0.0.1", 0);
  const std::string url =
      "http://127.0.0.1:" + std::to_string(os::local_port(listener->get()).value());
  listener->reset();  // nobody listens there now
  const auto transport = transport_to({.server = url}, clock);
  CHECK(code_of(send_and_wait(*transport, post("/x"))) == Code::kUnavailable);
  CHECK(code_of(send_and_wait(*transport, get("/x"))) == Code::kUnavailable);
}

TEST_CASE("transport: a target that is no URI is Invalid", "[kube]") {
  Loop loop(echo);
  CHECK(code_of(loop.call(get("http://[bad"))) == Code::kInvalid);
  CHECK(loop.call(get("/good")));
}

TEST_CASE("transport: cancel is prompt, and done runs once", "[kube]") {
  Loop loop([](Peer& peer) { peer.wait_for_end(); });
  for (int i = 0; i < 20; ++i) {
    Outcome outcome;
    const auto begin = std::chrono::steady_clock::now();
    const RequestHandle handle = loop.transport->send(post("/x"), outcome.done());
    loop.transport->cancel(handle);
    CHECK(code_of(outcome.wait()) == Code::kCancelled);
    CHECK(since(begin) < milliseconds{2'000});
    loop.transport->cancel(handle);
    loop.transport->cancel(handle + 1'000'000);
    CHECK(outcome.times() == 1);
  }
}

TEST_CASE("transport: at most the given number of calls at once, the rest wait", "[kube]") {
  std::mutex mutex;
  std::condition_variable changed;
  int now = 0, most = 0;
  bool is_open = false;
  Loop loop(
      [&](Peer& peer) {
        while (!peer.read_request().empty()) {
          std::unique_lock lock(mutex);
          most = std::max(most, ++now);
          changed.notify_all();
          changed.wait(lock, [&] { return is_open; });
          --now;
          peer.write(http_answer(200, ""));
        }
      },
      3);
  Outcome outcomes[12];
  for (Outcome& outcome : outcomes) loop.transport->send(get("/x"), outcome.done());
  Outcome late;
  loop.transport->send(post("/x", milliseconds{100}), late.done());
  // It never left the queue, so it surely was not applied.
  CHECK(code_of(late.wait()) == Code::kUnavailable);
  {
    std::unique_lock lock(mutex);
    REQUIRE(changed.wait_for(lock, kPatience, [&] { return now == 3; }));
    is_open = true;
    changed.notify_all();
  }
  for (Outcome& outcome : outcomes) CHECK(outcome.wait());
  CHECK(most == 3);
}

TEST_CASE("transport: its end cancels what is on its way before it returns", "[kube]") {
  Outcome calls[5], stream;
  {
    Loop loop([](Peer& peer) { peer.wait_for_end(); }, 2);
    for (Outcome& outcome : calls) loop.transport->send(get("/x"), outcome.done());
    loop.transport->stream(get("/x"), stream.bytes(), stream.done());
    const auto begin = std::chrono::steady_clock::now();
    loop.transport.reset();
    CHECK(since(begin) < milliseconds{1'500});
    for (Outcome& outcome : calls) CHECK(outcome.times() == 1);
    CHECK(stream.times() == 1);
  }
  for (Outcome& outcome : calls) CHECK(code_of(outcome.wait()) == Code::kCancelled);
}

TEST_CASE("transport: a rotated token is read again after ten seconds, or after a 401", "[kube]") {
  const std::string file = "/tmp/pawl-token-" + os::random_hex(8);
  const auto write = [&](const std::string& token) { std::ofstream(file) << token << "\n"; };
  TestServer server([](Peer& peer) {
    for (std::string request; !(request = peer.read_request()).empty();) {
      peer.write(http_answer(has(request, "Bearer bad") ? 401 : 200, request));
    }
  });
  FakeClock clock;
  const auto transport = transport_to({.server = server.url(), .token_file = file}, clock);
  const auto sends = [&](const std::string& token) {
    const auto answer = send_and_wait(*transport, get("/x"));
    return answer && has(answer->body, "Authorization:Bearer " + token + "\r\n");
  };
  write("one");
  CHECK(sends("one"));
  write("two");
  clock.advance(milliseconds{9'999});
  CHECK(sends("one"));
  clock.advance(milliseconds{1});
  CHECK(sends("two"));
  write("bad");
  clock.advance(milliseconds{10'000});
  CHECK(sends("bad"));
  write("good");
  CHECK(sends("good"));
  // A file that is away for a moment leaves the last token standing.
  ::unlink(file.c_str());
  clock.advance(milliseconds{10'000});
  CHECK(sends("good"));
  CHECK(server.connections() < 4);
}

TEST_CASE("transport: what it sets for its own library does not reach child processes", "[kube]") {
  initialise_http();
  CHECK(os::env("SSL_CERT_FILE") == "/dev/null");
  const auto inherited = os::environment();
  CHECK((!inherited.contains("SSL_CERT_FILE") || inherited.at("SSL_CERT_FILE") != "/dev/null"));
}

TEST_CASE("transport: plain HTTP only to this machine, and other addresses it cannot serve",
          "[kube]") {
  RealClock clock;
  for (const char* server : {"http://10.0.0.1:80", "http://example.com", "ftp://127.0.0.1", "",
                             "nonsense", "https://[::1]:6443", "https://127.0.0.1:6443"}) {
    CAPTURE(server);
    const auto transport = make_transport({.server = server}, clock, {});
    REQUIRE(!transport);
    CHECK(transport.error().code == Code::kInvalid);
  }
  CHECK(make_transport({.server = "http://127.1.2.3:5"}, clock, {}));
  CHECK(make_transport({.server = "http://localhost:5"}, clock, {}));
}
