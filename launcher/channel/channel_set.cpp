#include "launcher/channel/channel_set.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <unistd.h>
#include <utility>

#include "common/os/process.h"
#include "common/os/seqpacket.h"

namespace pawl::launcher {

namespace channel = api::channel;

namespace {

// Nobody may shrink it while it is mapped here.
Result<os::Fd> make_memory(const char* name, std::uint64_t bytes) {
  PAWL_TRY(memory, os::create_memfd(name, bytes));
  if (::fcntl(memory.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0)
    return fail(Code::kIo, "sealing shared memory: " + os::errno_text());
  return memory;
}

}  // namespace

ChannelSet::ChannelSet(Poller& poller, Log& log, OnMessage on_message)
    : poller_(poller), log_(log), on_message_(std::move(on_message)) {}

ChannelSet::~ChannelSet() {
  for (const auto& [local_rank, one] : channels_) {
    if (one.socket.is_open()) poller_.remove(one.socket.get());
  }
}

Result<ChannelSet::Inherited> ChannelSet::open(int local_rank) {
  PAWL_TRY(ends, os::seqpacket_pair());
  PAWL_TRY(page, make_memory("pawl-pulse", sizeof(api::PulsePage)));
  PAWL_TRY(pulse, os::SharedMemory::map(page.get(), sizeof(api::PulsePage)));
  // Only our end: a process that does not read must not stop the launcher.
  PAWL_TRY_VOID(os::set_nonblocking(ends.first.get(), true));
  Channel& one = channels_[local_rank];
  // A child of the process before it may still hold the other end.
  if (one.socket.is_open()) poller_.remove(one.socket.get());
  one = Channel{};
  one.socket = std::move(ends.first);
  one.pulse = std::move(pulse);
  poller_.add(one.socket.get(), EPOLLIN, [this, local_rank](std::uint32_t) { drain(local_rank); });
  return Inherited{std::move(ends.second), std::move(page)};
}

const api::PulsePage* ChannelSet::pulse(int local_rank) const {
  const auto found = channels_.find(local_rank);
  if (found == channels_.end() || found->second.pulse.bytes().empty()) return nullptr;
  return reinterpret_cast<const api::PulsePage*>(found->second.pulse.bytes().data());
}

Status ChannelSet::send(int local_rank, const channel::ToProcess& message) {
  const auto found = channels_.find(local_rank);
  if (found == channels_.end() || !found->second.socket.is_open())
    return fail(Code::kNotFound, "the process has hung up");
  const std::string text = channel::encode(message);
  const Status sent =
      text.size() > os::kPacketBytesMax
          ? Status{fail(Code::kInvalid, "message of " + std::to_string(text.size()) + " bytes")}
          : os::send_packet(found->second.socket.get(), text);
  if (!sent)
    log_.warning("channel_send_failed", {{"rank", local_rank}, {"error", sent.error().message}});
  return sent;
}

void ChannelSet::drain(int local_rank) {
  while (true) {
    Channel& one = channels_[local_rank];
    if (!one.socket.is_open()) return;
    auto packet = os::receive_packet(one.socket.get(), std::chrono::milliseconds{0});
    if (!packet) {
      poller_.remove(one.socket.get());
      one.socket.reset();
      return;
    }
    if (!*packet) return;
    on_packet(local_rank, (*packet)->text);
  }
}

void ChannelSet::on_packet(int local_rank, const std::string& text) {
  const auto message = channel::decode_from_process(text);
  if (!message) {
    log_.warning("channel_message_ignored",
                 {{"rank", local_rank}, {"error", message.error().message}});
    return;
  }
  if (const auto* wanted = std::get_if<channel::Buffers>(&*message)) {
    give_buffers(local_rank, wanted->bytes);
    return;
  }
  if (const auto* sealed = std::get_if<channel::Sealed>(&*message);
      sealed != nullptr && !buffer(local_rank, sealed->buffer, sealed->bytes)) {
    log_.warning("channel_message_ignored",
                 {{"rank", local_rank}, {"error", "sealed a buffer that it has not"}});
    return;
  }
  on_message_(local_rank, *message);
}

void ChannelSet::give_buffers(int local_rank, std::uint64_t bytes) {
  Channel& one = channels_[local_rank];
  std::vector<int> fds;
  for (os::Fd& buffer : one.buffers) {
    auto memory = make_memory("pawl-checkpoint", bytes);
    if (!memory) {
      log_.error("buffers_failed", {{"rank", local_rank}, {"error", memory.error().message}});
      return;
    }
    buffer = std::move(*memory);
    fds.push_back(buffer.get());
  }
  one.buffer_bytes = bytes;
  const Status sent = os::send_packet(
      one.socket.get(), channel::encode(channel::ToProcess{channel::BuffersReady{}}), fds);
  if (!sent)
    log_.warning("channel_send_failed", {{"rank", local_rank}, {"error", sent.error().message}});
}

Result<os::Fd> ChannelSet::buffer(int local_rank, int index, std::uint64_t bytes) const {
  const auto found = channels_.find(local_rank);
  if (found == channels_.end() || index < 0 || index > 1 || bytes > found->second.buffer_bytes) {
    return fail(Code::kInvalid, "the training process sealed a buffer that it was not given");
  }
  os::Fd copy{
      ::fcntl(found->second.buffers[static_cast<std::size_t>(index)].get(), F_DUPFD_CLOEXEC, 3)};
  if (!copy.is_open()) return fail(Code::kIo, "dup: " + os::errno_text());
  return copy;
}

}  // namespace pawl::launcher
