// The local processes' sockets and checkpoint buffers: decodes what they say, hands out two shared
// memory buffers each, keeps those after the process is gone. Owner thread only, driven by Poller.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/api/channel.h"
#include "common/base/log.h"
#include "common/os/fd.h"
#include "launcher/loop/poller.h"

namespace pawl::launcher {

class ChannelSet {
 public:
  using OnMessage = std::function<void(int local_rank, const api::channel::FromProcess& message)>;
  ChannelSet(Poller& poller, Log& log, OnMessage on_message);
  ~ChannelSet();

  // The end for the process to inherit; close it after the start.
  Result<os::Fd> open(int local_rank);
  // NotFound when the process has hung up, which its exit will tell.
  Status send(int local_rank, const api::channel::ToProcess& message);
  // Reads everything that is there, also after the process ended.
  void drain(int local_rank);
  // A duplicate of the buffer's descriptor for the writer thread; Invalid for a buffer or length
  // that was never given.
  Result<os::Fd> buffer(int local_rank, int index, std::uint64_t bytes) const;

 private:
  struct Channel {
    os::Fd socket;
    std::array<os::Fd, 2> buffers;
    std::uint64_t buffer_bytes = 0;
  };
  void on_packet(int local_rank, const std::string& text);
  void give_buffers(int local_rank, std::uint64_t bytes);

  Poller& poller_;
  Log& log_;
  OnMessage on_message_;
  std::map<int, Channel> channels_;
};

}  // namespace pawl::launcher
