#include "launcher/supervisor/log_pump.h"

#include <poll.h>
#include <unistd.h>
#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <map>
#include <thread>
#include <utility>
#include <vector>

#include "common/api/contract.h"
#include "common/base/log.h"
#include "launcher/loop/inbox.h"
#include "launcher/supervisor/output.h"

namespace pawl::launcher {
namespace {

constexpr std::size_t kLineBytesMax = 64 * 1024;

// The last bytes of it, at most `limit` after what is no valid text was replaced.
std::string end_of(const std::string& tail, std::size_t limit) {
  std::string text = replace_invalid_utf8(tail);
  if (text.size() > limit) text.erase(0, text.size() - limit);
  while (!text.empty() && (static_cast<unsigned char>(text.front()) & 0xc0) == 0x80) {
    text.erase(0, 1);
  }
  return text;
}

}  // namespace

class LogPump::Impl {
 public:
  Impl(bool prefixes, int out, int err, std::shared_ptr<Inbox> inbox)
      : prefixes_(prefixes),
        inbox_(std::move(inbox)),
        out_(out, is_ending_),
        err_(err, is_ending_) {
    thread_ = std::thread([this] { run(); });
  }
  ~Impl() {
    is_ending_ = true;  // at once: the thread may be waiting for a reader
    inbox_->post([this] { has_ended_ = true; });
    thread_.join();
  }

  void post(Inbox::Task task) { inbox_->post(std::move(task)); }

  // The rest runs on the pump's thread.
  void add(int local_rank, os::Fd pipe, bool is_err) {
    (void)os::set_nonblocking(pipe.get(), true);
    streams_.push_back({local_rank, std::move(pipe), is_err, {}});
  }
  void set_first_rank(int rank) { first_rank_ = rank; }
  // Another process has this rank now.
  void forget_tail(int local_rank) { tails_.erase(local_rank); }
  std::string tail(int local_rank) {
    for (Stream& stream : streams_) {
      if (stream.local_rank == local_rank) drain(stream);
    }
    // Two pipes have no order between them, so each stream keeps its own end: a traceback on
    // standard error is not lost behind what came last on standard output.
    const std::size_t limit = api::kLogTailBytesMax;
    const Tail& tail = tails_[local_rank];
    const std::size_t out_kept = std::min(tail.out.size(), limit / 4);
    const std::string err = end_of(tail.err, limit - out_kept);
    return end_of(tail.out, limit - err.size()) + err;
  }

 private:
  struct Tail {
    std::string out, err;
  };
  struct Stream {
    int local_rank = 0;
    os::Fd pipe;
    bool is_err = false;
    std::string line;  // begun, not yet ended; only where lines get a prefix
  };

  void run() {
    while (!has_ended_) {
      std::vector<pollfd> waiting{{inbox_->fd(), POLLIN, 0}};
      for (const Stream& stream : streams_) waiting.push_back({stream.pipe.get(), POLLIN, 0});
      if (::poll(waiting.data(), waiting.size(), -1) < 0) continue;
      // First, whether or not it was ready then: what a process was told before it wrote a line
      // (its rank) was posted before the line.
      inbox_->drain();
      for (std::size_t i = 1; i < waiting.size(); ++i) {
        if (waiting[i].revents != 0) read_once(streams_[i - 1]);
      }
      std::erase_if(streams_, [](const Stream& stream) { return !stream.pipe.is_open(); });
    }
    for (Stream& stream : streams_) {
      drain(stream);
      flush(stream);
    }
  }

  // False when there is nothing to read now.
  bool read_once(Stream& stream) {
    if (!stream.pipe.is_open()) return false;
    std::array<char, 16'384> piece{};
    const ssize_t count = ::read(stream.pipe.get(), piece.data(), piece.size());
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) return false;
    if (count <= 0) {
      flush(stream);
      stream.pipe.reset();
      return false;
    }
    take(stream, {piece.data(), static_cast<std::size_t>(count)});
    return true;
  }
  void drain(Stream& stream) {
    while (read_once(stream)) {
    }
  }

  void take(Stream& stream, std::string_view text) {
    Tail& both = tails_[stream.local_rank];
    std::string& tail = stream.is_err ? both.err : both.out;
    tail.append(text);
    const std::size_t limit = api::kLogTailBytesMax;
    if (tail.size() > 2 * limit) tail.erase(0, tail.size() - limit);
    if (!prefixes_) return output(stream).write(text);
    stream.line.append(text);
    std::size_t end = 0;
    std::string lines;
    while ((end = stream.line.find('\n')) != std::string::npos) {
      lines += prefix(stream) + stream.line.substr(0, end + 1);
      stream.line.erase(0, end + 1);
    }
    output(stream).write(lines);
    if (stream.line.size() > kLineBytesMax) flush(stream);
  }
  void flush(Stream& stream) {
    if (!stream.line.empty()) output(stream).write(prefix(stream) + stream.line + "\n");
    stream.line.clear();
  }
  Output& output(const Stream& stream) { return stream.is_err ? err_ : out_; }
  std::string prefix(const Stream& stream) const {
    return "[" + std::to_string(first_rank_ + stream.local_rank) + "] ";
  }

  const bool prefixes_;
  std::shared_ptr<Inbox> inbox_;
  std::atomic<bool> is_ending_ = false;
  Output out_, err_;  // of the thread, as all that follows
  std::vector<Stream> streams_;
  std::map<int, Tail> tails_;
  int first_rank_ = 0;
  bool has_ended_ = false;
  std::thread thread_;
};

LogPump::LogPump(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
LogPump::~LogPump() = default;

Result<std::unique_ptr<LogPump>> LogPump::start(bool prefixes, int out, int err) {
  PAWL_TRY(inbox, Inbox::create());
  return std::unique_ptr<LogPump>(
      new LogPump(std::make_unique<Impl>(prefixes, out, err, std::move(inbox))));
}

void LogPump::add(int local_rank, os::Fd out, os::Fd err) {
  auto pipes = std::make_shared<std::pair<os::Fd, os::Fd>>(std::move(out), std::move(err));
  impl_->post([impl = impl_.get(), local_rank, pipes] {
    impl->forget_tail(local_rank);
    impl->add(local_rank, std::move(pipes->first), false);
    impl->add(local_rank, std::move(pipes->second), true);
  });
}

void LogPump::set_first_rank(int rank) {
  impl_->post([impl = impl_.get(), rank] { impl->set_first_rank(rank); });
}

void LogPump::ask_tail(int local_rank, std::function<void(std::string)> answer) {
  impl_->post([impl = impl_.get(), local_rank, answer = std::move(answer)] {
    answer(impl->tail(local_rank));
  });
}

}  // namespace pawl::launcher
