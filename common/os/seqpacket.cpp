#include "common/os/seqpacket.h"

#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>
#include <array>
#include <cerrno>
#include <cstring>

#include "common/base/check.h"
#include "common/os/process.h"

namespace pawl::os {
namespace {
constexpr std::size_t kFdsMax = 8;
using ControlBuffer = std::array<char, CMSG_SPACE(sizeof(int) * kFdsMax)>;

std::vector<Fd> take_fds(msghdr& header) {
  std::vector<Fd> fds;
  for (cmsghdr* part = CMSG_FIRSTHDR(&header); part != nullptr; part = CMSG_NXTHDR(&header, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    std::array<int, kFdsMax> numbers{};
    std::memcpy(numbers.data(), CMSG_DATA(part), count * sizeof(int));
    for (std::size_t i = 0; i < count; ++i) fds.emplace_back(numbers[i]);
  }
  return fds;
}

}  // namespace

Result<std::pair<Fd, Fd>> seqpacket_pair() {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    return fail(Code::kIo, "socketpair: " + errno_text());
  }
  return std::pair{Fd{ends[0]}, Fd{ends[1]}};
}

Status send_packet(int fd, std::string_view text, const std::vector<int>& fds) {
  PAWL_CHECK(text.size() <= kPacketBytesMax && fds.size() <= kFdsMax, "packet too large");
  iovec part{const_cast<char*>(text.data()), text.size()};
  alignas(cmsghdr) ControlBuffer control{};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  if (!fds.empty()) {
    header.msg_control = control.data();
    header.msg_controllen = CMSG_SPACE(sizeof(int) * fds.size());
    cmsghdr* rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof(int) * fds.size());
    std::memcpy(CMSG_DATA(rights), fds.data(), sizeof(int) * fds.size());
  }
  while (::sendmsg(fd, &header, MSG_NOSIGNAL) < 0) {
    if (errno != EINTR) return fail(Code::kUnavailable, "send: " + errno_text());
  }
  return {};
}

Result<std::optional<Packet>> receive_packet(int fd, std::chrono::milliseconds timeout) {
  pollfd waiting{fd, POLLIN, 0};
  const int ready = ::poll(&waiting, 1, static_cast<int>(timeout.count()));
  if (ready < 0 && errno != EINTR) return fail(Code::kIo, "poll: " + errno_text());
  if (ready <= 0) return std::optional<Packet>{};
  std::string text(kPacketBytesMax, '\0');
  iovec part{text.data(), text.size()};
  alignas(cmsghdr) ControlBuffer control{};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control.data();
  header.msg_controllen = control.size();
  const ssize_t length = ::recvmsg(fd, &header, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
  if (length < 0 && (errno == EAGAIN || errno == EINTR)) return std::optional<Packet>{};
  if (length <= 0) return fail(Code::kUnavailable, "the other end is gone");
  text.resize(static_cast<std::size_t>(length));
  return std::optional<Packet>{Packet{std::move(text), take_fds(header)}};
}

Result<Fd> create_memfd(const std::string& name, std::size_t bytes) {
  Fd fd{::memfd_create(name.c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING)};
  if (!fd.is_open() || ::ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0) {
    return fail(Code::kIo, "memfd of " + std::to_string(bytes) + " bytes: " + errno_text());
  }
  return fd;
}

}  // namespace pawl::os
