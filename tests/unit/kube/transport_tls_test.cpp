#include <catch2/catch_test_macros.hpp>

#include "tests/unit/kube/transport_fixture.h"

using namespace pawl;
using namespace pawl::kube;

namespace {

void hello(Peer& peer) {
  while (!peer.read_request().empty()) peer.write(http_answer(200, "hello"));
}

Result<HttpResponse> call(const ClusterConfig& config) {
  const RealClock clock;
  const auto transport = transport_to(config, clock);
  return send_and_wait(*transport, post("/x"));
}

bool says(const Result<HttpResponse>& result, const std::string& text) {
  INFO(result.error().message);
  return result.error().message.find(text) != std::string::npos;
}

}  // namespace

TEST_CASE("transport TLS: the cluster's CA and the right address are accepted, connections pooled",
          "[kube]") {
  const TestAuthority authority;
  TestServer server(hello, authority.issue("IP:127.0.0.1"));
  const RealClock clock;
  const auto transport =
      transport_to({.server = server.url(), .ca_data = authority.certificate()}, clock);
  for (int i = 0; i < 50; ++i) {
    const auto answer = send_and_wait(*transport, post("/x"));
    REQUIRE(answer);
    CHECK(answer->body == "hello");
  }
  CHECK(server.connections() < 10);
}

TEST_CASE("transport TLS: another CA is refused, and surely nothing was sent", "[kube]") {
  const TestAuthority authority, other;
  TestServer server(hello, authority.issue("IP:127.0.0.1"));
  const auto result = call({.server = server.url(), .ca_data = other.certificate()});
  CHECK(code_of(result) == Code::kUnavailable);
  CHECK(says(result, "the server's certificate was refused"));
}

TEST_CASE("transport TLS: another address or name in the certificate is refused", "[kube]") {
  const TestAuthority authority;
  for (const char* names : {"IP:127.0.0.2", "DNS:127.0.0.1", "DNS:localhost", ""}) {
    CAPTURE(names);
    // The common name is right; it does not count.
    TestServer server(hello, authority.issue(names, "127.0.0.1"));
    const auto result = call({.server = server.url(), .ca_data = authority.certificate()});
    CHECK(code_of(result) == Code::kUnavailable);
    CHECK(says(result, "IP address mismatch"));
  }
}

TEST_CASE("transport TLS: a server given by name is verified by name", "[kube]") {
  const TestAuthority authority;
  TestServer good(hello, authority.issue("DNS:localhost"));
  const std::string url = "https://localhost:" + std::to_string(good.port());
  CHECK(call({.server = url, .ca_data = authority.certificate()}));
  TestServer bad(hello, authority.issue("DNS:other,IP:127.0.0.1"));
  const auto result = call({.server = "https://localhost:" + std::to_string(bad.port()),
                            .ca_data = authority.certificate()});
  CHECK(code_of(result) == Code::kUnavailable);
  CHECK(says(result, "ostname mismatch"));
}

TEST_CASE("transport TLS: the client certificate is presented", "[kube]") {
  const TestAuthority authority, other;
  TestServer server(hello, authority.issue("IP:127.0.0.1"), authority.certificate());
  ClusterConfig config{.server = server.url(), .ca_data = authority.certificate()};
  const KeyPair good = authority.issue("", "me");
  config.client_cert_data = good.certificate;
  config.client_key_data = good.key;
  CHECK(call(config));
  const KeyPair stranger = other.issue("", "me");
  config.client_cert_data = stranger.certificate;
  config.client_key_data = stranger.key;
  CHECK(!call(config));
  config.client_cert_data.clear();
  CHECK(!call(config));
}

TEST_CASE("transport TLS: PEM texts that cannot work are refused at the start", "[kube]") {
  const TestAuthority authority;
  const KeyPair one = authority.issue(""), two = authority.issue("");
  const RealClock clock;
  const auto refused = [&](const std::string& ca, const std::string& certificate,
                           const std::string& key) {
    const auto transport = make_transport({.server = "https://127.0.0.1:1",
                                           .ca_data = ca,
                                           .client_cert_data = certificate,
                                           .client_key_data = key},
                                          clock, {});
    return !transport && transport.error().code == Code::kInvalid;
  };
  CHECK(refused("", "", ""));
  CHECK(refused("junk", "", ""));
  CHECK(refused(authority.certificate(), "junk", one.key));
  CHECK(refused(authority.certificate(), one.certificate, "junk"));
  CHECK(refused(authority.certificate(), one.certificate, two.key));
  CHECK(!refused(authority.certificate(), one.certificate, one.key));
}

TEST_CASE("transport TLS: a server that does not speak TLS, or goes during the handshake",
          "[kube]") {
  const TestAuthority authority;
  TestServer plain([](Peer& peer) {
    peer.write(http_answer(400, "this is HTTP"));
    peer.wait_for_end();
  });
  TestServer gone([](Peer&) {});
  TestServer silent([](Peer& peer) { peer.wait_for_end(); });
  const RealClock clock;
  for (const TestServer* server : {&plain, &gone, &silent}) {
    const std::string url = "https://127.0.0.1:" + std::to_string(server->port());
    const auto transport = transport_to({.server = url, .ca_data = authority.certificate()}, clock);
    // Nothing of the request was sent: a write is Unavailable, not unknown.
    CHECK(code_of(send_and_wait(*transport, post("/x", std::chrono::milliseconds{300}))) ==
          Code::kUnavailable);
  }
}
