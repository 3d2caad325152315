#include <catch2/catch_test_macros.hpp>

#include "common/base/json.h"
#include "launcher/peer/gatekeeper.h"
#include "launcher/peer/token.h"
#include "peer_fixture.h"

using namespace pawl;
using namespace pawl::launcher;
using namespace pawl::launcher::test;
using nlohmann::json;

namespace {

json good_claims(const Clock& clock) {
  const auto now =
      std::chrono::duration_cast<std::chrono::seconds>(clock.now().time_since_epoch()).count();
  return {{"aud", {"pawl-launcher"}},
          {"exp", now + 600},
          {"nbf", now - 5},
          {"kubernetes.io", {{"namespace", "team"}, {"pod", {{"name", "p"}, {"uid", "uid-1"}}}}}};
}

const TokenExpectation kExpected{"pawl-launcher", "team", "uid-1"};

}  // namespace

TEST_CASE("token: a pod's own token is good, with either kind of key", "[launcher]") {
  const FakeClock clock;
  for (const auto kind : {Issuer::Kind::kRsa, Issuer::Kind::kEc}) {
    const Issuer issuer{kind, "k1"};
    const auto keys = KeySet::parse(issuer.jwks());
    REQUIRE(keys.has_value());
    REQUIRE(keys->size() == 1);
    CHECK(verify_token(issuer.sign(good_claims(clock).dump()), *keys, kExpected, clock.now())
              .has_value());
    json one_audience = good_claims(clock);
    one_audience["aud"] = "pawl-launcher";
    CHECK(
        verify_token(issuer.sign(one_audience.dump()), *keys, kExpected, clock.now()).has_value());
  }
}

TEST_CASE("token: every wrong claim is refused, and the reason says which", "[launcher]") {
  const FakeClock clock;
  const Issuer issuer{Issuer::Kind::kEc, "k1"};
  const auto keys = KeySet::parse(issuer.jwks());
  const auto now = good_claims(clock)["exp"].get<std::int64_t>() - 600;
  struct Row {
    const char* pointer;
    json value;
    const char* reason;
  };
  const Row rows[] = {
      {"/aud", "https://kubernetes.default.svc", "wrong audience"},
      {"/aud", json::array({"a", "b"}), "wrong audience"},
      {"/exp", now - 60, "expired"},
      {"/nbf", now + 60, "not valid yet"},
      {"/kubernetes.io/namespace", "other", "of another namespace"},
      {"/kubernetes.io/pod/uid", "uid-2", "of another pod"},
      {"/kubernetes.io/pod", nullptr, "a claim is missing"},
      {"/kubernetes.io", nullptr, "a claim is missing"},
      {"/exp", "soon", "a claim is missing or of the wrong type"},
  };
  for (const Row& row : rows) {
    INFO(row.pointer << " = " << row.value);
    json claims = good_claims(clock);
    claims[json::json_pointer{row.pointer}] = row.value;
    const Status status = verify_token(issuer.sign(claims.dump()), *keys, kExpected, clock.now());
    REQUIRE_FALSE(status.has_value());
    CHECK(status.error().code == Code::kForbidden);
    CHECK(status.error().message.find(row.reason) != std::string::npos);
  }
}

TEST_CASE("token: what is not signed by the cluster is refused", "[launcher]") {
  const FakeClock clock;
  const Issuer cluster{Issuer::Kind::kEc, "k1"}, stranger{Issuer::Kind::kEc, "k1"},
      unknown{Issuer::Kind::kEc, "k2"};
  const auto keys = KeySet::parse(cluster.jwks());
  const std::string claims = good_claims(clock).dump();
  const std::string good = cluster.sign(claims);
  const auto code_of = [&](const std::string& token) {
    const Status status = verify_token(token, *keys, kExpected, clock.now());
    return status ? std::string{"good"} : std::string{code_name(status.error().code)};
  };
  CHECK(code_of(good) == "good");
  CHECK(code_of(stranger.sign(claims)) == "Forbidden");
  CHECK(code_of(unknown.sign(claims)) == "NotFound");
  CHECK(code_of(cluster.sign(claims, "none")) == "Forbidden");
  CHECK(code_of(cluster.sign(claims, "RS256")) == "Forbidden");
  CHECK(code_of(cluster.sign(claims, "HS256")) == "Forbidden");
  CHECK(code_of(good.substr(0, good.rfind('.') + 1)) == "Forbidden");
  std::string changed = good;
  changed[good.find('.') + 5] = changed[good.find('.') + 5] == 'A' ? 'B' : 'A';
  CHECK(code_of(changed) == "Forbidden");
  for (const char* text : {"", ".", "..", "a.b", "a.b.c", "!!.??.##"})
    CHECK(code_of(text) == "Forbidden");
}

TEST_CASE("token: a pod without an identity is nobody", "[launcher]") {
  const FakeClock clock;
  const Issuer issuer{Issuer::Kind::kEc, "k1"};
  const auto keys = KeySet::parse(issuer.jwks());
  json claims = good_claims(clock);
  claims["kubernetes.io"]["pod"]["uid"] = "";
  CHECK_FALSE(
      verify_token(issuer.sign(claims.dump()), *keys, {"pawl-launcher", "team", ""}, clock.now())
          .has_value());
}

TEST_CASE("gatekeeper: messages wait for the keys, a rotated key is fetched once", "[launcher]") {
  FakeClock clock;
  const Issuer first{Issuer::Kind::kEc, "k1"}, second{Issuer::Kind::kEc, "k2"};
  std::vector<std::string> seen;
  int fetches = 0;
  Gatekeeper gatekeeper{
      clock,
      "team",
      {.on_admitted =
           [&](membership::PeerId peer, const membership::Message& message) {
             seen.push_back("admitted " + std::to_string(peer));
             const auto* join = std::get_if<membership::Join>(&message);
             if (join != nullptr) CHECK(join->token.empty());
           },
       .on_refused = [&](membership::PeerId peer,
                         const std::string&) { seen.push_back("refused " + std::to_string(peer)); },
       .fetch_keys = [&] { ++fetches; }}};
  const auto join_of = [&](const Issuer& issuer, const std::string& uid) {
    membership::Join join;
    join.self.uid = uid;
    join.token = issuer.sign(good_claims(clock).dump());
    return join;
  };
  gatekeeper.on_message(2, join_of(first, "uid-1"));
  gatekeeper.on_message(2, membership::Ready{});
  gatekeeper.on_message(3, join_of(first, "uid-other"));
  CHECK(seen.empty());
  CHECK(fetches == 1);
  gatekeeper.on_keys(first.jwks());
  CHECK(seen == std::vector<std::string>{"admitted 2", "admitted 2", "refused 3"});

  seen.clear();
  gatekeeper.on_message(4, membership::Heartbeat{});
  CHECK(seen == std::vector<std::string>{"refused 4"});
  gatekeeper.on_message(5, join_of(second, "uid-1"));  // too soon after the last fetch
  CHECK(seen.back() == "refused 5");
  clock.advance(std::chrono::seconds{11});
  gatekeeper.on_message(6, join_of(second, "uid-1"));
  CHECK(fetches == 2);
  gatekeeper.on_keys(second.jwks());
  CHECK(seen.back() == "admitted 6");
  gatekeeper.on_message(6, join_of(second, "uid-1"));  // it cannot become somebody else
  CHECK(seen.size() == 3);
  gatekeeper.on_message(7, join_of(first, "uid-1"));
  clock.advance(std::chrono::seconds{11});
  gatekeeper.on_message(8, join_of(first, "uid-1"));
  gatekeeper.on_keys(fail(Code::kUnavailable, "away"));
  CHECK(seen.back() == "refused 8");
}
