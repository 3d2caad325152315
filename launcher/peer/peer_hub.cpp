#include "launcher/peer/peer_hub.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <algorithm>
#include <utility>

namespace pawl::launcher {

using membership::kLeaderPeer;

PeerHub::PeerHub(Poller& poller, const Clock& clock, TlsIdentity identity, PeerEvents events,
                 PeerLimits limits)
    : poller_(poller),
      clock_(clock),
      identity_(std::move(identity)),
      events_(std::move(events)),
      limits_(limits) {}

Result<std::unique_ptr<PeerHub>> PeerHub::create(Poller& poller, const Clock& clock,
                                                 const std::string& address, PeerEvents events,
                                                 PeerLimits limits) {
  PAWL_TRY(identity, make_tls_identity());
  PAWL_TRY(listener, os::listen_tcp(address, 0, 1024));
  PAWL_TRY(port, os::local_port(listener.get()));
  PAWL_TRY_VOID(os::set_nonblocking(listener.get(), true));
  auto hub = std::unique_ptr<PeerHub>(
      new PeerHub(poller, clock, std::move(identity), std::move(events), limits));
  hub->listener_ = std::move(listener);
  hub->port_ = port;
  poller.add(hub->listener_.get(), EPOLLIN,
             [raw = hub.get()](std::uint32_t) { raw->accept_all(); });
  return hub;
}

PeerHub::~PeerHub() {
  poller_.remove(listener_.get());
  for (const auto& [id, peer] : peers_) poller_.remove(peer.connection.fd());
}

void PeerHub::accept_all() {
  while (true) {
    os::Fd fd{::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK)};
    if (!fd.is_open()) return;
    const auto strangers =
        std::ranges::count_if(peers_, [](const auto& entry) { return !entry.second.is_trusted; });
    if (std::cmp_greater_equal(strangers, limits_.strangers_max)) continue;
    const int on = 1;
    ::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    auto connection = Connection::start(identity_.server.get(), std::move(fd), "");
    if (!connection) continue;
    connection->set_frame_bytes_max(limits_.stranger_frame_bytes_max);
    add(++last_id_, std::move(*connection));
  }
}

void PeerHub::add(PeerId id, Connection connection) {
  const int fd = connection.fd();
  const std::uint32_t events = EPOLLIN | (connection.wants_write() ? EPOLLOUT : 0U);
  peers_.insert_or_assign(id, Peer{std::move(connection), clock_.steady_now(), id == kLeaderPeer});
  poller_.add(fd, events, [this, id](std::uint32_t) { service(id); });
}

void PeerHub::dial(const std::string& address, const std::string& fingerprint) {
  close(kLeaderPeer);
  const auto begin = [&]() -> Status {
    PAWL_TRY(where, os::split_host_port(address));
    if (fingerprint.empty()) return fail(Code::kInvalid, "the record holds no fingerprint");
    PAWL_TRY(fd, os::start_connect_tcp(where.first, where.second));
    PAWL_TRY(connection, Connection::start(identity_.client.get(), std::move(fd), fingerprint));
    add(kLeaderPeer, std::move(connection));
    return {};
  };
  const Status begun = begin();
  if (!begun) dial_error_ = begun.error().message;
}

void PeerHub::service(PeerId id) {
  Peer& peer = peers_.at(id);
  const Status status = peer.connection.service();
  const std::vector<std::string> frames = peer.connection.take_frames();
  if (peer.connection.is_open() && !peer.was_open) {
    peer.was_open = true;
    if (id == kLeaderPeer) events_.on_up();
  }
  for (const std::string& text : frames) {
    if (!peers_.contains(id)) return;  // a handler closed it
    events_.on_message(id, text);
  }
  const auto found = peers_.find(id);
  if (found == peers_.end()) return;
  if (!status) return drop(id, status.error().message);
  poller_.modify(found->second.connection.fd(),
                 EPOLLIN | (found->second.connection.wants_write() ? EPOLLOUT : 0U));
}

void PeerHub::send(PeerId id, const std::string& text) {
  const auto found = peers_.find(id);
  if (found == peers_.end()) return;
  Connection& connection = found->second.connection;
  // An error here also makes the socket ready: service() reports it.
  const Status status = connection.send(text);
  poller_.modify(connection.fd(), EPOLLIN | (!status || connection.wants_write() ? EPOLLOUT : 0U));
}

void PeerHub::trust(PeerId id) {
  const auto found = peers_.find(id);
  if (found == peers_.end()) return;
  found->second.is_trusted = true;
  found->second.connection.set_frame_bytes_max(kFrameBytesMax);
}

void PeerHub::forget(PeerId id) {
  const auto found = peers_.find(id);
  if (found == peers_.end()) return;
  poller_.remove(found->second.connection.fd());
  peers_.erase(found);
}

void PeerHub::drop(PeerId id, const std::string& why) {
  forget(id);
  events_.on_down(id, why);
}

void PeerHub::close(PeerId id) {
  if (id == kLeaderPeer) dial_error_.clear();
  forget(id);
}

void PeerHub::on_tick() {
  if (!dial_error_.empty()) events_.on_down(kLeaderPeer, std::exchange(dial_error_, {}));
  const SteadyPoint now = clock_.steady_now();
  std::vector<std::pair<PeerId, std::string>> late;
  for (const auto& [id, peer] : peers_) {
    if (id == kLeaderPeer && !peer.was_open && now - peer.since > limits_.dial) {
      late.emplace_back(id, "no connection within " + std::to_string(limits_.dial.count()) + " ms");
    } else if (!peer.is_trusted && now - peer.since > limits_.stranger) {
      late.emplace_back(id, "did not say who it is");
    }
  }
  for (const auto& [id, why] : late) drop(id, why);
}

void PeerHub::finish(std::chrono::milliseconds deadline) {
  events_ = PeerEvents{[] {}, [](PeerId, const std::string&) {}, [](PeerId, const std::string&) {}};
  poller_.remove(listener_.get());
  const SteadyPoint end = clock_.steady_now() + deadline;
  const std::chrono::milliseconds turn{20};
  while (!is_flushed() && clock_.steady_now() < end) poller_.run_once(turn);
  for (auto& [id, peer] : peers_) peer.connection.finish();
  while (!peers_.empty() && clock_.steady_now() < end) poller_.run_once(turn);
}

bool PeerHub::is_flushed() const {
  return std::ranges::none_of(peers_, [](const auto& entry) {
    return entry.second.was_open && entry.second.connection.has_unsent();
  });
}

}  // namespace pawl::launcher
