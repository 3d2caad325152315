#include "trainer-runtime/collective/handshake.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <algorithm>
#include <cstring>
#include <thread>
#include <type_traits>

#include "common/base/hash.h"
#include "common/os/process.h"
#include "common/os/real_clock.h"

namespace pawl::collective {
namespace {

using std::chrono::milliseconds;

constexpr std::uint32_t kMagic = 0x314c5750;  // "PWL1"
constexpr milliseconds kHandshakeDeadline{5'000};
constexpr std::byte kAccepted{0x2a};
// How long a rank that was refused still answers its own visitor, so that this one learns of the
// wrong key, and not only of a lost connection.
constexpr milliseconds kFarewell{1'000};
constexpr eventfd_t kLeave = 1, kAnswerOneMore = 2;

// All integers little-endian, as on every machine this runs on; a big-endian one would see a wrong
// magic.
struct Introduction {
  std::uint32_t magic = kMagic, world_size = 0;
  std::uint32_t from = 0, to = 0;
  std::int64_t generation = 0;
  std::uint64_t nonce = 0, nonce2 = 0;
};
struct Challenge {
  std::uint64_t nonce = 0, nonce2 = 0;
  Mac mac{};
};
static_assert(std::has_unique_object_representations_v<Introduction>);

template <typename T>
std::span<const std::byte> bytes_of(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}
template <typename T>
std::span<std::byte> writable_bytes_of(T& value) {
  return std::as_writable_bytes(std::span(&value, 1));
}

// Until when, and what ends it before.
struct Patience {
  SteadyPoint deadline;
  int abort_fd = -1;
};

Status wait_for(int fd, short events, const Patience& patience) {
  const auto left = std::chrono::ceil<milliseconds>(patience.deadline - RealClock{}.steady_now());
  std::array<pollfd, 2> waiting{pollfd{fd, events, 0}, pollfd{patience.abort_fd, POLLIN, 0}};
  const int ready = left.count() <= 0
                        ? 0
                        : ::poll(waiting.data(), waiting.size(), static_cast<int>(left.count()));
  if (ready > 0 && waiting[1].revents != 0) return fail(Code::kUnavailable, "told to park");
  if (ready > 0 || (ready < 0 && errno == EINTR)) return {};
  return fail(Code::kUnavailable, ready < 0 ? os::errno_text() : "time is up");
}

Status write_all(int fd, std::span<const std::byte> bytes, const Patience& patience) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent > 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(sent));
    } else if (errno != EAGAIN && errno != EINTR) {
      return fail(Code::kUnavailable, os::errno_text());
    } else {
      PAWL_TRY_VOID(wait_for(fd, POLLOUT, patience));
    }
  }
  return {};
}

Status read_all(int fd, std::span<std::byte> bytes, const Patience& patience) {
  while (!bytes.empty()) {
    const ssize_t got = ::recv(fd, bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (got > 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(got));
    } else if (got == 0) {
      return fail(Code::kUnavailable, "connection closed");
    } else if (errno != EAGAIN && errno != EINTR) {
      return fail(Code::kUnavailable, os::errno_text());
    } else {
      PAWL_TRY_VOID(wait_for(fd, POLLIN, patience));
    }
  }
  return {};
}

Mac proof(const RingOptions& options, const char* side, const Introduction& introduction,
          const Challenge& challenge) {
  std::string text = side;
  for (const std::byte byte : bytes_of(introduction)) text += static_cast<char>(byte);
  for (const std::byte byte : bytes_of(challenge).first(16)) text += static_cast<char>(byte);
  return hmac_sha256(options.key, text);
}

// Does not stop at the first difference, so that time tells nothing about the right value.
bool is_equal(const Mac& a, const Mac& b) {
  std::byte difference{0};
  for (std::size_t i = 0; i < a.size(); ++i) difference |= a[i] ^ b[i];
  return difference == std::byte{0};
}

// A machine that vanishes without a reset is noticed by whoever receives from it, by the kernel's
// own probes, after about silence_max; by whoever sends, in Link. Not by TCP_USER_TIMEOUT: that
// ends the connection to a rank, too, which is alive and computes for longer than its buffers have
// room.
void tune(int fd, std::chrono::milliseconds silence_max) {
  const int on = 1, interval_s = 1, probes = 3;
  const auto idle_s = static_cast<int>(silence_max.count() / 1000) - interval_s * probes;
  const int first_s = std::max(idle_s, 1);
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  ::setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &first_s, sizeof first_s);
  ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval_s, sizeof interval_s);
  ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
}

Introduction introduction_of(const RingOptions& options, int from) {
  Introduction mine;
  mine.world_size = static_cast<std::uint32_t>(options.world_size);
  mine.from = static_cast<std::uint32_t>(from);
  mine.to = static_cast<std::uint32_t>((from + 1) % options.world_size);
  mine.generation = options.generation;
  return mine;
}

// A machine accepts a connection by itself, or refuses it, whatever its process does: one that does
// neither is not reached. A new pod's network may be a moment late.
Result<os::Fd> dial(const RingOptions& options, int rank) {
  const std::string& peer = options.peers[static_cast<std::size_t>(rank)];
  PAWL_TRY(address, os::split_host_port(peer));
  PAWL_TRY(fd, os::start_connect_tcp(address.first, address.second));
  const auto limit = std::min(options.connect_deadline, 2 * options.silence_max);
  const Patience patience{RealClock{}.steady_now() + limit, options.abort_fd};
  const auto is_decided = [&fd] {
    pollfd waiting{fd.get(), POLLOUT, 0};
    return ::poll(&waiting, 1, 0) > 0;
  };
  while (!is_decided()) {
    const Status waited = wait_for(fd.get(), POLLOUT, patience);
    if (waited) continue;
    const bool is_silent = RealClock{}.steady_now() >= patience.deadline;
    if (is_silent && options.on_unreached) options.on_unreached(rank);
    return tl::make_unexpected(waited.error());
  }
  int error = 0;
  socklen_t length = sizeof error;
  ::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &length);
  if (is_unreached(error) && options.on_unreached) options.on_unreached(rank);
  if (error != 0) return fail(Code::kUnavailable, os::errno_text(error));
  PAWL_TRY_VOID(os::set_nonblocking(fd.get(), false));
  return fd;
}

Result<os::Fd> connect_next(const RingOptions& options) {
  const int next = (options.rank + 1) % options.world_size;
  const std::string who =
      "rank " + std::to_string(next) + " at " + options.peers[static_cast<std::size_t>(next)];
  const Patience patience{RealClock{}.steady_now() + options.connect_deadline, options.abort_fd};
  auto fd = dial(options, next);
  if (!fd) return fail_with(fd.error(), "connecting to " + who);
  Introduction mine = introduction_of(options, options.rank);
  mine.nonce = os::entropy();
  mine.nonce2 = os::entropy();
  Challenge theirs;
  auto status = write_all(fd->get(), bytes_of(mine), patience);
  if (status) status = read_all(fd->get(), writable_bytes_of(theirs), patience);
  if (!status) return fail_with(status.error(), "greeting " + who);
  if (!is_equal(theirs.mac, proof(options, "accept", mine, theirs))) {
    return fail(Code::kForbidden, who + " does not hold this generation's key");
  }
  std::byte answer{0};
  const Mac mac = proof(options, "connect", mine, theirs);
  status = write_all(fd->get(), mac, patience);
  if (status) status = read_all(fd->get(), {&answer, 1}, patience);
  if (!status || answer != kAccepted) return fail(Code::kForbidden, who + " refused this rank");
  tune(fd->get(), options.silence_max);
  return std::move(*fd);
}

// Whether the peer behind `fd` is the previous rank of this ring.
Status greet(const RingOptions& options, int fd, const Patience& patience) {
  const int previous = (options.rank + options.world_size - 1) % options.world_size;
  Introduction theirs;
  Challenge mine;
  mine.nonce = os::entropy();
  mine.nonce2 = os::entropy();
  PAWL_TRY_VOID(read_all(fd, writable_bytes_of(theirs), patience));
  Introduction expected = introduction_of(options, previous);
  expected.nonce = theirs.nonce;
  expected.nonce2 = theirs.nonce2;
  if (std::memcmp(&expected, &theirs, sizeof theirs) != 0) {
    return fail(Code::kForbidden, "a peer came as rank " + std::to_string(theirs.from) +
                                      " of generation " + std::to_string(theirs.generation) +
                                      " for rank " + std::to_string(theirs.to));
  }
  mine.mac = proof(options, "accept", theirs, mine);
  PAWL_TRY_VOID(write_all(fd, bytes_of(mine), patience));
  Mac mac{};
  PAWL_TRY_VOID(read_all(fd, mac, patience));
  if (!is_equal(mac, proof(options, "connect", theirs, mine))) {
    return fail(Code::kForbidden, "a peer came with another key");
  }
  PAWL_TRY_VOID(write_all(fd, {&kAccepted, 1}, patience));
  tune(fd, options.silence_max);
  return {};
}

// Until a connection waits, or `cancel` is written to, or time is up.
bool has_visitor(const os::Fd& listener, const os::Fd& cancel, const Patience& patience) {
  const auto left =
      std::chrono::duration_cast<milliseconds>(patience.deadline - RealClock{}.steady_now());
  std::array<pollfd, 3> waiting{pollfd{listener.get(), POLLIN, 0}, pollfd{cancel.get(), POLLIN, 0},
                                pollfd{patience.abort_fd, POLLIN, 0}};
  const int ready = left.count() <= 0
                        ? 0
                        : ::poll(waiting.data(), waiting.size(), static_cast<int>(left.count()));
  return ready > 0 && waiting[1].revents == 0 && waiting[2].revents == 0;
}

Result<os::Fd> accept_previous(const RingOptions& options, const os::Fd& listener,
                               const os::Fd& cancel) {
  SteadyPoint deadline = RealClock{}.steady_now() + options.connect_deadline;
  const int previous = (options.rank + options.world_size - 1) % options.world_size;
  const std::string who = "rank " + std::to_string(previous) + " at " +
                          options.peers[static_cast<std::size_t>(previous)];
  std::string refused;
  bool is_leaving = false;
  while (true) {
    if (!has_visitor(listener, cancel, {deadline, options.abort_fd})) {
      eventfd_t order = kLeave;
      if (::eventfd_read(cancel.get(), &order) == 0 && order == kAnswerOneMore && refused.empty()) {
        deadline = std::min(deadline, RealClock{}.steady_now() + kFarewell);
        is_leaving = true;
        continue;
      }
      return fail(refused.empty() ? Code::kUnavailable : Code::kForbidden,
                  who + " did not connect" + refused);
    }
    os::Fd fd{::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC)};
    if (!fd.is_open()) continue;
    const Patience soon{std::min(deadline, RealClock{}.steady_now() + kHandshakeDeadline),
                        options.abort_fd};
    const Status status = greet(options, fd.get(), soon);
    if (status) return fd;
    refused = "; " + status.error().message;
    if (is_leaving) deadline = RealClock{}.steady_now();
  }
}

}  // namespace

Mac hmac_sha256(std::string_view key, std::string_view message) {
  const auto raw = [](const std::string& hex) {
    const auto digit = [](char c) { return c <= '9' ? c - '0' : c - 'a' + 10; };
    std::string bytes;
    for (std::size_t i = 0; i < hex.size(); i += 2)
      bytes += static_cast<char>(digit(hex[i]) * 16 + digit(hex[i + 1]));
    return bytes;
  };
  std::string block = key.size() > 64 ? raw(sha256_hex(key)) : std::string(key);
  block.resize(64, '\0');
  std::string inner = block, outer = block;
  for (char& c : inner) c = static_cast<char>(c ^ 0x36);
  for (char& c : outer) c = static_cast<char>(c ^ 0x5c);
  const std::string digest = raw(sha256_hex(outer + raw(sha256_hex(inner + std::string(message)))));
  Mac mac{};
  std::memcpy(mac.data(), digest.data(), mac.size());
  return mac;
}

bool is_unreached(int error) {
  return error == ETIMEDOUT || error == EHOSTUNREACH || error == ENETUNREACH;
}

Result<Neighbours> connect_ring(const RingOptions& options, const os::Fd& listener) {
  // Both at once: the next rank answers only while it accepts, and so do we.
  Result<os::Fd> from_previous = fail(Code::kUnavailable, "not connected");
  const os::Fd cancel{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  std::thread accepting([&] { from_previous = accept_previous(options, listener, cancel); });
  Result<os::Fd> to_next = connect_next(options);
  if (!to_next) {
    const bool is_refused = to_next.error().code == Code::kForbidden;
    ::eventfd_write(cancel.get(), is_refused ? kAnswerOneMore : kLeave);
  }
  accepting.join();
  // The more telling one of two errors: a wrong key rather than somebody who did not come for that
  // reason.
  if (!to_next && (from_previous || from_previous.error().code != Code::kForbidden)) {
    return tl::make_unexpected(to_next.error());
  }
  if (!from_previous) return tl::make_unexpected(from_previous.error());
  return Neighbours{std::move(*to_next), std::move(*from_previous)};
}

}  // namespace pawl::collective
