// Starts the real pawl-train and plays the launcher's end of its channel.
#pragma once

#include <sys/socket.h>
#include <unistd.h>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "common/api/channel.h"
#include "common/os/seqpacket.h"
#include "tests/integration/trainer/process.h"

namespace pawl::test {

namespace channel = api::channel;

// One process with its channel. A thread answers it as a launcher does: buffers when it asks for
// them, and, unless told otherwise, the release of what it sealed.
class Launched {
 public:
  Launched(const std::vector<std::string>& arguments, const std::string& log_path) {
    auto ends = *os::seqpacket_pair();
    socket_ = std::move(ends.first);
    process_ = std::make_unique<Process>(
        arguments,
        std::map<std::string, std::string>{{"PAWL_CHANNEL_FD", std::to_string(ends.second.get())}},
        log_path, ends.second.get());
    thread_ = std::thread([this] { run(); });
  }
  ~Launched() {
    close();
    thread_.join();
  }
  Process& process() { return *process_; }
  void send(const channel::ToProcess& message) {
    static_cast<void>(os::send_packet(socket_.get(), channel::encode(message)));
  }
  // The launcher dies.
  void close() { ::shutdown(socket_.get(), SHUT_RDWR); }
  void set_releasing(bool is_releasing) {
    const std::lock_guard lock(mutex_);
    is_releasing_ = is_releasing;
  }

  // The next message of this kind, in the order of sending; the others before it are dropped. Empty
  // when the process ended, or nothing came within 30 s.
  template <typename T>
  std::optional<T> next() {
    std::unique_lock lock(mutex_);
    while (changed_.wait_for(lock, std::chrono::seconds{30},
                             [&] { return !messages_.empty() || is_over_; })) {
      if (messages_.empty()) return std::nullopt;
      const channel::FromProcess message = std::move(messages_.front());
      messages_.pop_front();
      if (const auto* wanted = std::get_if<T>(&message)) return *wanted;
    }
    return std::nullopt;
  }
  std::vector<channel::Sealed> sealed() {
    const std::lock_guard lock(mutex_);
    return sealed_;
  }
  // The newest step that was reported, and so may be published.
  std::int64_t confirmed() {
    const std::lock_guard lock(mutex_);
    return confirmed_;
  }
  // What is in a buffer now.
  std::vector<std::byte> content(const channel::Sealed& of) {
    const std::lock_guard lock(mutex_);
    std::vector<std::byte> bytes(of.bytes);
    const ssize_t count =
        ::pread(buffers_[static_cast<std::size_t>(of.buffer)].get(), bytes.data(), bytes.size(), 0);
    bytes.resize(count < 0 ? 0 : static_cast<std::size_t>(count));
    return bytes;
  }

 private:
  void run() {
    while (true) {
      auto packet = os::receive_packet(socket_.get(), std::chrono::seconds{60});
      if (packet && !*packet) continue;
      const auto message = packet ? channel::decode_from_process((*packet)->text)
                                  : tl::make_unexpected(packet.error());
      const std::lock_guard lock(mutex_);
      is_over_ = !message;
      if (message) handle(*message);
      if (message) messages_.push_back(*message);
      changed_.notify_all();
      if (!message) return;
    }
  }
  void handle(const channel::FromProcess& message) {
    if (const auto* report = std::get_if<channel::Report>(&message)) confirmed_ = report->step;
    if (const auto* wanted = std::get_if<channel::Buffers>(&message)) {
      buffers_.clear();
      std::vector<int> numbers;
      for (const char* name : {"buffer-0", "buffer-1"}) {
        buffers_.push_back(*os::create_memfd(name, wanted->bytes));
        numbers.push_back(buffers_.back().get());
      }
      static_cast<void>(os::send_packet(
          socket_.get(), channel::encode(channel::ToProcess{channel::BuffersReady{}}), numbers));
    } else if (const auto* one = std::get_if<channel::Sealed>(&message)) {
      sealed_.push_back(*one);
      if (is_releasing_) send(channel::Released{one->buffer});
    }
  }

  os::Fd socket_;
  std::unique_ptr<Process> process_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<channel::FromProcess> messages_;
  std::vector<os::Fd> buffers_;
  std::vector<channel::Sealed> sealed_;
  std::int64_t confirmed_ = 0;
  bool is_releasing_ = true, is_over_ = false;
  std::thread thread_;
};

}  // namespace pawl::test
