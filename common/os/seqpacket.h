// One datagram socket between a launcher and a training process: whole messages, with file
// descriptors attached where a message needs them (SCM_RIGHTS). An end belongs to one thread for
// receiving; send is atomic per message, so any thread may send.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/os/fd.h"

namespace pawl::os {

struct Packet {
  std::string text;
  std::vector<Fd> fds;
};

inline constexpr std::size_t kPacketBytesMax = 128 * 1024;

// Two connected ends; both close-on-exec.
Result<std::pair<Fd, Fd>> seqpacket_pair();
// Unavailable when the other end is gone.
Status send_packet(int fd, std::string_view text, const std::vector<int>& fds = {});
// Empty when nothing came within `timeout` (0 = do not wait); Unavailable when the other end is
// gone.
Result<std::optional<Packet>> receive_packet(int fd, std::chrono::milliseconds timeout);

// Anonymous shared memory of `bytes`, close-on-exec.
Result<Fd> create_memfd(const std::string& name, std::size_t bytes);

}  // namespace pawl::os
