#include "trainer-runtime/trainer/channel_reader.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <array>
#include <utility>

#include "common/base/check.h"
#include "common/os/seqpacket.h"

namespace pawl::trainer {
namespace {

using namespace api::channel;

os::Fd make_event() {
  os::Fd event{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  PAWL_CHECK(event.is_open(), "no event descriptor");
  return event;
}

}  // namespace

ChannelReader::ChannelReader(int channel)
    : channel_(channel),
      park_(make_event()),
      arrived_(make_event()),
      end_(make_event()),
      thread_([this] { run(); }) {}

ChannelReader::~ChannelReader() {
  ::eventfd_write(end_.get(), 1);
  thread_.join();
}

void ChannelReader::run() {
  while (true) {
    std::array<pollfd, 2> waiting{pollfd{channel_, POLLIN, 0}, pollfd{end_.get(), POLLIN, 0}};
    ::poll(waiting.data(), waiting.size(), -1);
    if (waiting[1].revents != 0 || !read_one()) return;
  }
}

bool ChannelReader::read_one() {
  auto packet = os::receive_packet(channel_, std::chrono::milliseconds{0});
  if (packet && !*packet) return true;
  auto message = packet ? decode_to_process((*packet)->text)
                        : Result<ToProcess>{tl::make_unexpected(packet.error())};
  if (packet && !message && message.error().code == Code::kNotFound) return true;  // of a newer one
  const std::lock_guard lock(mutex_);
  if (message) {
    if (std::holds_alternative<Park>(*message)) {
      is_parking_ = true;
      ::eventfd_write(park_.get(), 1);
    }
    eventfd_t ignored = 0;
    if (std::holds_alternative<Welcome>(*message)) {
      is_parking_ = false;
      ::eventfd_read(park_.get(), &ignored);
    }
    queue_.push_back({std::move(*message), std::move((*packet)->fds)});
  } else {
    error_ = message.error();
  }
  ::eventfd_write(arrived_.get(), 1);
  return !error_;
}

Result<std::vector<ChannelReader::Incoming>> ChannelReader::take(std::chrono::milliseconds timeout,
                                                                 int other_fd) {
  std::array<pollfd, 2> waiting{pollfd{arrived_.get(), POLLIN, 0}, pollfd{other_fd, POLLIN, 0}};
  ::poll(waiting.data(), waiting.size(), static_cast<int>(timeout.count()));
  const std::lock_guard lock(mutex_);
  // After the end it stays readable: nobody waits for what cannot come.
  eventfd_t ignored = 0;
  if (!error_) ::eventfd_read(arrived_.get(), &ignored);
  std::vector<Incoming> taken = std::exchange(queue_, {});
  if (taken.empty() && error_) return tl::make_unexpected(*error_);
  return taken;
}

}  // namespace pawl::trainer
