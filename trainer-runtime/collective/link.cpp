#include "trainer-runtime/collective/link.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <utility>

#include "common/os/process.h"
#include "common/os/real_clock.h"
#include "trainer-runtime/collective/verdict.h"
#include "trainer-runtime/kernels/kernels.h"

namespace pawl::collective {
namespace {

// Sums are faster while what arrived is still in the cache.
constexpr std::size_t kPiece = std::size_t{256} << 10;
constexpr int kTurnMs = 50;
// Who is told to stop has nobody to name, unless it has waited for longer.
constexpr std::chrono::milliseconds kStall{1'000};

std::string describe(const Frame& frame) {
  const char* const names[] = {
      "sum of floats",       "sum of doubles",          "broadcast",
      "sum of integers",     "scattered sum of floats", "scattered sum of integers",
      "gathering of floats", "gathering of bytes",      "unknown"};
  const auto index = std::min(static_cast<std::size_t>(frame.operation), std::size(names) - 1);
  return "operation " + std::to_string(frame.sequence) + " (" + names[index] + ", bucket " +
         std::to_string(frame.bucket) + ", " + std::to_string(frame.total) + " bytes)";
}

template <typename T>
void add(std::size_t count, const std::byte* from, std::byte* to) {
  for (std::size_t i = 0; i < count; ++i) {
    T a = 0, b = 0;
    std::memcpy(&a, from + i * sizeof a, sizeof a);
    std::memcpy(&b, to + i * sizeof b, sizeof b);
    b += a;
    std::memcpy(to + i * sizeof b, &b, sizeof b);
  }
}

void add(Arrival arrival, std::size_t count, const std::byte* from, std::byte* to) {
  if (arrival == Arrival::kAddFloat) {
    kernels::table<float>().add(static_cast<kernels::Index>(count),
                                reinterpret_cast<const float*>(from), reinterpret_cast<float*>(to));
  } else if (arrival == Arrival::kAddInteger) {
    add<std::uint64_t>(count, from, to);  // unsigned: what is too large must not be undefined
  } else {
    add<double>(count, from, to);
  }
}

}  // namespace

const char* name_of(Operation operation) {
  switch (operation) {
    case Operation::kSumFloat:
    case Operation::kSumDouble:
    case Operation::kSumInteger:
      return "all-reduce";
    case Operation::kBroadcast:
      return "broadcast";
    case Operation::kScatterFloat:
    case Operation::kScatterInteger:
      return "reduce-scatter";
    case Operation::kGatherFloat:
    case Operation::kGatherBytes:
      return "all-gather";
  }
  return "operation";
}

std::size_t element_bytes(Arrival arrival) {
  return arrival == Arrival::kAddFloat ? sizeof(float) : sizeof(double);
}

struct Link::Sending {
  Frame frame;
  std::span<const std::byte> payload;
  std::size_t done = 0;  // of header and payload together
  bool is_done() const { return payload.empty() || done == sizeof frame + payload.size(); }
};

struct Link::Receiving {
  Frame expected, frame;
  Incoming incoming;
  std::size_t header_done = 0, done = 0;  // done: bytes of incoming that are stored or added
  std::size_t waiting = 0;                // bytes in scratch that are not yet a whole element
  bool is_done() const { return done == incoming.into.size(); }
};

Link::Link(const RingOptions& options, Neighbours neighbours)
    : options_(options),
      neighbours_(std::move(neighbours)),
      next_((options.rank + 1) % options.world_size),
      previous_((options.rank + options.world_size - 1) % options.world_size),
      scratch_(kPiece) {}

void Link::abort(const std::string& cause) {
  {
    const std::lock_guard lock(cause_mutex_);
    if (cause_.empty()) cause_ = cause;
  }
  is_aborted_.store(true);
  // Wakes a poll on either socket; the neighbours see the end of the connection.
  ::shutdown(neighbours_.to_next.get(), SHUT_RDWR);
  ::shutdown(neighbours_.from_previous.get(), SHUT_RDWR);
}

tl::unexpected<Error> Link::lost(int peer, const std::string& what) {
  std::string message = "rank " + std::to_string(peer) + " at " +
                        options_.peers[static_cast<std::size_t>(peer)] + ": " + what;
  abort(message);  // so that the whole ring learns of it, one neighbour after the other
  const std::lock_guard lock(cause_mutex_);
  is_lost_ = cause_ == message;
  return fail(Code::kUnavailable, cause_);
}

// Of a socket call. Where the kernel has given up, it is the way to the machine that fails.
tl::unexpected<Error> Link::lost_by(int error, int peer) {
  if (is_unreached(error) && options_.on_unreached) options_.on_unreached(peer);
  return lost(peer, "connection lost (" + os::errno_text(error) + ")");
}

// What was sent is sent again and again, and nothing of it is acknowledged. A rank that is only
// slow does acknowledge: that its buffers are full.
bool Link::is_next_silent() {
  tcp_info info{};
  socklen_t length = sizeof info;
  const int fd = neighbours_.to_next.get();
  const bool is_known = ::getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length) == 0;
  if (!is_known || info.tcpi_unacked == 0 || info.tcpi_retransmits == 0) {
    next_silent_since_.reset();
    return false;
  }
  const SteadyPoint now = RealClock{}.steady_now();
  if (!next_silent_since_) next_silent_since_ = now;
  return now - *next_silent_since_ >= options_.silence_max &&
         std::chrono::milliseconds{info.tcpi_last_ack_recv} >= options_.silence_max;
}

Status Link::check(const Frame& expected, const Frame& got) const {
  if (got.magic == expected.magic && got.generation == expected.generation &&
      got.sequence == expected.sequence && got.operation == expected.operation &&
      got.bucket == expected.bucket && got.total == expected.total &&
      got.length == expected.length) {
    return {};
  }
  const std::string they = "rank " + std::to_string(previous_),
                    we = "rank " + std::to_string(options_.rank);
  if (got.magic != expected.magic)
    return fail(Code::kCorrupt, they + " sent something that is no frame");
  if (got.generation != expected.generation) {
    return fail(Code::kCorrupt, they + " is in generation " + std::to_string(got.generation) +
                                    ", " + we + " in " + std::to_string(expected.generation));
  }
  return fail(Code::kCorrupt, "ranks do different things: " + they + " is in " + describe(got) +
                                  ", " + we + " in " + describe(expected));
}

// Whether anything was sent.
Result<bool> Link::send_some(Sending& s) {
  std::array<iovec, 2> parts{};
  int count = 0;
  if (s.done < sizeof s.frame) {
    parts[0] = {reinterpret_cast<std::byte*>(&s.frame) + s.done, sizeof s.frame - s.done};
    count = 1;
  }
  const std::size_t sent_payload = s.done < sizeof s.frame ? 0 : s.done - sizeof s.frame;
  parts[static_cast<std::size_t>(count++)] = {
      const_cast<std::byte*>(s.payload.data()) + sent_payload,
      std::min(s.payload.size() - sent_payload, 4 * kPiece)};
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = static_cast<std::size_t>(count);
  const ssize_t sent = ::sendmsg(neighbours_.to_next.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent > 0) {
    s.done += static_cast<std::size_t>(sent);
    return true;
  }
  if (sent < 0 && (errno == EAGAIN || errno == EINTR)) return false;
  return lost_by(errno, next_);
}

// Whether anything arrived.
Result<bool> Link::receive_some(Receiving& r) {
  const bool is_header = r.header_done < sizeof r.frame;
  const bool is_stored = r.incoming.arrival == Arrival::kStore;
  const std::size_t left = r.incoming.into.size() - r.done;
  std::byte* to = scratch_.data() + r.waiting;
  std::size_t room = std::min(kPiece, left) - r.waiting;
  if (is_header) {
    to = reinterpret_cast<std::byte*>(&r.frame) + r.header_done;
    room = sizeof r.frame - r.header_done;
  } else if (is_stored) {
    to = r.incoming.into.data() + r.done;
    room = left;
  }
  const ssize_t got = ::recv(neighbours_.from_previous.get(), to, room, MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return false;
  if (got < 0) return lost_by(errno, previous_);
  if (got == 0) return lost(previous_, "connection closed");
  const auto bytes = static_cast<std::size_t>(got);
  if (is_header) {
    r.header_done += bytes;
    if (r.header_done == sizeof r.frame) {
      if (const Status status = check(r.expected, r.frame); !status) {
        abort(status.error().message);
        return tl::make_unexpected(status.error());
      }
    }
    return true;
  }
  if (is_stored) {
    r.done += bytes;
    return true;
  }
  const std::size_t size = element_bytes(r.incoming.arrival);
  const std::size_t available = r.waiting + bytes, whole = available / size * size;
  std::byte* sum = r.incoming.into.data() + r.done;
  add(r.incoming.arrival, whole / size, scratch_.data(), sum);
  r.done += whole;
  r.waiting = available - whole;
  std::memmove(scratch_.data(), scratch_.data() + whole, r.waiting);
  return true;
}

Status Link::wait(bool is_sending, bool is_receiving, SteadyPoint deadline) {
  const auto left =
      std::chrono::duration_cast<std::chrono::milliseconds>(deadline - RealClock{}.steady_now());
  // Only the side that is waited for: the other neighbour may have finished and gone in peace. If
  // it died, the ring falls apart behind it, and the news arrives from the previous rank.
  std::array<pollfd, 3> waiting{
      pollfd{is_sending ? neighbours_.to_next.get() : -1, POLLOUT, 0},
      pollfd{is_receiving ? neighbours_.from_previous.get() : -1, POLLIN, 0},
      pollfd{options_.abort_fd, POLLIN, 0}};
  const int turn = static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, kTurnMs));
  const int ready = ::poll(waiting.data(), waiting.size(), turn);
  if (ready > 0 && waiting[2].revents != 0) abort("told to park");
  if (ready == 0 && is_next_silent()) return lost_by(ETIMEDOUT, next_);
  if (ready == 0 && left.count() <= kTurnMs) {
    const int peer = is_receiving ? previous_ : next_;
    return lost(peer, "nothing moved within " +
                          std::to_string(options_.call_deadline.count() / 1000) + " s");
  }
  return {};
}

Status Link::exchange(const Frame& frame, std::span<const std::byte> outgoing,
                      const Incoming& incoming) {
  Sending sending{frame, outgoing};
  sending.frame.rank = static_cast<std::uint32_t>(options_.rank);
  sending.frame.generation = options_.generation;
  sending.frame.length = outgoing.size();
  Receiving receiving{sending.frame, {}, incoming};
  receiving.expected.length = incoming.into.size();
  const SteadyPoint begin = RealClock{}.steady_now();
  next_silent_since_.reset();
  if (std::exchange(sequence_, frame.sequence) != frame.sequence) begun_ = exchanges_ = 0;
  Status moved = move(sending, receiving, begin + options_.call_deadline);
  count_begun(receiving);
  if (moved) {
    ++exchanges_;
  } else if (moved.error().code == Code::kUnavailable) {
    const std::chrono::nanoseconds stall = std::min(kStall, options_.call_deadline / 2);
    if (is_lost_ || RealClock{}.steady_now() - begin >= stall)
      moved.error().message += "; " + verdict(receiving, begin);
  }
  return moved;
}

// The frame of exchange k has come through k + 1 ranks; of a broadcast this rank knows of the one
// before it alone.
void Link::count_begun(const Receiving& receiving) {
  if (receiving.header_done < sizeof receiving.frame) return;
  const int ranks = receiving.expected.operation == Operation::kBroadcast
                        ? 1
                        : static_cast<int>(std::min<std::uint64_t>(
                              exchanges_ + 1, static_cast<std::uint64_t>(options_.world_size)));
  begun_ = std::max(begun_, std::min(ranks, options_.world_size - 1));
}

std::string Link::verdict(const Receiving& receiving, SteadyPoint since) const {
  const Frame& frame = receiving.expected;
  return verdict_of({.rank = options_.rank,
                     .world_size = options_.world_size,
                     .operation = name_of(frame.operation),
                     .sequence = frame.sequence,
                     .bucket = frame.bucket,
                     .is_broadcast = frame.operation == Operation::kBroadcast,
                     .begun = begun_,
                     .may_have_begun = begun_ == 0 && exchanges_ > 0,
                     .is_receiving = !receiving.is_done(),
                     .waited = RealClock{}.steady_now() - since});
}

Status Link::move(Sending& sending, Receiving& receiving, SteadyPoint deadline) {
  while (!sending.is_done() || !receiving.is_done()) {
    if (is_aborted_.load()) {
      const std::lock_guard lock(cause_mutex_);
      return fail(Code::kUnavailable, cause_);
    }
    turns_.fetch_add(1, std::memory_order_relaxed);
    bool has_moved = false;
    if (!sending.is_done()) {
      PAWL_TRY(moved, send_some(sending));
      has_moved = moved;
    }
    if (!receiving.is_done()) {
      PAWL_TRY(moved, receive_some(receiving));
      has_moved = has_moved || moved;
    }
    if (!has_moved) PAWL_TRY_VOID(wait(!sending.is_done(), !receiving.is_done(), deadline));
  }
  return {};
}

}  // namespace pawl::collective
