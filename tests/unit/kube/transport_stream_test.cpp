#include <catch2/catch_test_macros.hpp>
#include <future>
#include <mutex>

#include "tests/unit/kube/transport_fixture.h"

using namespace pawl;
using namespace pawl::kube;
using std::chrono::milliseconds;

namespace {

constexpr char kChunked[] = "HTTP/1.1 200 X\r\nTransfer-Encoding: chunked\r\n\r\n";

std::string chunk(const std::string& bytes) {
  char size[32];
  std::snprintf(size, sizeof size, "%zx\r\n", bytes.size());
  return size + bytes + "\r\n";
}

}  // namespace

TEST_CASE("transport stream: pieces arrive in order and while the stream is open", "[kube]") {
  std::promise<void> seen;
  Loop loop([&](Peer& peer) {
    peer.read_request();
    peer.write(kChunked + chunk("one "));
    seen.get_future().wait();
    peer.write(chunk("two ") + chunk("three"));
    peer.write("0\r\n\r\n");
    peer.wait_for_end();
  });
  Outcome outcome;
  loop.transport->stream(get("/x"), outcome.bytes(), outcome.done());
  outcome.wait_for_bytes("one ");
  CHECK(outcome.times() == 0);
  seen.set_value();
  const auto end = outcome.wait();
  REQUIRE(end);
  CHECK(end->status == 200);
  CHECK(end->body.empty());
  CHECK(outcome.received() == "one two three");
  // The connection goes on being used.
}

TEST_CASE("transport stream: an answer other than 200 is collected, not streamed", "[kube][B13]") {
  Loop loop([](Peer& peer) {
    peer.read_request();
    peer.write("HTTP/1.1 410 X\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk("Ex") +
               chunk("pired") + "0\r\n\r\n");
    peer.wait_for_end();
  });
  Outcome outcome;
  loop.transport->stream(get("/x"), outcome.bytes(), outcome.done());
  const auto end = outcome.wait();
  REQUIRE(end);
  CHECK(end->status == 410);
  CHECK(end->body == "Expired");
  CHECK(outcome.received().empty());
}

TEST_CASE("transport stream: silence ends it, bytes keep it alive", "[kube][B12]") {
  Loop loop([](Peer& peer) {
    peer.read_request();
    peer.write(kChunked);
    for (int i = 0; i < 20 && peer.lives_on(milliseconds{150}); ++i) peer.write(chunk("x"));
    peer.wait_for_end();
  });
  Outcome outcome;
  const auto begin = std::chrono::steady_clock::now();
  loop.transport->stream(get("/x", milliseconds{2'000}), outcome.bytes(), outcome.done());
  const auto end = outcome.wait();
  CHECK(code_of(end) == Code::kUnavailable);
  CHECK(end.error().message.find("silent for 2000 ms") != std::string::npos);
  CHECK(outcome.received() == std::string(20, 'x'));
  CHECK(since(begin) >= milliseconds{4'900});
}

TEST_CASE("transport stream: a head that never comes is silence too", "[kube][B12]") {
  Loop loop([](Peer& peer) { peer.wait_for_end(); });
  Outcome outcome;
  loop.transport->stream(get("/x", milliseconds{100}), outcome.bytes(), outcome.done());
  CHECK(code_of(outcome.wait()) == Code::kUnavailable);
}

TEST_CASE("transport stream: a cut stream is reported, what came before it was delivered",
          "[kube]") {
  std::promise<void> delivered;
  Loop loop([&](Peer& peer) {
    peer.read_request();
    peer.write(kChunked + chunk("whole") + "64\r\nhalf");
    delivered.get_future().wait();  // the library may drop what it has not handed on when it is cut
  });
  Outcome outcome;
  std::once_flag is_told;
  loop.transport->stream(
      get("/x"),
      [&, bytes = outcome.bytes()](std::string_view part) {
        bytes(part);
        std::call_once(is_told, [&] { delivered.set_value(); });
      },
      outcome.done());
  CHECK(code_of(outcome.wait()) == Code::kUnavailable);
  CHECK(outcome.received().starts_with("whole"));
}

TEST_CASE("transport stream: a reader that is slow holds the server back", "[kube]") {
  constexpr std::size_t kAll = 256 * 1024 * 1024;
  std::promise<std::size_t> stalled;
  Loop loop([&](Peer& peer) {
    peer.read_request();
    peer.write(kChunked);
    stalled.set_value(
        peer.write_until_stalled(chunk(std::string(60'000, 'x')), kAll, milliseconds{300}));
    peer.write("0\r\n\r\n");
    peer.wait_for_end();
  });
  Outcome outcome;
  std::promise<void> go_on;
  std::shared_future<void> may_go_on = go_on.get_future().share();
  std::atomic<std::size_t> received{0};
  loop.transport->stream(
      get("/x", 2 * kPatience),
      [&](std::string_view bytes) {
        may_go_on.wait();
        received += bytes.size();
      },
      outcome.done());
  auto sent = stalled.get_future();
  REQUIRE(sent.wait_for(2 * kPatience) == std::future_status::ready);
  CHECK(sent.get() < 32 * 1024 * 1024);  // what the kernel's buffers hold
  go_on.set_value();
  CHECK(outcome.wait());
  CHECK(received % 60'000 == 0);
  CHECK(received > 0);
}

TEST_CASE("transport stream: cancel from its own callback ends it, nothing comes after done",
          "[kube]") {
  Loop loop([](Peer& peer) {
    peer.read_request();
    peer.write(kChunked);
    while (peer.write(chunk("x"))) {
    }
  });
  for (int i = 0; i < 20; ++i) {
    Outcome outcome;
    std::atomic<RequestHandle> handle{0};
    const auto note = outcome.bytes();
    handle = loop.transport->stream(
        get("/x"),
        [&](std::string_view bytes) {
          note(bytes);
          if (handle != 0) loop.transport->cancel(handle);
        },
        outcome.done());
    CHECK(code_of(outcome.wait()) == Code::kCancelled);
    CHECK(outcome.times() == 1);
    // A call that goes through the same pool comes back after anything that was still on its way.
    (void)loop.transport->send(get("/x", milliseconds{50}), [](const auto&) {});
    CHECK(outcome.late() == 0);
  }
}

TEST_CASE("transport stream: many cancelled at once while bytes arrive all end", "[kube]") {
  Loop loop([](Peer& peer) {
    peer.read_request();
    peer.write(kChunked);
    while (peer.write(chunk("x"))) {
    }
  });
  for (int i = 0; i < 5; ++i) {
    Outcome outcomes[8];
    std::vector<RequestHandle> handles;
    for (Outcome& outcome : outcomes)
      handles.push_back(loop.transport->stream(get("/x"), outcome.bytes(), outcome.done()));
    for (Outcome& outcome : outcomes) outcome.wait_for_bytes("x");
    for (const RequestHandle handle : handles) loop.transport->cancel(handle);
    for (Outcome& outcome : outcomes) REQUIRE(code_of(outcome.wait()) == Code::kCancelled);
  }
}

TEST_CASE("transport stream: streams do not count against the calls", "[kube]") {
  Loop loop(
      [](Peer& peer) {
        const std::string request = peer.read_request();
        if (request.starts_with("GET /watch")) return peer.wait_for_end();
        peer.write(http_answer(200, "x"));
        peer.wait_for_end();
      },
      1);
  Outcome streams[8];
  for (Outcome& outcome : streams)
    loop.transport->stream(get("/watch"), outcome.bytes(), outcome.done());
  CHECK(loop.call(get("/x")));
  loop.transport.reset();
  for (Outcome& outcome : streams) CHECK(code_of(outcome.wait()) == Code::kCancelled);
}

TEST_CASE("transport stream: hundreds of starts and cancels leave nothing behind", "[kube]") {
  Loop loop([](Peer& peer) {
    peer.read_request();
    peer.write(kChunked + chunk("x"));
    peer.wait_for_end();
  });
  for (int i = 0; i < 200; ++i) {
    Outcome outcome;
    const RequestHandle handle = loop.transport->stream(get("/x"), outcome.bytes(), outcome.done());
    if (i % 2 == 0) outcome.wait_for_bytes("x");
    loop.transport->cancel(handle);
    REQUIRE(code_of(outcome.wait()) == Code::kCancelled);
    REQUIRE(outcome.times() == 1);
  }
}
