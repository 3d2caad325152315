#include "launcher/loop/poller.h"

#include <sys/epoll.h>
#include <array>
#include <cerrno>
#include <utility>

#include "common/base/check.h"
#include "common/os/process.h"

namespace pawl::launcher {

Result<std::unique_ptr<Poller>> Poller::create() {
  os::Fd epoll{::epoll_create1(EPOLL_CLOEXEC)};
  if (!epoll.is_open()) return fail(Code::kIo, "epoll_create1: " + os::errno_text());
  return std::unique_ptr<Poller>(new Poller(std::move(epoll)));
}

void Poller::add(int fd, std::uint32_t epoll_events, Handler handler) {
  const std::uint64_t key = ++last_key_;
  epoll_event event{};
  event.events = epoll_events;
  event.data.u64 = key;
  PAWL_CHECK(::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0, "epoll_ctl add");
  keys_[fd] = key;
  handlers_[key] = std::make_shared<Handler>(std::move(handler));
}

void Poller::modify(int fd, std::uint32_t epoll_events) {
  const auto found = keys_.find(fd);
  if (found == keys_.end()) return;
  epoll_event event{};
  event.events = epoll_events;
  event.data.u64 = found->second;
  PAWL_CHECK(::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd, &event) == 0, "epoll_ctl modify");
}

void Poller::remove(int fd) {
  const auto found = keys_.find(fd);
  if (found == keys_.end()) return;
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
  handlers_.erase(found->second);
  keys_.erase(found);
}

void Poller::run_once(std::chrono::milliseconds timeout) {
  std::array<epoll_event, 64> events{};
  const int count = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()),
                                 static_cast<int>(timeout.count()));
  PAWL_CHECK(count >= 0 || errno == EINTR, "epoll_wait");
  for (int i = 0; i < count; ++i) {
    const auto& event = events[static_cast<std::size_t>(i)];
    const auto found = handlers_.find(event.data.u64);
    if (found == handlers_.end()) continue;
    const auto handler = found->second;  // it may remove itself while it runs
    (*handler)(event.events);
  }
}

}  // namespace pawl::launcher
