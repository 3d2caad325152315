// The local processes' sockets, checkpoint buffers and pulses: decodes what they say, hands out two
// shared memory buffers each, keeps those after the process is gone. Owner thread only, driven by
// Poller.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/api/channel.h"
#include "common/api/pulse.h"
#include "common/base/log.h"
#include "common/os/fd.h"
#include "common/os/shared_memory.h"
#include "launcher/loop/poller.h"

namespace pawl::launcher {

class ChannelSet {
 public:
  using OnMessage = std::function<void(int local_rank, const api::channel::FromProcess& message)>;
  ChannelSet(Poller& poller, Log& log, OnMessage on_message);
  ~ChannelSet();

  struct Inherited {
    os::Fd socket, pulse;
  };
  // For the process to inherit; close them after the start.
  Result<Inherited> open(int local_rank);
  // NotFound when the process has hung up, which its exit will tell.
  Status send(int local_rank, const api::channel::ToProcess& message);
  // Reads everything that is there, also after the process ended.
  void drain(int local_rank);
  // Null before open().
  const api::PulsePage* pulse(int local_rank) const;
  // A duplicate of the buffer's descriptor for the writer thread; Invalid for a buffer or length
  // that was never given.
  Result<os::Fd> buffer(int local_rank, int index, std::uint64_t bytes) const;

 private:
  struct Channel {
    os::Fd socket;
    os::SharedMemory pulse;
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
