// Lets an inbound peer's messages through once its Join carries a token that is the pod's own.
// Until then they wait (bounded). Fetches the cluster's public keys when it needs them, again once
// for an unknown key, and at most every 10 s. Owner thread only.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "common/base/clock.h"
#include "launcher/membership/action.h"
#include "launcher/peer/token.h"

namespace pawl::launcher {

struct GatekeeperEvents {
  std::function<void(membership::PeerId, membership::Message)> on_admitted;
  std::function<void(membership::PeerId, const std::string& why)> on_refused;
  std::function<void()> fetch_keys;  // answered by on_keys(), one day
};

class Gatekeeper {
 public:
  Gatekeeper(const Clock& clock, std::string ns, GatekeeperEvents events);
  void on_message(membership::PeerId peer, membership::Message message);
  void on_down(membership::PeerId peer) { peers_.erase(peer); }
  // The JWKS document, or why there is none.
  void on_keys(const Result<std::string>& jwks_json);

 private:
  struct Peer {
    bool is_admitted = false;
    std::deque<membership::Message> waiting;  // the Join first
  };
  void judge(membership::PeerId peer);

  const Clock& clock_;
  std::string ns_;
  GatekeeperEvents events_;
  std::map<membership::PeerId, Peer> peers_;
  std::optional<KeySet> keys_;
  SteadyPoint fetched_{};
  bool is_fetching_ = false;
};

}  // namespace pawl::launcher
