// The owner thread's wait: descriptors with a handler each, on epoll. Handlers may add and remove
// descriptors, their own too; a removed one is never called again. Owner thread only.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>

#include "common/base/result.h"
#include "common/os/fd.h"

namespace pawl::launcher {

class Poller {
 public:
  using Handler = std::function<void(std::uint32_t epoll_events)>;

  static Result<std::unique_ptr<Poller>> create();
  void add(int fd, std::uint32_t epoll_events, Handler handler);
  void modify(int fd, std::uint32_t epoll_events);
  void remove(int fd);  // before it is closed
  // Handles what is ready, waiting up to `timeout` for the first.
  void run_once(std::chrono::milliseconds timeout);

 private:
  explicit Poller(os::Fd epoll) : epoll_(std::move(epoll)) {}
  os::Fd epoll_;
  std::uint64_t last_key_ = 0;
  std::map<int, std::uint64_t>
      keys_;  // a descriptor number may be reused within one turn; a key is not
  std::map<std::uint64_t, std::shared_ptr<Handler>> handlers_;
};

}  // namespace pawl::launcher
