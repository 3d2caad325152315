// The launcher's connections to other launchers: one listener, any number of inbound peers, at most
// one outbound (to the leader). Says what came and who went; knows nothing of what messages mean.
// Owner thread only, driven by Poller.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "common/base/clock.h"
#include "launcher/loop/poller.h"
#include "launcher/membership/action.h"
#include "launcher/peer/connection.h"

namespace pawl::launcher {

using membership::PeerId;

struct PeerEvents {
  std::function<void()> on_up;  // the outbound connection is open
  std::function<void(PeerId, const std::string& text)> on_message;
  std::function<void(PeerId, const std::string& why)>
      on_down;  // never after close() or a new dial()
};

struct PeerLimits {
  std::chrono::milliseconds dial{2000};      // to connect and shake hands
  std::chrono::milliseconds stranger{5000};  // an inbound peer must be trusted by then
  std::size_t strangers_max = 4096;
  std::size_t stranger_frame_bytes_max = 64 * 1024;
};

class PeerHub {
 public:
  // Listens on `address`, port 0.
  static Result<std::unique_ptr<PeerHub>> create(Poller& poller, const Clock& clock,
                                                 const std::string& address, PeerEvents events,
                                                 PeerLimits limits = {});
  ~PeerHub();

  std::uint16_t port() const { return port_; }
  const std::string& fingerprint() const { return identity_.fingerprint; }

  void dial(const std::string& address, const std::string& fingerprint);
  void send(PeerId peer, const std::string& text);
  void close(PeerId peer);
  // Its token was found good: larger frames, no deadline.
  void trust(PeerId peer);
  void on_tick();
  // Before the process exits: sends what is queued, closes our half, and waits for the others to
  // close theirs, at most this long. No events are told any more.
  void finish(std::chrono::milliseconds deadline);

 private:
  PeerHub(Poller& poller, const Clock& clock, TlsIdentity identity, PeerEvents events,
          PeerLimits limits);
  struct Peer {
    Connection connection;
    SteadyPoint since;
    bool is_trusted = false, was_open = false;
  };
  void accept_all();
  void add(PeerId id, Connection connection);
  void service(PeerId id);
  void drop(PeerId id, const std::string& why);
  void forget(PeerId id);
  bool is_flushed() const;

  Poller& poller_;
  const Clock& clock_;
  TlsIdentity identity_;
  PeerEvents events_;
  PeerLimits limits_;
  os::Fd listener_;
  std::uint16_t port_ = 0;
  PeerId last_id_ = membership::kLeaderPeer;
  std::map<PeerId, Peer> peers_;
  std::string dial_error_;  // of a dial that could not even begin; told at the next tick
};

}  // namespace pawl::launcher
