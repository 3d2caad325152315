#include <sys/socket.h>
#include <unistd.h>
#include <catch2/catch_test_macros.hpp>
#include <map>

#include "common/os/process.h"
#include "common/os/real_clock.h"
#include "launcher/peer/peer_hub.h"
#include "peer_fixture.h"

using namespace pawl;
using namespace pawl::launcher;
using namespace pawl::launcher::test;

namespace {

struct Side {
  explicit Side(Poller& poller, PeerLimits limits = {}) {
    os::ignore_sigpipe();
    hub = PeerHub::create(
              poller, clock, "127.0.0.1",
              {.on_up = [this] { is_up = true; },
               .on_message =
                   [this](PeerId peer, const std::string& text) {
                     last_peer = peer;
                     texts.push_back(text);
                   },
               .on_down = [this](PeerId peer, const std::string& why) { downs[peer] = why; }},
              limits)
              .value();
  }
  std::string address() const { return "127.0.0.1:" + std::to_string(hub->port()); }
  RealClock clock;
  std::unique_ptr<PeerHub> hub;
  bool is_up = false;
  PeerId last_peer = 0;
  std::vector<std::string> texts;
  std::map<PeerId, std::string> downs;
};

}  // namespace

TEST_CASE("peer_hub: frames of any size arrive whole and in order, both ways", "[launcher]") {
  auto poller = Poller::create().value();
  Side leader{*poller}, follower{*poller};
  follower.hub->dial(leader.address(), leader.hub->fingerprint());
  REQUIRE(run_until(*poller, [&] { return follower.is_up; }));
  follower.hub->send(membership::kLeaderPeer, "hello");
  REQUIRE(run_until(*poller, [&] { return leader.texts.size() == 1; }));
  leader.hub->trust(leader.last_peer);
  const std::string large(kFrameBytesMax, 'x');
  for (int i = 0; i < 5; ++i) {
    follower.hub->send(membership::kLeaderPeer, large);
    follower.hub->send(membership::kLeaderPeer, "");
    leader.hub->send(leader.last_peer, std::to_string(i));
  }
  REQUIRE(
      run_until(*poller, [&] { return leader.texts.size() == 11 && follower.texts.size() == 5; }));
  CHECK(leader.texts[1] == large);
  CHECK(leader.texts[10].empty());
  CHECK(follower.texts.back() == "4");
}

TEST_CASE("peer_hub: another certificate than the record's gets no byte from us",
          "[launcher][E12]") {
  auto poller = Poller::create().value();
  Side leader{*poller}, impostor{*poller}, follower{*poller};
  follower.hub->dial(impostor.address(), leader.hub->fingerprint());
  follower.hub->send(membership::kLeaderPeer, "the token");
  REQUIRE(run_until(*poller, [&] { return follower.downs.contains(membership::kLeaderPeer); }));
  CHECK_FALSE(follower.is_up);
  CHECK(follower.downs[membership::kLeaderPeer].find("certificate") != std::string::npos);
  REQUIRE(run_until(*poller, [&] { return !impostor.downs.empty(); }));
  CHECK(impostor.texts.empty());
}

TEST_CASE("peer_hub: nobody there, a wrong address, no fingerprint", "[launcher]") {
  auto poller = Poller::create().value();
  Side follower{*poller};
  std::string nobody;
  {
    const Side gone{*poller};
    nobody = gone.address();
  }
  struct Row {
    std::string address, fingerprint;
  };
  for (const Row& row : {Row{nobody, "aa"}, Row{"no address", "aa"}, Row{nobody, ""}}) {
    INFO(row.address);
    follower.downs.clear();
    follower.hub->dial(row.address, row.fingerprint);
    REQUIRE(run_until(*poller, [&] {
      follower.hub->on_tick();
      return follower.downs.contains(membership::kLeaderPeer);
    }));
  }
}

TEST_CASE("peer_hub: a stranger may send little, and must say soon who it is", "[launcher]") {
  auto poller = Poller::create().value();
  PeerLimits limits;
  limits.stranger = std::chrono::milliseconds{100};
  limits.stranger_frame_bytes_max = 1000;
  Side leader{*poller, limits}, follower{*poller};
  follower.hub->dial(leader.address(), leader.hub->fingerprint());
  REQUIRE(run_until(*poller, [&] { return follower.is_up; }));
  SECTION("a large frame") { follower.hub->send(membership::kLeaderPeer, std::string(1001, 'x')); }
  SECTION("silence") {}
  REQUIRE(run_until(*poller, [&] {
    leader.hub->on_tick();
    return follower.downs.contains(membership::kLeaderPeer);
  }));
  CHECK(leader.texts.empty());
  CHECK(leader.downs.size() == 1);
}

TEST_CASE("peer_hub: bytes that are no TLS end that connection and no other", "[launcher]") {
  auto poller = Poller::create().value();
  Side leader{*poller}, follower{*poller};
  follower.hub->dial(leader.address(), leader.hub->fingerprint());
  const os::Fd raw =
      os::connect_tcp("127.0.0.1", leader.hub->port(), std::chrono::milliseconds{1000}).value();
  const std::string garbage = "GET / HTTP/1.1\r\n\r\n";
  REQUIRE(::send(raw.get(), garbage.data(), garbage.size(), MSG_NOSIGNAL) > 0);
  REQUIRE(run_until(*poller, [&] { return follower.is_up && leader.downs.size() == 1; }));
  follower.hub->send(membership::kLeaderPeer, "still here");
  CHECK(run_until(*poller, [&] { return leader.texts.size() == 1; }));
}

TEST_CASE(
    "peer_hub: what was sent before the end arrives, although nobody reads our own last bytes",
    "[launcher]") {
  auto poller = Poller::create().value();
  Side leader{*poller};
  auto follower_poller = Poller::create().value();
  Side follower{*follower_poller};
  follower.hub->dial(leader.address(), leader.hub->fingerprint());
  while (!follower.is_up) {
    follower_poller->run_once(std::chrono::milliseconds{5});
    poller->run_once(std::chrono::milliseconds{5});
  }
  follower.hub->send(membership::kLeaderPeer, "join");
  REQUIRE(run_until(*poller, [&] { return leader.texts.size() == 1; }));
  leader.hub->send(leader.last_peer, "a heartbeat that the follower never reads");
  follower.hub->send(membership::kLeaderPeer, "exit");
  follower.hub->finish(std::chrono::milliseconds{50});
  follower.hub.reset();
  REQUIRE(run_until(*poller, [&] { return !leader.downs.empty(); }));
  CHECK(leader.texts == std::vector<std::string>{"join", "exit"});
}

TEST_CASE("peer_hub: close tells nothing, a new dial replaces the old one", "[launcher]") {
  auto poller = Poller::create().value();
  Side first{*poller}, second{*poller}, follower{*poller};
  follower.hub->dial(first.address(), first.hub->fingerprint());
  REQUIRE(run_until(*poller, [&] { return follower.is_up; }));
  follower.is_up = false;
  follower.hub->dial(second.address(), second.hub->fingerprint());
  REQUIRE(run_until(*poller, [&] { return follower.is_up && first.downs.size() == 1; }));
  CHECK(follower.downs.empty());
  follower.hub->send(membership::kLeaderPeer, "x");
  CHECK(run_until(*poller, [&] { return second.texts.size() == 1; }));
}
