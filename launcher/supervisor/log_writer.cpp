#include "launcher/supervisor/log_writer.h"

#include <poll.h>
#include <atomic>
#include <string>
#include <thread>
#include <utility>

#include "launcher/loop/inbox.h"
#include "launcher/supervisor/output.h"

namespace pawl::launcher {

class LogWriter::Impl {
 public:
  Impl(int fd, std::shared_ptr<Inbox> inbox) : inbox_(std::move(inbox)), output_(fd, is_ending_) {
    thread_ = std::thread([this] { run(); });
  }
  ~Impl() { finish(); }

  void finish() {
    if (is_ending_.exchange(true)) return;
    inbox_->post([this] { has_ended_ = true; });
    thread_.join();
  }

  void write(std::string_view line) {
    if (waiting_ >= kLinesMax || is_ending_) {
      ++dropped_;
      return;
    }
    ++waiting_;
    inbox_->post([this, text = std::string{line}] {
      output_.write(text);
      --waiting_;
      if (const int dropped = dropped_.exchange(0); dropped > 0) {
        output_.write("{\"event\":\"log_lines_dropped\",\"lines\":" + std::to_string(dropped) +
                      "}\n");
      }
    });
  }

 private:
  void run() {
    while (!has_ended_) {
      pollfd waiting{inbox_->fd(), POLLIN, 0};
      ::poll(&waiting, 1, -1);
      inbox_->drain();
    }
  }

  std::shared_ptr<Inbox> inbox_;
  std::atomic<bool> is_ending_ = false;
  std::atomic<int> waiting_ = 0, dropped_ = 0;
  Output output_;           // of the thread
  bool has_ended_ = false;  // of the thread
  std::thread thread_;
};

LogWriter::LogWriter(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
LogWriter::~LogWriter() = default;

Result<std::unique_ptr<LogWriter>> LogWriter::start(int fd) {
  PAWL_TRY(inbox, Inbox::create());
  return std::unique_ptr<LogWriter>(new LogWriter(std::make_unique<Impl>(fd, std::move(inbox))));
}

void LogWriter::finish() { impl_->finish(); }
void LogWriter::write(std::string_view line) { impl_->write(line); }

}  // namespace pawl::launcher
