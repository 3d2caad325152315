// Reads the launcher's channel on a thread of its own, so that an order to park also reaches a rank
// that waits for another one inside a collective. Everything else waits in a queue until the
// training thread takes it; the launcher sends a handful of messages a generation. The public side
// belongs to one thread.
#pragma once

#include <atomic>
#include <chrono>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "common/api/channel.h"
#include "common/os/fd.h"

namespace pawl::trainer {

class ChannelReader {
 public:
  struct Incoming {
    api::channel::ToProcess message;
    std::vector<os::Fd> fds;
  };
  // `channel` stays open until this is gone.
  explicit ChannelReader(int channel);
  ~ChannelReader();
  ChannelReader(const ChannelReader&) = delete;
  ChannelReader& operator=(const ChannelReader&) = delete;

  // All that has come; waits up to `timeout` for the first, or until `other_fd` can be read. After
  // the last message of a launcher that is gone: Unavailable, or what was wrong with a message.
  Result<std::vector<Incoming>> take(std::chrono::milliseconds timeout, int other_fd);
  // Readable from Park until the next Welcome.
  int park_fd() const { return park_.get(); }
  bool is_parking() const { return is_parking_; }

 private:
  void run();
  // False: nothing more will come.
  bool read_one();

  const int channel_;
  const os::Fd park_, arrived_, end_;
  std::atomic<bool> is_parking_ = false;
  std::mutex mutex_;
  std::vector<Incoming> queue_;
  std::optional<Error> error_;
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace pawl::trainer
