#include "launcher/peer/gatekeeper.h"

#include <utility>
#include <vector>

#include "common/api/contract.h"

namespace pawl::launcher {
namespace {

using membership::Join;
using membership::Message;
using membership::PeerId;

constexpr std::size_t kWaitingMax = 64;
constexpr std::chrono::seconds kFetchEvery{10};

}  // namespace

Gatekeeper::Gatekeeper(const Clock& clock, std::string ns, GatekeeperEvents events)
    : clock_(clock), ns_(std::move(ns)), events_(std::move(events)) {}

void Gatekeeper::on_message(PeerId id, Message message) {
  Peer& peer = peers_[id];
  // Once admitted, a second Join on the connection could only claim to be somebody else.
  if (peer.is_admitted) {
    if (!std::holds_alternative<Join>(message)) events_.on_admitted(id, std::move(message));
    return;
  }
  if (peer.waiting.empty() && !std::holds_alternative<Join>(message)) {
    peers_.erase(id);
    events_.on_refused(id, "the first message must be a join");
    return;
  }
  if (peer.waiting.size() >= kWaitingMax) return;
  peer.waiting.push_back(std::move(message));
  if (peer.waiting.size() == 1) judge(id);
}

void Gatekeeper::judge(PeerId id) {
  const auto found = peers_.find(id);
  if (found == peers_.end() || found->second.is_admitted || found->second.waiting.empty()) return;
  const Join& join = std::get<Join>(found->second.waiting.front());
  const TokenExpectation expected{api::kTokenAudience, ns_, join.self.uid};
  const Status status =
      keys_ ? verify_token(join.token, *keys_, expected, clock_.now())
            : Status{fail(Code::kNotFound, "the cluster's public keys are not here yet")};
  if (status) {
    found->second.is_admitted = true;
    std::deque<Message> waiting = std::exchange(found->second.waiting, {});
    std::get<Join>(waiting.front()).token.clear();
    for (Message& message : waiting) events_.on_admitted(id, std::move(message));
    return;
  }
  const bool may_fetch = !keys_ || clock_.steady_now() - fetched_ >= kFetchEvery;
  if (status.error().code == Code::kNotFound && (is_fetching_ || may_fetch)) {
    if (!std::exchange(is_fetching_, true)) events_.fetch_keys();
    return;  // on_keys() judges again
  }
  peers_.erase(found);
  events_.on_refused(id, status.error().message);
}

void Gatekeeper::on_keys(const Result<std::string>& jwks_json) {
  is_fetching_ = false;
  auto keys = jwks_json ? KeySet::parse(*jwks_json)
                        : Result<KeySet>{tl::make_unexpected(jwks_json.error())};
  std::vector<PeerId> waiting;
  for (const auto& [id, peer] : peers_) {
    if (!peer.is_admitted) waiting.push_back(id);
  }
  if (keys) {
    keys_ = std::move(*keys);
    fetched_ = clock_.steady_now();
    for (const PeerId id : waiting) judge(id);
    return;
  }
  // They dial again; by then the API server may answer.
  for (const PeerId id : waiting) {
    peers_.erase(id);
    events_.on_refused(id, "cannot read the cluster's public keys: " + keys.error().message);
  }
}

}  // namespace pawl::launcher
