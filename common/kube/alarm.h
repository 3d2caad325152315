// One delayed piece of work at a time, on a thread of its own. For the Informer; thread-safe.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>

namespace pawl::kube {

class Alarm {
 public:
  Alarm();
  ~Alarm() { stop(); }
  Alarm(const Alarm&) = delete;
  Alarm& operator=(const Alarm&) = delete;

  // Runs `work` after `delay`, instead of what was waiting.
  void arm(std::chrono::milliseconds delay, std::function<void()> work);
  // Drops what waits and joins the thread; nothing runs afterwards. Not from `work`.
  void stop();

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::function<void()> work_;
  std::chrono::steady_clock::time_point due_;
  bool is_stopped_ = false;
  std::thread thread_;
};

}  // namespace pawl::kube
