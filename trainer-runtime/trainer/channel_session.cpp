#include "trainer-runtime/trainer/channel_session.h"

#include <poll.h>
#include <sys/mman.h>

#include "common/os/process.h"
#include "common/os/real_clock.h"
#include "common/os/seqpacket.h"

namespace pawl::trainer {
namespace {

using namespace api::channel;
using std::chrono::milliseconds;

constexpr std::chrono::minutes kBuffersDeadline{10};

}  // namespace

ChannelSession::ChannelSession(os::Fd channel, Signals& signals)
    : channel_(std::move(channel)), reader_(channel_.get()), signals_(signals) {}

ChannelSession::~ChannelSession() {
  for (const Buffer& buffer : buffers_) {
    if (!buffer.memory.empty()) ::munmap(buffer.memory.data(), buffer.memory.size());
  }
}

Status ChannelSession::send(const FromProcess& message) {
  return os::send_packet(channel_.get(), encode(message));
}

// Takes all messages that are there; waits for the first one, or a signal, up to `timeout`.
Status ChannelSession::pump(milliseconds timeout) {
  PAWL_TRY(incoming, reader_.take(timeout, signals_.fd()));
  if (signals_.has_come()) orders_.is_stopping = orders_.is_saving = true;
  for (ChannelReader::Incoming& one : incoming)
    PAWL_TRY_VOID(take(one.message, std::move(one.fds)));
  return {};
}

Status ChannelSession::take(const ToProcess& message, std::vector<os::Fd> fds) {
  if (const auto* welcome = std::get_if<Welcome>(&message)) {
    welcome_ = *welcome;
  } else if (std::get_if<BuffersReady>(&message) != nullptr) {
    return map_buffers(fds);
  } else if (const auto* released = std::get_if<Released>(&message)) {
    if (released->buffer != 0 && released->buffer != 1)
      return fail(Code::kInvalid, "the launcher released an unknown buffer");
    Buffer& buffer = buffers_[static_cast<std::size_t>(released->buffer)];
    buffer.is_free = !buffer.memory.empty();
  } else if (std::get_if<CheckpointNow>(&message) != nullptr) {
    orders_.is_checkpoint_wanted = true;
  } else if (const auto* stop = std::get_if<Stop>(&message)) {
    orders_.is_stopping = true;
    orders_.is_saving = orders_.is_saving || stop->is_saving;
  }
  return {};
}

Status ChannelSession::map_buffers(const std::vector<os::Fd>& fds) {
  if (fds.size() != buffers_.size())
    return fail(Code::kInvalid, "the launcher sent " + std::to_string(fds.size()) + " buffers");
  for (std::size_t i = 0; i < fds.size(); ++i) {
    if (!buffers_[i].memory.empty()) ::munmap(buffers_[i].memory.data(), buffers_[i].memory.size());
    void* memory =
        ::mmap(nullptr, buffer_bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, fds[i].get(), 0);
    if (memory == MAP_FAILED)
      return fail(Code::kIo, "mapping a checkpoint buffer: " + os::errno_text());
    buffers_[i] = {{static_cast<std::byte*>(memory), buffer_bytes_}, true};
  }
  return {};
}

Result<Welcome> ChannelSession::join(const Hello& hello) {
  PAWL_TRY_VOID(send(hello));
  return wait_for_place();
}

Result<Welcome> ChannelSession::park(const Parked& parked) {
  PAWL_TRY_VOID(send(parked));
  return wait_for_place();
}

Result<Welcome> ChannelSession::wait_for_place() {
  welcome_.reset();
  while (!welcome_ && !orders_.is_stopping) PAWL_TRY_VOID(pump(milliseconds{60'000}));
  // A gang that was at rest may be at work again only to save: both orders come at once.
  if (welcome_ && orders_.is_saving) return *welcome_;
  if (orders_.is_stopping) return fail(Code::kCancelled, "stopped before the gang was formed");
  return *welcome_;
}

Result<Orders> ChannelSession::poll() {
  PAWL_TRY_VOID(pump(milliseconds{0}));
  return orders_;
}

Status ChannelSession::report(const Report& report) { return send(report); }
Status ChannelSession::done(std::int64_t step) { return send(Done{step}); }

Status ChannelSession::request_buffers(std::size_t bytes) {
  if (bytes == buffer_bytes_) return {};
  if (buffer_bytes_ > 0) PAWL_TRY_VOID(wait_for_buffers());
  for (Buffer& buffer : buffers_) buffer.is_free = false;
  buffer_bytes_ = bytes;
  return send(Buffers{bytes});
}

std::optional<int> ChannelSession::free_buffer() const {
  for (std::size_t i = 0; i < buffers_.size(); ++i) {
    if (buffers_[i].is_free) return static_cast<int>(i);
  }
  return std::nullopt;
}

std::span<std::byte> ChannelSession::buffer(int number) {
  return buffers_[static_cast<std::size_t>(number)].memory;
}

Status ChannelSession::seal(const Sealed& sealed) {
  buffers_[static_cast<std::size_t>(sealed.buffer)].is_free = false;
  orders_.is_checkpoint_wanted = false;  // and not before: a rank's storage may be behind
  return send(sealed);
}

Status ChannelSession::wait_for_buffers() {
  const RealClock clock;
  const SteadyPoint deadline = clock.steady_now() + kBuffersDeadline;
  while (!buffers_[0].is_free || !buffers_[1].is_free) {
    if (clock.steady_now() > deadline)
      return fail(Code::kUnavailable, "the launcher did not store the checkpoint in time");
    if (reader_.is_parking())
      return fail(Code::kUnavailable, "told to park while a checkpoint is stored");
    PAWL_TRY_VOID(pump(milliseconds{1'000}));
  }
  return {};
}

namespace {

class ChannelSink final : public saving::CheckpointSink {
 public:
  ChannelSink(ChannelSession& session, saving::Shard shard, bool is_leader)
      : session_(session), shard_(std::move(shard)), is_leader_(is_leader) {}

  bool is_saving() const override { return true; }
  bool is_ready() const override { return session_.free_buffer().has_value(); }
  Status drain() override { return session_.wait_for_buffers(); }

  Status seal(const saving::TrainerState& state, const optim::TrainingArrays& arrays) override {
    const auto free = session_.free_buffer();
    if (!free) return fail(Code::kUnavailable, "no checkpoint buffer is free");
    shard_.fill(arrays, session_.buffer(*free));
    return session_.seal({.buffer = *free,
                          .step = state.step,
                          .bytes = shard_.bytes(),
                          .manifest_json = is_leader_ ? saving::encode_state(state) : ""});
  }

 private:
  ChannelSession& session_;
  saving::Shard shard_;
  bool is_leader_;
};

}  // namespace

std::unique_ptr<saving::CheckpointSink> make_channel_sink(ChannelSession& session,
                                                          saving::Shard shard, bool is_leader) {
  return std::make_unique<ChannelSink>(session, std::move(shard), is_leader);
}

}  // namespace pawl::trainer
