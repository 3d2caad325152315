// A descriptor that lines go to, whose reader may stall. Used by the log pump's and the log
// writer's threads: writing waits for the reader, as long as the owner is not ending; then for half
// a second in all. Does not own the descriptor. One thread, but for the flag.
#pragma once

#include <atomic>
#include <string_view>

namespace pawl::launcher {

class Output {
 public:
  Output(int fd, const std::atomic<bool>& is_ending) : fd_(fd), is_ending_(is_ending) {}
  // The whole text, unless nobody reads any more.
  void write(std::string_view text);

 private:
  const int fd_;
  const std::atomic<bool>& is_ending_;
  int waits_left_ = 5;  // while ending
};

}  // namespace pawl::launcher
