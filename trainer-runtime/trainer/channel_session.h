// The trainer's end of a launcher's channel (common/api/channel.h): greeting, orders, reports, and
// the two buffers for checkpoints that belong to the launcher, so that a sealed checkpoint outlives
// this process. One thread.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <span>

#include "trainer-runtime/saving/sink.h"
#include "trainer-runtime/trainer/channel_reader.h"
#include "trainer-runtime/trainer/session.h"
#include "trainer-runtime/trainer/signals.h"

namespace pawl::trainer {

class ChannelSession final : public Session {
 public:
  // `channel` is the inherited socket.
  ChannelSession(os::Fd channel, Signals& signals);
  ~ChannelSession() override;
  // Says hello and waits until the launcher forms the gang. Cancelled: it, or a signal, said stop
  // instead.
  Result<api::channel::Welcome> join(const api::channel::Hello& hello);
  // Says that this rank contributes to nothing any more, and waits for its next place; as join.
  Result<api::channel::Welcome> park(const api::channel::Parked& parked);
  // For RingOptions::abort_fd: readable while the launcher wants this rank parked.
  int park_fd() const { return reader_.park_fd(); }

  Result<Orders> poll() override;
  bool is_parking() const override { return reader_.is_parking(); }
  Status report(const api::channel::Report& report) override;
  Status done(std::int64_t step) override;

  // Asks for two buffers; they come with a later message. Those of another size are given up first,
  // once the launcher has stored what is in them.
  Status request_buffers(std::size_t bytes);
  // Number of a buffer that may be filled, if there is one.
  std::optional<int> free_buffer() const;
  std::span<std::byte> buffer(int number);
  Status seal(const api::channel::Sealed& sealed);
  // Returns when the buffers are here and the launcher has released both. Unavailable after ten
  // minutes.
  Status wait_for_buffers();

 private:
  struct Buffer {
    std::span<std::byte> memory;
    bool is_free = false;
  };
  Status send(const api::channel::FromProcess& message);
  Result<api::channel::Welcome> wait_for_place();
  Status pump(std::chrono::milliseconds timeout);
  Status take(const api::channel::ToProcess& message, std::vector<os::Fd> fds);
  Status map_buffers(const std::vector<os::Fd>& fds);

  os::Fd channel_;
  ChannelReader reader_;
  Signals& signals_;
  Orders orders_;
  std::optional<api::channel::Welcome> welcome_;
  std::size_t buffer_bytes_ = 0;
  std::array<Buffer, 2> buffers_;
};

// Seals into the launcher's buffers.
std::unique_ptr<saving::CheckpointSink> make_channel_sink(ChannelSession& session,
                                                          saving::Shard shard, bool is_leader);

}  // namespace pawl::trainer
