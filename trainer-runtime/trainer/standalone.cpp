#include "trainer-runtime/trainer/standalone.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <charconv>
#include <cstring>
#include <optional>

#include "common/os/fd.h"
#include "common/os/process.h"
#include "common/os/real_clock.h"

namespace pawl::trainer {
namespace {

using namespace api::channel;
using std::chrono::milliseconds;

constexpr std::chrono::minutes kMeetingDeadline{2};
constexpr milliseconds kRetry{20}, kAnswerDeadline{5'000};
constexpr std::uint32_t kLetterBytesMax = 1 << 20;

// A message on a stream: its length in network order, then its text.
Status send_letter(int fd, const std::string& text) {
  const std::uint32_t length = htonl(static_cast<std::uint32_t>(text.size()));
  std::string letter(reinterpret_cast<const char*>(&length), sizeof length);
  letter += text;
  for (std::size_t sent = 0; sent < letter.size();) {
    const ssize_t count = ::send(fd, letter.data() + sent, letter.size() - sent, MSG_NOSIGNAL);
    if (count < 0 && errno != EINTR) return fail(Code::kUnavailable, os::errno_text());
    if (count > 0) sent += static_cast<std::size_t>(count);
  }
  return {};
}

Status read_exactly(int fd, char* to, std::size_t bytes, milliseconds timeout) {
  while (bytes > 0) {
    pollfd waiting{fd, POLLIN, 0};
    if (::poll(&waiting, 1, static_cast<int>(timeout.count())) == 0)
      return fail(Code::kUnavailable, "time is up");
    const ssize_t count = ::recv(fd, to, bytes, MSG_DONTWAIT);
    if (count < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (count <= 0) return fail(Code::kUnavailable, "connection closed");
    to += count;
    bytes -= static_cast<std::size_t>(count);
  }
  return {};
}

Result<std::string> receive_letter(int fd, milliseconds timeout) {
  std::uint32_t length = 0;
  PAWL_TRY_VOID(read_exactly(fd, reinterpret_cast<char*>(&length), sizeof length, timeout));
  length = ntohl(length);
  if (length > kLetterBytesMax) return fail(Code::kInvalid, "a letter that is too long");
  std::string text(length, '\0');
  PAWL_TRY_VOID(read_exactly(fd, text.data(), length, timeout));
  return text;
}

std::string numeric(const sockaddr* address, socklen_t length) {
  std::array<char, NI_MAXHOST> host{};
  if (::getnameinfo(address, length, host.data(), host.size(), nullptr, 0, NI_NUMERICHOST) != 0)
    return "";
  const std::string text = host.data();
  return text.starts_with("::ffff:") ? text.substr(7) : text;  // IPv4 on an IPv6 socket
}

std::string peer_of(int fd) {
  sockaddr_storage storage{};
  socklen_t length = sizeof storage;
  auto* address = reinterpret_cast<sockaddr*>(&storage);
  return ::getpeername(fd, address, &length) == 0 ? numeric(address, length) : "";
}

// The address under which this machine reaches the others: the one that a connection to rank 0
// uses.
std::string own_address(int fd) {
  sockaddr_storage storage{};
  socklen_t length = sizeof storage;
  auto* address = reinterpret_cast<sockaddr*>(&storage);
  return ::getsockname(fd, address, &length) == 0 ? numeric(address, length) : "";
}

std::optional<std::string> resolve(const std::string& name) {
  addrinfo hints{}, *list = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  if (::getaddrinfo(name.c_str(), nullptr, &hints, &list) != 0 || list == nullptr)
    return std::nullopt;
  const std::string address = numeric(list->ai_addr, list->ai_addrlen);
  ::freeaddrinfo(list);
  return address;
}

struct Guest {
  os::Fd fd;
  std::string address;
};

// Waits for `fd`, if it is one, to be readable; false when the time is up. Cancelled: a signal
// came.
Result<bool> wait_for(int fd, milliseconds timeout, Signals& signals) {
  std::array<pollfd, 2> waiting{pollfd{signals.fd(), POLLIN, 0}, pollfd{fd, POLLIN, 0}};
  ::poll(waiting.data(), waiting.size(), static_cast<int>(timeout.count()));
  if (signals.has_come()) return fail(Code::kCancelled, "stopped before the gang was formed");
  return waiting[1].revents != 0;
}

Result<std::vector<Guest>> host_meeting(const Place& place, const Hello& hello, Signals& signals) {
  auto listener = os::listen_tcp("::", place.master_port);
  if (!listener) listener = os::listen_tcp("0.0.0.0", place.master_port);
  if (!listener) return tl::make_unexpected(listener.error());
  const RealClock clock;
  const SteadyPoint deadline = clock.steady_now() + kMeetingDeadline;
  std::vector<Guest> guests(static_cast<std::size_t>(place.world_size));
  for (int missing = place.world_size - 1; missing > 0;) {
    const auto left = std::chrono::duration_cast<milliseconds>(deadline - clock.steady_now());
    if (left.count() <= 0) {
      return fail(Code::kUnavailable, std::to_string(missing) + " of " +
                                          std::to_string(place.world_size) + " ranks did not come");
    }
    PAWL_TRY(has_guest, wait_for(listener->get(), left, signals));
    if (!has_guest) continue;
    os::Fd fd{::accept4(listener->get(), nullptr, nullptr, SOCK_CLOEXEC)};
    const auto letter = receive_letter(fd.get(), kAnswerDeadline);
    const auto message =
        letter ? decode_from_process(*letter) : tl::make_unexpected(letter.error());
    const auto* guest = message ? std::get_if<Hello>(&*message) : nullptr;
    if (guest == nullptr || guest->rank <= 0 || guest->rank >= place.world_size) continue;
    if (guest->config_hash != hello.config_hash) {
      return fail(Code::kInvalid, "rank " + std::to_string(guest->rank) +
                                      " has another configuration or other data than rank 0");
    }
    Guest& entry = guests[static_cast<std::size_t>(guest->rank)];
    if (entry.fd.is_open())
      return fail(Code::kInvalid, "two processes say they are rank " + std::to_string(guest->rank));
    entry.address = os::join_host_port(peer_of(fd.get()), guest->data_port);
    if (guests[0].address.empty())
      guests[0].address = os::join_host_port(own_address(fd.get()), hello.data_port);
    entry.fd = std::move(fd);
    --missing;
  }
  return guests;
}

Result<Welcome> host(const Place& place, const Hello& hello, Signals& signals) {
  PAWL_TRY(guests, host_meeting(place, hello, signals));
  Welcome welcome;
  welcome.world_size = place.world_size;
  welcome.key = os::random_hex(32);
  for (int rank = 0; rank < place.world_size; ++rank) {
    welcome.peers.push_back({rank, guests[static_cast<std::size_t>(rank)].address});
  }
  for (int rank = 1; rank < place.world_size; ++rank) {
    Welcome theirs = welcome;
    theirs.rank = rank;
    PAWL_TRY_VOID(
        send_letter(guests[static_cast<std::size_t>(rank)].fd.get(), encode(ToProcess{theirs})));
  }
  return welcome;
}

Result<Welcome> visit(const Place& place, const Hello& hello, Signals& signals) {
  const RealClock clock;
  const SteadyPoint deadline = clock.steady_now() + kMeetingDeadline;
  while (true) {
    const auto address = resolve(place.master_address);
    auto fd = address ? os::connect_tcp(*address, place.master_port, kAnswerDeadline)
                      : Result<os::Fd>(fail(Code::kUnavailable, "no such host"));
    if (fd) {
      PAWL_TRY_VOID(send_letter(fd->get(), encode(FromProcess{hello})));
      PAWL_TRY(letter, receive_letter(fd->get(), kMeetingDeadline));
      PAWL_TRY(message, decode_to_process(letter));
      if (const auto* welcome = std::get_if<Welcome>(&message)) return *welcome;
      return fail(Code::kInvalid, "rank 0 answered with something else");
    }
    if (clock.steady_now() > deadline)
      return fail_with(fd.error(), "rank 0 at " + place.master_address);
    // Rank 0 may not listen yet, and nothing tells when it does.
    PAWL_TRY_VOID(wait_for(-1, kRetry, signals));
  }
}

}  // namespace

Result<Place> place_from(const std::map<std::string, std::string>& environment) {
  const auto number = [&](const char* name, long least, long most) -> Result<long> {
    const auto found = environment.find(name);
    long value = -1;
    if (found != environment.end()) {
      const std::string& text = found->second;
      const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
      if (error != std::errc{} || end != text.data() + text.size()) value = -1;
    }
    if (value >= least && value <= most) return value;
    return fail(Code::kInvalid, std::string("the environment variable ") + name +
                                    " must be a number from " + std::to_string(least) + " to " +
                                    std::to_string(most));
  };
  Place place;
  if (!environment.contains("RANK") && !environment.contains("WORLD_SIZE")) return place;
  PAWL_TRY(world_size, number("WORLD_SIZE", 1, 65'536));
  PAWL_TRY(rank, number("RANK", 0, world_size - 1));
  place.rank = static_cast<int>(rank);
  place.world_size = static_cast<int>(world_size);
  if (world_size == 1) return place;
  PAWL_TRY(port, number("MASTER_PORT", 1, 65'535));
  place.master_port = static_cast<std::uint16_t>(port);
  const auto address = environment.find("MASTER_ADDR");
  if (address == environment.end() || address->second.empty()) {
    return fail(Code::kInvalid, "the environment variable MASTER_ADDR must name rank 0's host");
  }
  place.master_address = address->second;
  return place;
}

Result<Welcome> meet(const Place& place, const Hello& hello, Signals& signals) {
  if (place.world_size == 1) return Welcome{};
  return place.rank == 0 ? host(place, hello, signals) : visit(place, hello, signals);
}

}  // namespace pawl::trainer
